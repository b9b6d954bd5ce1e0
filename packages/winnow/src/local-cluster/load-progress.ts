// How far a starting cluster has loaded, for a person who waits: the fraction of the intended replicas that
// the workers announce.

import { type Announcement, GrpcConnector } from "@winnow/cluster";
import { systemClock } from "@winnow/core";
import type { Progress } from "../progress-line.ts";

const LOOK_INTERVAL_MS = 250;
const DESCRIBE_TIMEOUT_MS = 500;

/** A version that is to be loaded. */
interface AwaitedVersion {
  readonly model: string;
  readonly version: number;
}

/**
 * Replicas held, and replicas intended. `undefined` while some awaited versions were neither opened by a
 * worker nor failed: the number of intended replicas would grow, and progress would run backwards.
 * @internal tests call it
 */
export function heldReplicas(
  announcements: readonly Announcement[],
  awaited: readonly AwaitedVersion[],
  replicas: (model: string) => number,
): { readonly held: number; readonly wanted: number } | undefined {
  const known = announcements.flatMap(({ versions }) => versions);
  const isKnown = ({ model, version }: AwaitedVersion): boolean =>
    known.some(
      (each) =>
        each.model === model &&
        each.version === version &&
        (each.tables.length > 0 || each.state === "failed"),
    );
  if (!awaited.every(isKnown)) return undefined;
  const wanted = new Map<string, number>();
  const held = new Map<string, number>();
  for (const { model, version, tables } of known) {
    for (const { table, partitions, held: parts } of tables) {
      const name = `${model}/${version}/${table}`;
      const intended = partitions * replicas(model);
      wanted.set(name, intended);
      // Workers may hold extra replicas of a table, which must not count for other tables.
      held.set(name, Math.min(intended, (held.get(name) ?? 0) + parts.length));
    }
  }
  return { held: sumOf(held), wanted: sumOf(wanted) };
}

const sumOf = (counts: ReadonlyMap<string, number>): number =>
  [...counts.values()].reduce((sum, count) => sum + count, 0);

/** Reports until the signal ends it. */
export async function watchLoading(
  cluster: {
    readonly workerAddresses: readonly string[];
    readonly versions: readonly AwaitedVersion[];
    readonly replicationOf: (model: string) => number;
  },
  progress: Progress,
  signal: AbortSignal,
): Promise<void> {
  const connector = new GrpcConnector(systemClock);
  let shown = 0;
  while (!signal.aborted) {
    const answers = await Promise.allSettled(
      cluster.workerAddresses.map((address) => connector.describe(address, DESCRIBE_TIMEOUT_MS)),
    );
    const known = answers.flatMap((answer) =>
      answer.status === "fulfilled" ? [answer.value] : [],
    );
    const replicas = heldReplicas(known, cluster.versions, cluster.replicationOf);
    // The last report ends the line, so it waits for the caller's signal that everything is loaded.
    if (replicas !== undefined && replicas.held < replicas.wanted && !signal.aborted) {
      progress(replicas.held, (shown = replicas.wanted));
    }
    await new Promise<void>((resolve) => {
      systemClock.setTimer(LOOK_INTERVAL_MS, resolve);
    });
  }
  if (shown > 0) progress(shown, shown);
  connector.close();
}
