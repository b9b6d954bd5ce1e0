// The models order in Redis: one key without an expiry. Redis may lose it (a flush, a restart
// without persistence, a failover): every process that knows a higher order writes it again
// (`order-book.ts`).

import type { Environment, Timer } from "@winnow/core";
import type { Redis } from "ioredis";
import { ORDER_CHARACTERS_MAX } from "../orders/models-order.ts";
import { readTexts } from "./redis-reading.ts";
import type { RedisKeys } from "./redis-keys.ts";
import type { OrderStore } from "../orders/order-store.ts";

/** The connection, and the keys to read and write. */
export interface RedisOrdersParts {
  readonly environment: Environment;
  readonly redis: Redis;
  readonly keys: RedisKeys;
}

const POLL_MS = 2000;

/** Bytes of a signed order: characters that have up to four, and the signature. */
const ORDER_BYTES_MAX = 4 * ORDER_CHARACTERS_MAX + 256;

/** Compare and set in one step; an empty ARGV[2] stands for no stored text, for one of over ARGV[3] bytes, and for what is no text. */
const REPLACE = `
local bytes = redis.pcall('STRLEN', KEYS[1])
local isLong = type(bytes) == 'number' and bytes > tonumber(ARGV[3])
local stored = isLong and '' or redis.pcall('GET', KEYS[1])
if type(stored) ~= 'string' then stored = '' end
if stored ~= ARGV[2] then return 0 end
redis.call('SET', KEYS[1], ARGV[1])
return 1`;

/** The models order in a Redis server. */
export class RedisOrders implements OrderStore {
  readonly #parts: RedisOrdersParts;
  readonly #listeners = new Set<(text: string | undefined) => void>();
  #timer: Timer | undefined;
  #isReading = false;
  #isClosed = false;

  constructor(parts: RedisOrdersParts) {
    this.#parts = parts;
  }

  async read(): Promise<string | undefined> {
    const { redis, keys } = this.#parts;
    const bytes = { most: ORDER_BYTES_MAX, all: ORDER_BYTES_MAX };
    const [text] = await readTexts(redis, [keys.order], bytes);
    // A text that is too long for an order comes empty, and an order that is known replaces it.
    return text === "" ? undefined : (text ?? undefined);
  }

  async replace(text: string, previous: string | undefined): Promise<boolean> {
    const { redis, keys } = this.#parts;
    const replaced = await redis.eval(
      REPLACE,
      1,
      keys.order,
      text,
      previous ?? "",
      ORDER_BYTES_MAX,
    );
    // The message is only a hint: a process that misses it reads within its poll interval.
    if (replaced === 1) redis.publish(keys.changed, "").catch(() => undefined);
    return replaced === 1;
  }

  watch(listener: (text: string | undefined) => void): () => void {
    this.#listeners.add(listener);
    this.readSoon(0);
    return () => this.#listeners.delete(listener);
  }

  /** Reads after `delayMs` instead of at the next poll: the store has changed, or answers again. */
  readSoon(delayMs = 0): void {
    if (this.#isClosed || this.#listeners.size === 0) return;
    const { clock } = this.#parts.environment;
    if (this.#timer !== undefined) clock.clearTimer(this.#timer);
    this.#timer = clock.setTimer(delayMs, () => {
      this.#timer = undefined;
      void this.#poll(); // Never rejects: a store that is away is read again.
    });
  }

  close(): void {
    this.#isClosed = true;
    this.#listeners.clear();
    if (this.#timer !== undefined) this.#parts.environment.clock.clearTimer(this.#timer);
  }

  async #poll(): Promise<void> {
    if (this.#isReading) return;
    this.#isReading = true;
    try {
      const text = await this.read();
      if (!this.#isClosed) for (const listener of this.#listeners) listener(text);
    } catch {
      // `RedisMembership` reads the same store, and logs when it does not answer.
    }
    this.#isReading = false;
    this.readSoon(POLL_MS);
  }
}
