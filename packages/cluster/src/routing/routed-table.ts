// Which workers can answer for each partition of one table. A worker reads only its own rows, so no
// process has seen the whole file: the checksum shares of all partitions must add up to the file's
// stored checksum, or the table is refused (S7). Two replicas that differ are never merged: the
// checksum decides which is right. Once a table has added up, the shares of that moment are the
// verified ones for as long as the version lives.

import type { TableSource, TableSpec, WorkerId } from "@winnow/core";
import type { Announcement, TableHolding } from "../announcement/announcement.ts";
import { planQueries } from "./query-plan.ts";
import type { Machines, QueryPlan } from "./query-plan.ts";

/** One table, and which workers can answer for each of its partitions. */
export interface RoutedTable {
  readonly table: number;
  readonly spec: TableSpec;
  /** Workers of each partition, ascending by id; workers in drain only where there is no other. */
  readonly replicas: readonly (readonly WorkerId[])[];
  /** The machines of those of these workers that share one. */
  readonly machines: Machines;
  /** Plans that spread a search evenly over workers and machines: to be used in rotation. */
  readonly plans: readonly QueryPlan[];
  /** Checksum shares of each partition, from its chosen replicas; kept when these go. */
  readonly shares: readonly (readonly number[] | undefined)[];
  /** Whether all shares have been seen and added up. */
  readonly verified: boolean;
  /** Position of the source whose shares are complete and do not add up. */
  readonly corruptSource: number | undefined;
  /** Replicas that are not used because their content differs from the chosen ones'. */
  readonly conflicts: readonly ReplicaConflict[];
}

/** A partition of which workers hold different contents. */
export interface ReplicaConflict {
  readonly partition: number;
  /** Workers whose replica is not used. */
  readonly unused: readonly WorkerId[];
}

/** A worker, and what it holds of this table. */
export interface TableHolder {
  readonly worker: Announcement;
  readonly holding: TableHolding;
}

/** Which table of which version. */
export interface TableFacts {
  readonly table: number;
  readonly spec: TableSpec;
  readonly previous: RoutedTable | undefined;
}

/** The fields of a table that decide whether shares add up. */
type StoredShape = Pick<TableSpec, "partitions" | "sources">;

/** Replicas of one partition that have equal shares. */
interface ReplicaGroup {
  readonly shares: readonly number[];
  readonly workers: Announcement[];
}

const CHOICES_TRIED_MAX = 4096;

/** Routes one table by what its holders (ascending by worker id) announce. */
export function routeTable(
  { table, spec, previous }: TableFacts,
  holders: readonly TableHolder[],
): RoutedTable {
  const groups = groupReplicas(spec, holders);
  const chosen = chooseGroups(spec, groups, previous);
  const shares = chosen.map((group, partition) => group?.shares ?? previous?.shares[partition]);
  const found = chosen.map((group) => answering(group?.workers ?? []));
  const machines = machinesOf(holders);
  const isKept = previous !== undefined && isSameRoute({ replicas: found, machines }, previous);
  // The previous lists if nothing changed, so that the plans need not be made again.
  const replicas = isKept ? previous.replicas : found;
  const isComplete = shares.every((share) => share !== undefined);
  const corruptSource = isComplete ? sourceThatDiffers(spec, shares) : undefined;
  return {
    table,
    spec,
    replicas,
    machines,
    plans: isKept ? previous.plans : planQueries(replicas, machines),
    shares,
    verified: isComplete && corruptSource === undefined,
    corruptSource,
    conflicts: groups.flatMap((of, partition) => conflictOf(of, chosen[partition], partition)),
  };
}

/** Whether the shares of a table's replicas add up to its stored checksums. */
export type TableProof =
  | { readonly kind: "incomplete" }
  /** `shares`: by partition, those that add up; `undefined` if a source has no checksum. */
  | { readonly kind: "proven"; readonly shares: readonly (readonly number[])[] | undefined }
  | { readonly kind: "corrupt"; readonly source: TableSource };

/** Judges a table as `routeTable` does; where replicas differ, one choice of them may add up. */
export function proveTable(spec: StoredShape, holders: readonly TableHolder[]): TableProof {
  const groups = groupReplicas(spec, holders);
  const chosen = chooseGroups(spec, groups, undefined);
  const shares = chosen.flatMap((group) => (group === undefined ? [] : [group.shares]));
  if (shares.length < spec.partitions) return { kind: "incomplete" };
  const position = sourceThatDiffers(spec, shares);
  const source = position === undefined ? undefined : spec.sources[position];
  if (source !== undefined) return { kind: "corrupt", source };
  const isDecided = spec.sources.every(({ checksum }) => checksum !== undefined);
  return { kind: "proven", shares: isDecided ? shares : undefined };
}

/** Holders of each partition, replicas with equal shares together, the largest group first. */
function groupReplicas(spec: StoredShape, holders: readonly TableHolder[]): ReplicaGroup[][] {
  const groups: ReplicaGroup[][] = Array.from({ length: spec.partitions }, () => []);
  for (const { worker, holding } of holders) {
    if (holding.partitions !== spec.partitions) continue;
    for (const { partition, shares } of holding.held) {
      const of = groups[partition];
      if (of === undefined || shares.length !== spec.sources.length) continue;
      const group = of.find((each) => haveEqualShares(each.shares, shares));
      if (group === undefined) of.push({ shares, workers: [worker] });
      else group.workers.push(worker);
    }
  }
  for (const of of groups) of.sort((a, b) => b.workers.length - a.workers.length);
  return groups;
}

/**
 * Chooses one group per partition. A verified table accepts only its verified shares. Otherwise,
 * where replicas differ, the first combination that gives the stored checksum is chosen; if there
 * is none (or a partition has no replica yet), the group that was in use before, else the largest.
 */
function chooseGroups(
  spec: StoredShape,
  groups: readonly (readonly ReplicaGroup[])[],
  previous: RoutedTable | undefined,
): readonly (ReplicaGroup | undefined)[] {
  const inUse = groups.map((of, partition) => {
    const known = previous?.shares[partition];
    return known && of.find((group) => haveEqualShares(group.shares, known));
  });
  if (previous?.verified === true) return inUse;
  const usual = groups.map((of, partition) => inUse[partition] ?? of[0]);
  const disputed = [...groups.keys()].filter((partition) => groups[partition]!.length > 1);
  if (disputed.length === 0 || usual.includes(undefined)) return usual;
  return combinationThatAddsUp(spec, groups, disputed) ?? usual;
}

function combinationThatAddsUp(
  spec: StoredShape,
  groups: readonly (readonly ReplicaGroup[])[],
  disputed: readonly number[],
): readonly ReplicaGroup[] | undefined {
  const sizes = disputed.map((partition) => groups[partition]!.length);
  const count = sizes.reduce((product, size) => product * size, 1);
  const isDecidable = spec.sources.some((source) => source.checksum !== undefined);
  if (!isDecidable) return undefined;
  for (let number = 0; number < Math.min(count, CHOICES_TRIED_MAX); number += 1) {
    let rest = number;
    const choice = groups.map((of) => of[0]!);
    for (const [index, partition] of disputed.entries()) {
      choice[partition] = groups[partition]![rest % sizes[index]!]!;
      rest = Math.floor(rest / sizes[index]!);
    }
    const shares = choice.map((group) => group.shares);
    if (sourceThatDiffers(spec, shares) === undefined) return choice;
  }
  return undefined;
}

/** The first source whose shares do not add up to its stored checksum. */
function sourceThatDiffers(
  spec: StoredShape,
  shares: readonly (readonly number[])[],
): number | undefined {
  const position = spec.sources.findIndex(({ checksum }, source) => {
    if (checksum === undefined) return false;
    return shares.reduce((sum, share) => sum ^ share[source]!, 0) >>> 0 !== checksum >>> 0;
  });
  return position < 0 ? undefined : position;
}

/** The workers that answer: those in drain only where there is no other. */
function answering(workers: readonly Announcement[]): readonly WorkerId[] {
  const lasting = workers.filter((worker) => worker.state !== "draining");
  return (lasting.length > 0 ? lasting : workers).map((worker) => worker.workerId);
}

function machinesOf(holders: readonly TableHolder[]): Machines {
  return new Map(
    holders.flatMap(({ worker: { workerId, machine } }) =>
      machine === undefined ? [] : [[workerId, machine] as const],
    ),
  );
}

/** What plans are made of. */
type Route = Pick<RoutedTable, "replicas" | "machines">;

function isSameRoute({ replicas, machines }: Route, before: Route): boolean {
  return (
    before.replicas.length === replicas.length &&
    replicas.every((of, partition) => {
      const previous = before.replicas[partition]!;
      return of.length === previous.length && of.every((worker, at) => worker === previous[at]);
    }) &&
    before.machines.size === machines.size &&
    [...machines].every(([worker, machine]) => before.machines.get(worker) === machine)
  );
}

function conflictOf(
  groups: readonly ReplicaGroup[],
  chosen: ReplicaGroup | undefined,
  partition: number,
): readonly ReplicaConflict[] {
  const unused = groups.filter((group) => group !== chosen).flatMap((group) => group.workers);
  if (unused.length === 0) return [];
  return [{ partition, unused: unused.map((worker) => worker.workerId) }];
}

/** Whether two replicas of a partition have equal content, by their checksum shares. */
export function haveEqualShares(a: readonly number[], b: readonly number[]): boolean {
  return a.length === b.length && a.every((share, index) => share === b[index]);
}
