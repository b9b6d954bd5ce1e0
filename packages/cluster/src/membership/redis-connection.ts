// The connection to the store. The client library is loaded on first use: a process with a fixed
// list of members starts without it. Certificates, authorities and passwords may be replaced while the
// process runs: each new connection uses those in force.

import type { Redis, RedisOptions } from "ioredis";
import { WinnowError, systemClock } from "@winnow/core";
import type { TlsSource } from "../tls/tls-files.ts";
import { secureOptions } from "../tls/tls-material.ts";
import { endOnStrayAnswers } from "./redis-answers.ts";
import { RefusedReply, boundReplies } from "./redis-reply-bounds.ts";

/** Opens a connection to the store; the connection reconnects by itself whenever it breaks. */
export type OpenRedis = (url: string) => Redis;

/** How this process authenticates itself to Redis, and how it verifies Redis. */
export interface RedisAccess {
  /** Certificates for `rediss://`. Default: no own certificate, and the authorities that Node trusts. */
  readonly tls?: TlsSource | undefined;
  /** Overrides the user in the URL. */
  readonly user?: string | undefined;
  /** Gives the current password; overrides the one in the URL. */
  readonly password?: (() => string | undefined) | undefined;
}

/** Commands fail rather than queue: every write is idempotent and repeated within a second. */
const CONNECTION = {
  protocol: 2,
  commandTimeout: 500,
  connectTimeout: 1000,
  maxRetriesPerRequest: 1,
  enableOfflineQueue: false,
  autoResubscribe: false,
} as const;

/** Ms between attempts to connect: more with each one that fails. */
const RETRY_MS = 50;
const RETRY_MS_MAX = 500;
/** Ms after an answer that was refused: each may cost as much as a whole reading of the store. */
const REFUSED_RETRY_MS = 2000;
/** Ms between connections that are opened anew because the server takes no writes. */
const READ_ONLY_RETRY_MS = 10_000;

/** Loads the client library. */
export async function loadRedis(access: RedisAccess = {}): Promise<OpenRedis> {
  const [{ Redis: Client }] = await Promise.all([import("ioredis"), endOnStrayAnswers()]);
  return (url) => {
    let isRefused = false;
    const retryStrategy = (attempt: number): number => {
      const delayMs = isRefused ? REFUSED_RETRY_MS : Math.min(RETRY_MS * attempt, RETRY_MS_MAX);
      isRefused = false;
      return delayMs;
    };
    const options = {
      ...CONNECTION,
      retryStrategy,
      reconnectOnError: movedPrimary(),
      ...accessOptions(access),
    };
    const redis = new Client(checkedUrl(url, access), options);
    boundReplies(redis);
    redis.on("error", (error) => (isRefused ||= error instanceof RefusedReply));
    // The client reads its options again for each connection.
    redis.on("close", () => Object.assign(redis.options, accessOptions(access)));
    return redis;
  };
}

/**
 * Whether an error means that the connection may lead elsewhere when it is opened anew. After a failover the name or the
 * address in front of Redis leads to the new primary, but open connections stay with the old one, which is a replica now
 * and refuses all writes.
 */
function movedPrimary(): (error: Error) => boolean {
  let sinceMs = Number.NEGATIVE_INFINITY;
  return ({ message }) => {
    const nowMs = systemClock.nowMs();
    // Behind other words where a script wrote.
    if (!message.includes("READONLY") || nowMs - sinceMs < READ_ONLY_RETRY_MS) return false;
    sinceMs = nowMs;
    return true;
  };
}

/** Options for a connection that is opened now. */
export function accessOptions({
  tls,
  user,
  password,
}: RedisAccess): Pick<RedisOptions, "tls" | "username" | "password"> {
  const given = password?.();
  return {
    ...(tls !== undefined && { tls: secureOptions(tls.material) }),
    ...(user !== undefined && { username: user }),
    ...(given !== undefined && { password: given }),
  };
}

/**
 * The URL, if it is one of Redis and fits the other settings. Errors do not contain its password.
 * @throws WinnowError INVALID_ARGUMENT
 */
export function checkedUrl(url: string, { tls }: RedisAccess): string {
  const { protocol } = URL.canParse(url) ? new URL(url) : { protocol: "" };
  if (protocol !== "redis:" && protocol !== "rediss:") {
    const text = "The URL of Redis must be redis://[user:password@]host:port[/db], or rediss://";
    throw new WinnowError("INVALID_ARGUMENT", text);
  }
  if (tls !== undefined && protocol === "redis:") {
    const text = "Certificates for Redis are of no use with redis://: write rediss://";
    throw new WinnowError("INVALID_ARGUMENT", text);
  }
  return url;
}
