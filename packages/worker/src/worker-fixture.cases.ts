// What whole-worker tests share: uneven numbers, brute force, waiting, and the connection of a client.

import { canonicalScore, widenQueries } from "@winnow/accelerator";
import type { Announcement, TopKAsk } from "@winnow/cluster";
import { StringColumn, decodeProgramPackage, sleep, systemClock } from "@winnow/core";
import type { Tensor, VersionKey } from "@winnow/core";

import type { Found, TestRouter } from "./test-router.cases.ts";

/** Candidates of the tests' one model. */
export const ROWS = 700;
/** Values per row. */
export const DIM = 12;
/** Users of the tests' one model. */
export const USERS = 300;

/** The same numbers in every run, as uneven as float32 can be. */
export function noise(count: number, seed: number): Float32Array {
  return Float32Array.from({ length: count }, (_, index) => Math.sin(index * 12.9898 + seed) * 3);
}

/** Item ids; some stand in two rows. */
export const itemIds: readonly string[] = Array.from(
  { length: ROWS },
  (_, row) => `movie ${row % 650}`,
);
/** User ids; the table has a row for all others before theirs. */
export const userIds: readonly string[] = Array.from(
  { length: USERS },
  (_, user) => `user ${user}`,
);
/** Rows of the user table. */
export const userRows: Float32Array = noise((USERS + 1) * DIM, 2);

/** Rows of the candidate table of a version. */
export function candidateRows(seed: number): Float32Array {
  return noise(ROWS * DIM, seed);
}

/** The best items by the definition of the score, in the defined order. */
export function bruteForce(
  query: Float32Array,
  k: number,
  { excluded = [], seed = 1 }: { excluded?: readonly string[]; seed?: number } = {},
): Found[] {
  const wide = widenQueries(query, DIM)[0]!;
  const values = candidateRows(seed);
  return itemIds
    .map((id, row) => ({ row, score: canonicalScore(wide, values, row * DIM), id }))
    .filter(({ id }) => !excluded.includes(id))
    .toSorted((a, b) => b.score - a.score || a.row - b.row)
    .slice(0, k);
}

/** Asks for the best k of one query. */
export function topKAsk(query: Float32Array, k: number, excluded: readonly string[] = []): TopKAsk {
  const data = StringColumn.fromText(excluded);
  const list: Tensor = { dtype: "string", shape: [data.length], data };
  return { kind: "topK", k, queries: 1, vectors: query, excluded: [list], rowsOnly: false };
}

/** Waits for something that happens by itself, at most 8 s. */
export async function until(isTrue: () => boolean): Promise<void> {
  for (let waitedMs = 0; !isTrue(); waitedMs += 10) {
    if (waitedMs > 8000) throw new Error("waited 8 s in vain");
    await sleep(systemClock, 10);
  }
}

/** Whether a worker announces its whole share of a version. */
export function isWhole(announcement: Announcement | undefined, version = 1): boolean {
  const versions = announcement?.versions ?? [];
  return versions.some((each) => each.version === version && each.state === "ready");
}

/** The identity of a version as workers announce it. */
export function keyOf(client: TestRouter, version = 1): VersionKey {
  const holding = client.announcements
    .flatMap((each) => each?.versions ?? [])
    .find((each) => each.version === version);
  if (holding?.fingerprint === undefined) throw new Error("no fingerprint is known");
  return { model: "movies", version, fingerprint: holding.fingerprint };
}

/** Position of the table of this kind in a version's program, as the worker at `address` gives it. */
export async function tableOf(
  client: TestRouter,
  address: string,
  kind: "candidate" | "keyed",
): Promise<number> {
  const query = { version: keyOf(client), tableBytesMax: 0 };
  const { program } = decodeProgramPackage(await client.connector.program(address, query));
  return program.tables.findIndex((table) => table.kind === kind);
}
