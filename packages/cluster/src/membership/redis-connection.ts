// How the store is connected to. The client is loaded by those who have a store alone: a process with a
// fixed list of members starts without it.

import type { Redis } from "ioredis";

/** Opens a connection to the store, which opens itself again whenever it breaks. */
export type OpenRedis = (url: string) => Redis;

/** Commands fail rather than queue: an idempotent write comes again within a second anyway. */
const CONNECTION = {
  protocol: 2,
  commandTimeout: 500,
  connectTimeout: 1000,
  maxRetriesPerRequest: 1,
  enableOfflineQueue: false,
  autoResubscribe: false,
  retryStrategy: (attempt: number) => Math.min(50 * attempt, 500),
} as const;

/** Loads the client. */
export async function loadRedis(): Promise<OpenRedis> {
  const { Redis: Client } = await import("ioredis");
  return (url) => new Client(url, CONNECTION);
}
