// Announcements for tests, in few words.

import { fingerprint, incarnation, workerId } from "@winnow/core";
import type { Announcement, VersionHolding, WorkerState } from "./announcement.ts";

/** What a test wants to say of a version on one worker. */
export interface HoldingWords {
  readonly version: number;
  readonly state?: VersionHolding["state"];
  /** Held partitions of the one table, or by table. */
  readonly held?: readonly number[] | readonly (readonly number[])[];
  readonly partitions?: number;
  readonly serving?: boolean;
  readonly print?: string | undefined;
  readonly share?: (partition: number, table: number) => readonly number[];
  readonly model?: string;
}

/** What a test wants to say of a worker. */
export interface WorkerWords {
  readonly id: string;
  readonly state?: WorkerState;
  readonly incarnation?: number;
  readonly versions?: readonly HoldingWords[];
}

/** The content of version `n` in tests, unless told otherwise. */
export const printOf = (version: number): string => String(version).padStart(64, "0");

/** A worker's announcement; it holds 4 partitions of one table unless told otherwise. */
export function announced(words: WorkerWords): Announcement {
  return {
    workerId: workerId(words.id),
    incarnation: incarnation(words.incarnation ?? 1),
    address: `${words.id}:7600`,
    state: words.state ?? "ready",
    accelerator: "cpu",
    device: "test",
    memoryUsedBytes: 1,
    memoryCapacityBytes: 2,
    versions: (words.versions ?? []).map(holdingOf),
  };
}

function holdingOf(words: HoldingWords): VersionHolding {
  const { version, state = "ready", partitions = 4 } = words;
  const print = "print" in words ? words.print : printOf(version);
  const held = words.held ?? [0, 1, 2, 3];
  const byTable = (
    held.length > 0 && Array.isArray(held[0]) ? held : [held]
  ) as readonly (readonly number[])[];
  return {
    model: words.model ?? "movies",
    version,
    fingerprint: print === undefined ? undefined : fingerprint(print),
    state,
    error: state === "failed" ? { code: "DATA_LOSS", message: "rows are cut short" } : undefined,
    tables:
      print === undefined
        ? []
        : byTable.map((list, table) => ({
            table,
            partitions,
            held: list.map((partition) => ({
              partition,
              shares: words.share?.(partition, table) ?? [partition + 1],
            })),
          })),
    ...(words.serving === undefined ? {} : { serving: words.serving }),
  };
}
