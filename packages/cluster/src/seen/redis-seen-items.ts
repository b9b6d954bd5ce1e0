// Seen items in Redis. One command of bounded size for each key: SRANDMEMBER gives a whole set if it is no
// larger than its count, and otherwise as many members; ZREVRANGE gives the members with the largest scores.
// Commands under way are bounded, also if Redis hangs: a connection that leaves a command unanswered for half
// a second is closed and opened again, which ends all commands on it. Until the new connection is there,
// readings fail at once. A reply of more than `REPLY_BYTES_MAX` ends its connection in the same way.

import { WinnowError } from "@winnow/core";
import type { Redis } from "ioredis";
import type { OpenRedis } from "../membership/redis-connection.ts";
import type { SeenItems, SeenMembers, SeenQuestion } from "./seen-items.ts";

/** Members that all readings under way may give together. */
const MEMBERS_UNDER_WAY_MAX = 2 ** 20;
/** Bytes that may arrive before a reply is complete. */
const REPLY_BYTES_MAX = 16 * 2 ** 20;

/** Seen items in a Redis server; the connection is opened for the first reading. */
export class RedisSeenItems implements SeenItems {
  readonly #openRedis: OpenRedis;
  readonly #url: string;
  #redis: Redis | undefined;
  /** Readings that were made before the first connection was there. */
  readonly #opening: { readonly resolve: () => void; readonly reject: () => void }[] = [];
  #hasOpened = false;
  #underWay = 0;
  #bytesSinceReply = 0;

  constructor(openRedis: OpenRedis, url: string) {
    this.#openRedis = openRedis;
    this.#url = url;
  }

  async read({ key, type, countMax }: SeenQuestion): Promise<SeenMembers> {
    if (this.#underWay + countMax > MEMBERS_UNDER_WAY_MAX) {
      const text = `Readings of seen items for ${this.#underWay} members are under way`;
      throw new WinnowError(
        "RESOURCE_EXHAUSTED",
        `${text}; at most ${MEMBERS_UNDER_WAY_MAX} may be`,
      );
    }
    this.#underWay += countMax;
    try {
      this.#redis ??= this.#connect();
      if (!this.#hasOpened) await this.#opened();
      const members = await this.#ask(this.#redis, { key, type, countMax });
      return { members: members.slice(0, countMax), isCut: members.length > countMax };
    } finally {
      this.#underWay -= countMax;
    }
  }

  async #ask(redis: Redis, { key, type, countMax }: SeenQuestion): Promise<readonly Uint8Array[]> {
    try {
      // One more member than wanted is read from a set, which shows whether there are more.
      return type === "set"
        ? ((await redis.callBuffer("SRANDMEMBER", key, countMax + 1)) as Buffer[])
        : ((await redis.callBuffer("ZREVRANGE", key, 0, countMax - 1)) as Buffer[]);
    } catch (cause) {
      const message = cause instanceof Error ? cause.message : String(cause);
      // ioredis leaves a command that timed out in its queue until the connection ends.
      if (message === "Command timed out") redis.stream?.destroy();
      const text = `Redis does not tell what was seen: ${message}`;
      // An answer about this key: asked again, Redis would say the same.
      const code = message.startsWith("WRONGTYPE") ? "FAILED_PRECONDITION" : "UNAVAILABLE";
      throw new WinnowError(code, text, { cause });
    } finally {
      this.#bytesSinceReply = 0;
    }
  }

  #connect(): Redis {
    const redis = this.#openRedis(this.#url);
    // Commands of a connection that broke fail with it: asked again, a reply that is too large would end the
    // next one.
    redis.options.maxRetriesPerRequest = 0;
    redis.on("error", () => undefined); // Readings fail, and their answers say so.
    redis.on("connect", () => {
      this.#bytesSinceReply = 0;
      redis.stream.on("data", (chunk: Uint8Array) => {
        this.#bytesSinceReply += chunk.length;
        if (this.#bytesSinceReply > REPLY_BYTES_MAX) redis.stream.destroy();
      });
    });
    redis.on("ready", () => {
      this.#hasOpened = true;
      for (const { resolve } of this.#opening.splice(0)) resolve();
    });
    redis.on("close", () => {
      for (const { reject } of this.#opening.splice(0)) reject();
    });
    return redis;
  }

  /** Resolves when the first connection is there. @throws WinnowError UNAVAILABLE where it failed */
  #opened(): Promise<void> {
    return new Promise((resolve, reject) => {
      const text = "Redis with the seen items cannot be reached";
      const refuse = (): void => reject(new WinnowError("UNAVAILABLE", text));
      this.#opening.push({ resolve, reject: refuse });
    });
  }

  close(): void {
    this.#redis?.disconnect();
  }
}
