// The writing half of Redis membership: one worker's record, under a lease that is renewed until
// the worker withdraws. Writes are idempotent; a failed write is repeated by the next renewal.

import { toWinnowError } from "@winnow/core";
import type { Environment, Timer, WorkerId } from "@winnow/core";
import type { Redis } from "ioredis";
import type { Announcement } from "../announcement/announcement.ts";
import type { ClusterSecret } from "../trust/cluster-secret.ts";
import { encodeRecord } from "./membership-record.ts";
import type { RedisKeys } from "./redis-keys.ts";

/** The connection and the keys that a lease writes to. */
export interface RedisLeaseParts {
  readonly environment: Environment;
  readonly redis: Redis;
  readonly keys: RedisKeys;
  /** Called after each write: why it failed, or `undefined`. */
  readonly onWritten: (fault: string | undefined) => void;
}

/** How long a lease lasts, how often it is renewed, and what signs it. */
export interface RedisLeaseSettings {
  readonly leaseMs: number;
  readonly renewMs: number;
  readonly secret: ClusterSecret;
}

/** How long a withdrawal stays stored. */
export const WITHDRAWN_MS: number = 60_000;

/** One worker's record. */
export class RedisLease {
  readonly #parts: RedisLeaseParts;
  readonly #settings: RedisLeaseSettings;
  #own: Announcement | undefined;
  /** `#own` as it is stored, signed with the secrets of that revision. */
  #signed: { readonly stored: string; readonly revision: number } | undefined;
  #timer: Timer | undefined;

  constructor(parts: RedisLeaseParts, settings: RedisLeaseSettings) {
    this.#parts = parts;
    this.#settings = settings;
  }

  /** Stores the record now and keeps renewing it. */
  async announce(announcement: Announcement): Promise<void> {
    this.#own = announcement;
    this.#signed = undefined;
    this.#planRenewal();
    await this.#store(announcement);
    await this.#tellOthers();
  }

  /** Renews now: for a connection that has just been opened, or opened again. */
  renew(): void {
    if (this.#own === undefined || this.#timer === undefined) return;
    // Never rejects. After a failed renewal readers keep their view, and the next renewal repeats
    // it.
    void this.#store(this.#own);
  }

  /** Stops renewing; the lease runs out. */
  suspend(): void {
    if (this.#timer !== undefined) this.#parts.environment.clock.clearTimer(this.#timer);
    this.#timer = undefined;
  }

  /** Stores a withdrawal of this incarnation. Idempotent. */
  async withdraw(): Promise<void> {
    const own = this.#own;
    this.#own = undefined;
    this.suspend();
    if (own === undefined) return;
    const { workerId, incarnation } = own;
    const record = { kind: "withdrawn", workerId, incarnation } as const;
    await this.#write(workerId, encodeRecord(record, this.#settings.secret), WITHDRAWN_MS);
    await this.#tellOthers();
  }

  #planRenewal(): void {
    this.suspend();
    this.#timer = this.#parts.environment.clock.setTimer(this.#settings.renewMs, () => {
      this.#planRenewal();
      this.renew();
    });
  }

  /** Stores the announcement; signs it again if the secrets have changed. */
  async #store(announcement: Announcement): Promise<void> {
    const { secret, leaseMs } = this.#settings;
    if (this.#signed?.revision !== secret.revision) {
      const stored = encodeRecord({ kind: "announced", announcement }, secret);
      this.#signed = { stored, revision: secret.revision };
    }
    await this.#write(announcement.workerId, this.#signed.stored, leaseMs);
  }

  async #write(workerId: WorkerId, stored: string, leaseMs: number): Promise<void> {
    const { redis, keys, onWritten } = this.#parts;
    try {
      const results = await redis
        .pipeline()
        .zadd(keys.members, 0, workerId)
        .set(keys.worker(workerId), stored, "PX", leaseMs)
        .exec();
      const failure = results?.find(([error]) => error !== null)?.[0];
      if (failure) throw failure;
      onWritten(undefined);
    } catch (error) {
      onWritten(toWinnowError(error).message);
    }
  }

  async #tellOthers(): Promise<void> {
    try {
      await this.#parts.redis.publish(this.#parts.keys.changed, "");
    } catch {
      // The message is only a hint: a process that misses it reads within its poll interval.
    }
  }
}
