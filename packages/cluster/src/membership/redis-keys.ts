// Names in the store; clusters of different names share one Redis without seeing each other.

/** The names one cluster uses. */
export interface RedisKeys {
  /** Sorted set of the ids that announced (pruned when long without a lease). */
  readonly members: string;
  /** Channel: somebody's record, or the order, has changed. */
  readonly changed: string;
  /** The models order, signed. */
  readonly order: string;
  /** A worker's record, expiring. */
  worker(id: string): string;
}

/** The names of a cluster: `winnow:<cluster>:…`. */
export function redisKeys(cluster: string): RedisKeys {
  const prefix = `winnow:${cluster}`;
  return {
    members: `${prefix}:members`,
    changed: `${prefix}:changed`,
    order: `${prefix}:order`,
    worker: (id) => `${prefix}:worker:${id}`,
  };
}
