// Asks a Redis server once whether it answers and could take announcements, for people who set a cluster up.

import { WinnowError, toWinnowError } from "@winnow/core";
import { endOnStrayAnswers } from "./redis-answers.ts";
import { accessOptions, checkedUrl } from "./redis-connection.ts";
import type { RedisAccess } from "./redis-connection.ts";
import { redisFault } from "./redis-fault.ts";
import { boundReplies } from "./redis-reply-bounds.ts";

const CONNECTION = {
  protocol: 2,
  connectTimeout: 2000,
  commandTimeout: 2000,
  maxRetriesPerRequest: 0,
  lazyConnect: true,
  retryStrategy: () => null,
} as const;

const READ_ONLY =
  "Redis is a replica that takes no writes: name its primary, to which workers announce themselves";

/**
 * The version of the Redis server at this URL.
 * @throws WinnowError UNAVAILABLE with the reason, FAILED_PRECONDITION for a replica that takes no writes,
 *   INVALID_ARGUMENT for a URL that is not one of Redis
 */
export async function probeRedis(url: string, access: RedisAccess = {}): Promise<string> {
  const [{ Redis }] = await Promise.all([import("ioredis"), endOnStrayAnswers()]);
  let fault: Error | undefined;
  const options = { ...CONNECTION, ...accessOptions(access) };
  const redis = new Redis(checkedUrl(url, access), options);
  boundReplies(redis);
  redis.on("error", (error) => (fault ??= error));
  try {
    await redis.connect();
    await redis.ping();
    const info = `${await redis.info("server")}${await redis.info("replication")}`;
    if (info.includes("slave_read_only:1")) throw new WinnowError("FAILED_PRECONDITION", READ_ONLY);
    return /redis_version:(\S+)/.exec(info)?.[1] ?? "of an unknown version";
  } catch (error) {
    if (error instanceof WinnowError) throw error;
    // Without a cause: an error of the client contains the command that failed, and so the password.
    const why = redisFault(fault ?? toWinnowError(error), url.startsWith("rediss:"));
    throw new WinnowError("UNAVAILABLE", `Redis does not answer: ${why}`);
  } finally {
    redis.disconnect();
  }
}
