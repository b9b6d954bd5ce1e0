// How far a starting cluster has loaded, for a person who waits: the models that workers have yet to open, then
// the fraction of the intended replicas that the workers announce.

import { type Announcement, GrpcConnector } from "@winnow/cluster";
import { systemClock } from "@winnow/core";
import type { Progress, WaitingLine } from "../progress-line.ts";

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
  if (unopened(announcements, awaited).length > 0) return undefined;
  const known = announcements.flatMap(({ versions }) => versions);
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

/**
 * The awaited versions that no worker has opened and that did not fail either.
 * @internal tests call it
 */
export function unopened(
  announcements: readonly Announcement[],
  awaited: readonly AwaitedVersion[],
): readonly AwaitedVersion[] {
  const known = announcements.flatMap(({ versions }) => versions);
  return awaited.filter(
    ({ model, version }) =>
      !known.some(
        (each) =>
          each.model === model &&
          each.version === version &&
          // Pipelines and experiments have no tables when they are ready.
          (each.tables.length > 0 || each.state === "failed" || each.state === "ready"),
      ),
  );
}

const sumOf = (counts: ReadonlyMap<string, number>): number =>
  [...counts.values()].reduce((sum, count) => sum + count, 0);

/** What was shown last. */
interface Shown {
  readonly held: number;
  readonly wanted: number;
}

/**
 * Progress that never runs backwards. A worker that reads on all cores may miss a question for its state, and then
 * counts as it was; while it restarts, or a further version appears, what was shown stays.
 * @internal tests call it
 */
export class ForwardProgress {
  readonly #known = new Map<string, Announcement>();
  #shown: Shown = { held: 0, wanted: 0 };

  /** The latest announcements, by address. */
  take(answers: readonly (readonly [address: string, Announcement | undefined])[]): void {
    for (const [address, answer] of answers) {
      if (answer !== undefined) this.#known.set(address, answer);
    }
  }

  get announcements(): readonly Announcement[] {
    return [...this.#known.values()];
  }

  get shown(): Shown {
    return this.#shown;
  }

  /** Whether this is at least as far as what was shown; it is shown then. */
  advance(next: Shown): boolean {
    const { held, wanted } = this.#shown;
    if (next.held * wanted < held * next.wanted) return false;
    this.#shown = next;
    return true;
  }
}

/** Reports until the signal ends it. */
export async function watchLoading(
  cluster: {
    readonly workerAddresses: readonly string[];
    readonly versions: readonly AwaitedVersion[];
    readonly replicationOf: (model: string) => number;
  },
  shown: { readonly opening: WaitingLine; readonly loading: Progress },
  signal: AbortSignal,
): Promise<void> {
  const connector = new GrpcConnector(systemClock);
  const forward = new ForwardProgress();
  const asked = async (address: string) => {
    const answer = await connector.describe(address, DESCRIBE_TIMEOUT_MS).catch(() => undefined);
    return [address, answer] as const;
  };
  while (!signal.aborted) {
    forward.take(await Promise.all(cluster.workerAddresses.map(asked)));
    const { announcements } = forward;
    const left = unopened(announcements, cluster.versions);
    if (left.length > 0 && !signal.aborted) shown.opening.show(modelsText(left));
    const replicas = heldReplicas(announcements, cluster.versions, cluster.replicationOf);
    // The last report ends the line, so it waits for the caller's signal that everything is loaded.
    const isUnderWay = replicas !== undefined && replicas.held < replicas.wanted && !signal.aborted;
    if (isUnderWay && forward.advance(replicas)) shown.loading(replicas.held, replicas.wanted);
    await new Promise<void>((resolve) => {
      systemClock.setTimer(LOOK_INTERVAL_MS, resolve);
    });
  }
  const { wanted } = forward.shown;
  if (wanted > 0) shown.loading(wanted, wanted);
  else shown.opening.clear();
  connector.close();
}

const NAMES_MAX = 4;

function modelsText(versions: readonly AwaitedVersion[]): string {
  const names = versions.slice(0, NAMES_MAX).map(({ model }) => model);
  const more = versions.length - names.length;
  return more > 0 ? `${names.join(", ")} and ${more} more` : names.join(", ");
}
