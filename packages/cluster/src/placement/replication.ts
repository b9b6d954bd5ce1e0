// How many replicas each partition should have: one number for all models, and exceptions for
// single models. All processes of a cluster must be configured with the same numbers.

/** Replicas of each partition, at most one per worker. */
export interface Replication {
  readonly replication: number;
  /** Exceptions: replicas of each partition, by the model's name. */
  readonly modelReplication?: ReadonlyMap<string, number> | undefined;
  /** Replicas of each partition of a version and of the one that replaces it, meanwhile. Absent: all. */
  readonly swapReplicas?: number | undefined;
}

/** Replicas that each partition of a model should have. */
export function replicationOf(
  model: string,
  { replication, modelReplication }: Replication,
): number {
  return modelReplication?.get(model) ?? replication;
}

/** Replicas that each partition of a version should have while one version of the model replaces another one. */
export function swapReplicasOf(model: string, replication: Replication): number {
  return Math.min(replication.swapReplicas ?? Infinity, replicationOf(model, replication));
}
