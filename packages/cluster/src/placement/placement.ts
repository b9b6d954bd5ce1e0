// Which workers should hold which partitions: a pure function of names, equal in every process.

import { WinnowError } from "@winnow/core";
import type { WorkerId } from "@winnow/core";

/** How partitions are spread. */
export interface PlacementOptions {
  /** Replicas of each partition; at most one per worker. */
  readonly replication: number;
  /** Most replicas of one worker ÷ the mean. Default 1.25. */
  readonly loadRatioMax?: number;
}

/**
 * The name a partition is placed by. Without the version: a newer version of the same table lies
 * where the older one does, so a swap moves no rows between workers.
 */
export function partitionName(model: string, table: string, partition: number): string {
  return `${model}/${table}/p${partition}`;
}

/** The names of all partitions of one table, see `partitionName`. */
export function partitionNames(
  model: string,
  table: { readonly name: string; readonly partitions: number },
): string[] {
  return Array.from({ length: table.partitions }, (_, partition) =>
    partitionName(model, table.name, partition),
  );
}

/** The intended owners of each partition, by position in `partitions`, best first. */
export function place(
  partitions: readonly string[],
  workers: readonly WorkerId[],
  options: PlacementOptions,
): readonly (readonly WorkerId[])[] {
  throw new WinnowError(
    "UNIMPLEMENTED",
    `${partitions.length}${workers.length}${options.replication}`,
  );
}
