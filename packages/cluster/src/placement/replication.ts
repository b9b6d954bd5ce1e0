// How many replicas each partition is to have: one number for all models, and others for those that were
// told. All processes of a cluster must be told the same.

/** Replicas of each partition, at most one per worker. */
export interface Replication {
  readonly replication: number;
  /** Of models that are to have more or fewer, by name. */
  readonly modelReplication?: ReadonlyMap<string, number> | undefined;
}

/** Replicas that each partition of a model is to have. */
export function replicationOf(
  model: string,
  { replication, modelReplication }: Replication,
): number {
  return modelReplication?.get(model) ?? replication;
}
