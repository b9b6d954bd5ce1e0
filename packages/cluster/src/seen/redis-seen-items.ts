// Seen items in Redis. One command of bounded size for each key: SRANDMEMBER gives a whole set if it is no
// larger than its count, and otherwise as many members; ZREVRANGE gives the members with the largest scores.
// Commands under way are bounded, also if Redis hangs: a connection that leaves a command unanswered for half
// a second is closed and opened again, which ends all commands on it. Until the new connection is there,
// readings fail at once, and the log says once why. A reply of more than `REPLY_BYTES_MAX` ends its connection in the same way.
// Replies come in the order of their commands, so the first command without a reply is the one whose reply was too long. Its
// key is not read again for a while: one user would otherwise end the connection of all again and again.

import { type Environment, type Logger, WinnowError, excerpt } from "@winnow/core";
import type { Redis } from "ioredis";
import type { OpenRedis } from "../membership/redis-connection.ts";
import { isUnconnected, redisFault } from "../membership/redis-fault.ts";
import type { SeenItems, SeenMembers, SeenQuestion } from "./seen-items.ts";

/** Members that all readings under way may give together. */
const MEMBERS_UNDER_WAY_MAX = 2 ** 20;
/** Bytes that may arrive before a reply is complete. */
const REPLY_BYTES_MAX = 4 * 2 ** 20;
/** Ms for which a key is not read whose reply has ended the connection. */
const REFUSED_MS = 60_000;
/** Such keys that are remembered, the last ones. */
const REFUSED_KEYS_MAX = 1024;

/** Seen items in a Redis server; the connection is opened for the first reading. */
export class RedisSeenItems implements SeenItems {
  readonly #openRedis: OpenRedis;
  readonly #url: string;
  readonly #log: Logger;
  readonly #clock: Environment["clock"];
  #redis: Redis | undefined;
  /** Readings that were made before the first connection was there. */
  readonly #opening: { readonly resolve: () => void; readonly reject: () => void }[] = [];
  #hasOpened = false;
  /** Why the last connection broke or failed; `undefined` while there is one. */
  #connectionFault: Error | undefined;
  /** Whether the log has that items are not read, and not yet that they are again. */
  #isFailureTold = false;
  #underWay = 0;
  #bytesSinceReply = 0;
  /** Commands without a reply, in the order in which they were sent. */
  readonly #asked = new Set<{ readonly key: string }>();
  /** Keys that are not read, with the time until which they are not; the first is the oldest. */
  readonly #refusedKeys = new Map<string, number>();

  constructor(
    openRedis: OpenRedis,
    url: string,
    { log, clock }: Pick<Environment, "log" | "clock">,
  ) {
    this.#openRedis = openRedis;
    this.#url = url;
    this.#log = log;
    this.#clock = clock;
  }

  async read({ key, type, countMax }: SeenQuestion): Promise<SeenMembers> {
    this.#assertReadable(key);
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
    const command = { key };
    this.#asked.add(command);
    try {
      // One more member than wanted is read from a set, which shows whether there are more.
      const asked =
        type === "set"
          ? redis.callBuffer("SRANDMEMBER", key, countMax + 1)
          : redis.callBuffer("ZREVRANGE", key, 0, countMax - 1);
      const members = (await asked) as Buffer[];
      this.#tellAnswer();
      return members;
    } catch (cause) {
      const fault = cause instanceof Error ? cause : new Error(String(cause));
      const { message } = fault;
      // ioredis leaves a command that timed out in its queue until the connection ends.
      if (message === "Command timed out") {
        if (this.#bytesSinceReply > 0) this.#refuseFirst();
        redis.stream?.destroy();
      }
      const text = `Redis does not tell what was seen: ${message}`;
      // An answer about this key: asked again, Redis would say the same.
      const code = message.startsWith("WRONGTYPE") ? "FAILED_PRECONDITION" : "UNAVAILABLE";
      if (code === "UNAVAILABLE") this.#tellFailure(fault);
      throw new WinnowError(code, text, { cause });
    } finally {
      this.#asked.delete(command);
      this.#bytesSinceReply = 0;
    }
  }

  /** @throws WinnowError UNAVAILABLE for a key that is not to be read again yet */
  #assertReadable(key: string): void {
    const untilMs = this.#refusedKeys.get(key);
    if (untilMs === undefined) return;
    if (this.#clock.nowMs() < untilMs) {
      const text = "Redis holds more under a key than can be read of what one user has seen";
      throw new WinnowError("UNAVAILABLE", `${text}: at most ${REPLY_BYTES_MAX} bytes`);
    }
    this.#refusedKeys.delete(key);
  }

  /** Does not read the key again for a while whose reply is arriving. */
  #refuseFirst(): void {
    const [first] = this.#asked;
    if (first === undefined) return;
    const nowMs = this.#clock.nowMs();
    const isFirst = [...this.#refusedKeys.values()].every((untilMs) => untilMs <= nowMs);
    // The key names a user, and is not for the log.
    if (isFirst) {
      const fields = { bytesMax: REPLY_BYTES_MAX, retryMs: REFUSED_MS };
      this.#log.warn("a user's seen items are too large or slow to be read", fields);
    }
    this.#refusedKeys.set(first.key, nowMs + REFUSED_MS);
    if (this.#refusedKeys.size <= REFUSED_KEYS_MAX) return;
    const [oldest] = this.#refusedKeys.keys();
    this.#refusedKeys.delete(oldest!);
  }

  #connect(): Redis {
    const redis = this.#openRedis(this.#url);
    // Commands of a connection that broke fail with it: asked again, a reply that is too large would end the
    // next one.
    redis.options.maxRetriesPerRequest = 0;
    redis.on("error", (error: Error) => {
      this.#connectionFault = error;
    });
    redis.on("connect", () => {
      this.#bytesSinceReply = 0;
      redis.stream.on("data", (chunk: Uint8Array) => {
        this.#bytesSinceReply += chunk.length;
        if (this.#bytesSinceReply <= REPLY_BYTES_MAX) return;
        this.#refuseFirst();
        redis.stream.destroy();
      });
    });
    redis.on("ready", () => {
      this.#hasOpened = true;
      this.#connectionFault = undefined;
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
      const refuse = (): void => {
        this.#tellFailure(new Error("Connection is closed."));
        reject(new WinnowError("UNAVAILABLE", text));
      };
      this.#opening.push({ resolve, reject: refuse });
    });
  }

  /** Logs once why nothing is read. Readings may fail before the fault of the connection is known; then a later one logs it. */
  #tellFailure(readFault: Error): void {
    if (this.#isFailureTold) return;
    if (this.#connectionFault === undefined && isOfConnection(readFault)) return;
    this.#isFailureTold = true;
    // The host alone, without user and password.
    const { host: store, protocol } = new URL(this.#url);
    const message = redisFault(this.#connectionFault ?? readFault, protocol === "rediss:");
    this.#log.warn("seen items cannot be read", { store, message: excerpt(message) });
  }

  #tellAnswer(): void {
    if (!this.#isFailureTold) return;
    this.#isFailureTold = false;
    this.#log.info("seen items are read again");
  }

  close(): void {
    this.#redis?.disconnect();
  }
}

/** Whether a reading failed with its connection, whose own fault says more. */
function isOfConnection(readFault: Error): boolean {
  return isUnconnected(readFault) || readFault.message.startsWith("Reached the max retries");
}
