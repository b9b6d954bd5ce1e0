// Membership in Redis: a lease per worker (`SET … PX`), a sorted set of ids instead of a scan, and a
// message that only means "read now". Nothing in Redis is the only truth: workers say everything
// again every second, readers keep their last good view (see `membership-fold.ts`).
//
//   worker ── redis-lease.ts ──▶ Redis ── this file ──▶ membership-fold.ts ──▶ view
//
// Anybody who reaches Redis can fill the set with ids. A reading takes the workers that are known, and a page
// of the set; the next takes the next page. So known workers stay however many ids there are, and new ones
// are met when their page is read.

import { sleep, toWinnowError, workerId } from "@winnow/core";
import type { Environment, Incarnation, Timer, WorkerId } from "@winnow/core";
import type { Redis } from "ioredis";
import type { Announcement } from "../announcement/announcement.ts";
import { RedisOrders } from "./redis-orders.ts";
import { noSecret } from "../trust/cluster-secret.ts";
import type { ClusterSecret } from "../trust/cluster-secret.ts";
import { RefusedRecords, refusalReason } from "../trust/refused-records.ts";
import { anyAddress } from "../trust/worker-address.ts";
import type { AddressRules } from "../trust/worker-address.ts";
import type { MembershipStore, MembershipView } from "./membership.ts";
import { foldFailure, foldReading, initialMembership, isSameView } from "./membership-fold.ts";
import type { MembershipReading } from "./membership-fold.ts";
import { decodeRecord } from "./membership-record.ts";
import type { MembershipRecord } from "./membership-record.ts";
import type { OpenRedis } from "./redis-connection.ts";
import { redisKeys } from "./redis-keys.ts";
import type { RedisKeys } from "./redis-keys.ts";
import { RedisLease } from "./redis-lease.ts";

/** Where the store is, and its waits. */
export interface RedisMembershipSettings {
  /** `redis://[user:password@]host:port[/db]`, or `rediss://`. */
  readonly url: string;
  /** Clusters of different names share a Redis without seeing each other. Default "default". */
  readonly cluster: string;
  /** Signs records, and tells those of others. Default none: all are read. */
  readonly secret: ClusterSecret;
  /** Where workers may be. Default anywhere. */
  readonly addresses: AddressRules;
  /** Told of records that are not believed. Default one of its own. */
  readonly refused?: RefusedRecords;
  /** Default 3000: how long a worker that died is still announced. */
  readonly leaseMs: number;
  /** Default 1000. */
  readonly renewMs: number;
  /** Default 400. */
  readonly pollMs: number;
  /** Default 60,000: a worker that restarts within it moves no partitions. */
  readonly placementSettleMs: number;
  /** Default 5000, several renewals: a worker that a flushed store forgot says itself again. */
  readonly forgottenMs: number;
}

const DEFAULTS: Omit<RedisMembershipSettings, "url"> = {
  cluster: "default",
  secret: noSecret(),
  addresses: anyAddress,
  leaseMs: 3000,
  renewMs: 1000,
  pollMs: 400,
  placementSettleMs: 60_000,
  forgottenMs: 5000,
};
/** A worker that starts asks for its last incarnation so long, then does without. */
const LAST_INCARNATION_MS_MAX = 1000;
const LAST_INCARNATION_RETRY_MS = 50;
/** Ids of the set that are read at once, and workers a cluster has. */
const MEMBERS_MAX = 4096;
/** Ids without a record that are remembered. */
const ABSENT_MAX = 65_536;
/** An id without a record for so long is taken out of the set. */
const PRUNE_MS = 600_000;

interface CachedRecord {
  readonly stored: string;
  /** Of the secret by which it was judged. */
  readonly secretRevision: number;
  /** `undefined`: refused. */
  readonly record: MembershipRecord | undefined;
}

/** Membership in a Redis server. */
export class RedisMembership implements MembershipStore {
  readonly #environment: Environment;
  readonly #settings: RedisMembershipSettings;
  readonly #redis: Redis;
  readonly #openRedis: OpenRedis;
  readonly #keys: RedisKeys;
  readonly #lease: RedisLease;
  readonly #listeners = new Set<(view: MembershipView) => void>();
  readonly #absentSinceMs = new Map<string, number>();
  #subscriber: Redis | undefined;
  #records = new Map<string, CachedRecord>();
  #state = initialMembership;
  #pollTimer: Timer | undefined;
  #isReading = false;
  /** Where the next page of the set begins; 0 where all of it is one page. */
  #pageStart = 0;
  #isCrowded = false;
  #isClosed = false;
  readonly #refused: RefusedRecords;
  /** The models order, over the same connections. */
  readonly orders: RedisOrders;

  constructor(
    environment: Environment,
    settings: { readonly url: string } & Partial<RedisMembershipSettings>,
    openRedis: OpenRedis,
  ) {
    this.#environment = environment;
    this.#openRedis = openRedis;
    this.#settings = { ...DEFAULTS, ...settings };
    this.#refused = settings.refused ?? new RefusedRecords(environment.log);
    this.#keys = redisKeys(this.#settings.cluster);
    this.#redis = this.#connect(() => {
      this.#lease.renew();
      this.#pollSoon(0);
      this.orders.readSoon();
    });
    this.orders = new RedisOrders({ environment, redis: this.#redis, keys: this.#keys });
    this.#lease = new RedisLease(
      { environment, redis: this.#redis, keys: this.#keys },
      this.#settings,
    );
  }

  async lastIncarnation(id: WorkerId): Promise<Incarnation | undefined> {
    const { clock } = this.#environment;
    const untilMs = clock.nowMs() + LAST_INCARNATION_MS_MAX;
    do {
      try {
        const stored = await this.#redis.get(this.#keys.worker(id));
        const record = stored === null ? undefined : this.#cachedRecord(id, stored).record;
        return record?.kind === "announced" ? record.announcement.incarnation : record?.incarnation;
      } catch {
        // A connection takes its time to open; a store that is away is not waited for.
        await sleep(clock, LAST_INCARNATION_RETRY_MS);
      }
    } while (!this.#isClosed && clock.nowMs() < untilMs);
    return undefined;
  }

  announce(announcement: Announcement): Promise<void> {
    return this.#lease.announce(announcement);
  }

  suspend(): void {
    this.#lease.suspend();
  }

  withdraw(): Promise<void> {
    return this.#lease.withdraw();
  }

  readAtMs(): number | undefined {
    const { view } = this.#state;
    return view === initialMembership.view ? undefined : view.readAtMs;
  }

  watch(listener: (view: MembershipView) => void): () => void {
    this.#listeners.add(listener);
    this.#subscriber ??= this.#subscribe();
    if (this.#state === initialMembership) this.#pollSoon(0);
    else this.#environment.clock.setTimer(0, () => this.#tell(listener));
    return () => this.#listeners.delete(listener);
  }

  close(): Promise<void> {
    this.#isClosed = true;
    this.#lease.suspend();
    if (this.#pollTimer !== undefined) this.#environment.clock.clearTimer(this.#pollTimer);
    this.#listeners.clear();
    this.orders.close();
    this.#redis.disconnect();
    this.#subscriber?.disconnect();
    return Promise.resolve();
  }

  #connect(onReady: () => void): Redis {
    const redis = this.#openRedis(this.#settings.url);
    redis.on("error", (error) => {
      this.#environment.log.debug("membership store connection", { message: error.message });
    });
    redis.on("ready", onReady);
    return redis;
  }

  #subscribe(): Redis {
    const subscriber = this.#connect(() => {
      // A subscription that fails costs speed only: the poll goes on.
      subscriber.subscribe(this.#keys.changed).catch(() => undefined);
    });
    subscriber.on("message", () => {
      this.#pollSoon(0);
      this.orders.readSoon();
    });
    return subscriber;
  }

  #pollSoon(delayMs: number): void {
    if (this.#isClosed || this.#listeners.size === 0) return;
    const { clock } = this.#environment;
    if (this.#pollTimer !== undefined) clock.clearTimer(this.#pollTimer);
    this.#pollTimer = clock.setTimer(delayMs, () => {
      this.#pollTimer = undefined;
      void this.#poll();
    });
  }

  async #poll(): Promise<void> {
    if (this.#isReading) return;
    this.#isReading = true;
    const before = this.#state;
    try {
      const reading = await this.#read();
      const nowMs = this.#environment.clock.nowMs();
      this.#state = foldReading(this.#state, reading, { nowMs, settings: this.#settings });
    } catch (error) {
      this.#state = foldFailure(this.#state);
      if (before.view.healthy || before === initialMembership) {
        const { message } = toWinnowError(error);
        this.#environment.log.warn("membership store does not answer", { message });
      }
    }
    this.#isReading = false;
    if (this.#isClosed) return;
    this.#pollSoon(this.#settings.pollMs);
    if (before === initialMembership || !isSameView(before.view, this.#state.view)) {
      for (const listener of this.#listeners) this.#tell(listener);
    }
  }

  #tell(listener: (view: MembershipView) => void): void {
    if (this.#listeners.has(listener)) listener(this.#state.view);
  }

  async #read(): Promise<MembershipReading> {
    const { ids, page, known } = await this.#idsToRead();
    const stored =
      ids.length === 0 ? [] : await this.#redis.mget(ids.map((id) => this.#keys.worker(id)));
    const silent = known.filter((_, index) => typeof stored[index] !== "string");
    const listed = new Set([...page, ...(await this.#stillListed(silent))] as WorkerId[]);
    const places = new Places(this.#state.members.keys());
    const announced: Announcement[] = [];
    const withdrawn = new Map<WorkerId, Incarnation>();
    const spoilt = new Set<WorkerId>();
    const records = new Map<string, CachedRecord>();
    for (const [index, id] of ids.entries()) {
      const text = stored[index];
      this.#noteAbsence(id, typeof text !== "string");
      if (typeof text !== "string") continue;
      const cached = this.#cachedRecord(id, text);
      records.set(id, cached);
      if (cached.record === undefined) spoilt.add(workerId(id));
      if (cached.record?.kind === "announced") {
        if (places.take(cached.record.announcement.workerId))
          announced.push(cached.record.announcement);
        else this.#refused.refuse(id, "excess", `a cluster has at most ${MEMBERS_MAX} workers`);
      }
      if (cached.record?.kind === "withdrawn") {
        withdrawn.set(cached.record.workerId, cached.record.incarnation);
      }
    }
    this.#records = records;
    return { announced, withdrawn, spoilt, listed };
  }

  /** The page whose turn it is, and before it the known workers it lacks: `ids` is both. */
  async #idsToRead(): Promise<Record<"ids" | "page" | "known", readonly string[]>> {
    const start = this.#pageStart;
    const end = start + MEMBERS_MAX - 1;
    const page = await this.#redis.zrange(this.#keys.members, start, String(end));
    this.#pageStart = page.length < MEMBERS_MAX ? 0 : start + MEMBERS_MAX;
    const isCrowded = start > 0 || this.#pageStart > 0;
    if (isCrowded && !this.#isCrowded) await this.#tellCrowd();
    this.#isCrowded = isCrowded;
    if (!isCrowded) return { ids: page, page, known: [] };
    const read = new Set<string>(page);
    const known = [...this.#state.members.keys()].filter((id) => !read.has(id));
    return { ids: [...known, ...page], page, known };
  }

  async #tellCrowd(): Promise<void> {
    const ids = await this.#redis.zcard(this.#keys.members);
    this.#environment.log.warn("membership store lists more ids than are read at once", {
      ids,
      readAtOnce: MEMBERS_MAX,
    });
  }

  /** Those of some ids that the set still has: a flushed store knows none. */
  async #stillListed(ids: readonly string[]): Promise<readonly string[]> {
    if (ids.length === 0) return [];
    const asking = this.#redis.pipeline();
    for (const id of ids) asking.zscore(this.#keys.members, id);
    const scores = (await asking.exec()) ?? [];
    const failure = scores.find(([error]) => error !== null)?.[0];
    if (failure) throw failure;
    return ids.filter((_, index) => scores[index]?.[1] !== null);
  }

  /** A record that did not change is not checked again, unless by another secret. */
  #cachedRecord(id: string, stored: string): CachedRecord {
    const known = this.#records.get(id);
    const secretRevision = this.#settings.secret.revision;
    if (known?.stored === stored && known.secretRevision === secretRevision) return known;
    return { stored, secretRevision, record: this.#believedRecord(id, stored) };
  }

  #believedRecord(id: string, stored: string): MembershipRecord | undefined {
    try {
      const record = decodeRecord(stored, this.#settings);
      const named = record.kind === "announced" ? record.announcement.workerId : record.workerId;
      if (named === id) {
        this.#refused.accept(id);
        return record;
      }
      this.#refused.refuse(id, "name", `it names ${named}`);
    } catch (thrown) {
      const error = toWinnowError(thrown);
      this.#refused.refuse(id, refusalReason(error), error.message);
    }
    return undefined;
  }

  #noteAbsence(id: string, isAbsent: boolean): void {
    if (!isAbsent) return void this.#absentSinceMs.delete(id);
    const nowMs = this.#environment.clock.nowMs();
    const sinceMs = this.#absentSinceMs.get(id) ?? nowMs;
    if (this.#absentSinceMs.size >= ABSENT_MAX && !this.#absentSinceMs.has(id)) return;
    this.#absentSinceMs.set(id, sinceMs);
    if (nowMs - sinceMs < PRUNE_MS) return;
    this.#absentSinceMs.delete(id);
    // Whoever lives adds itself again with its next renewal.
    this.#redis.zrem(this.#keys.members, id).catch(() => undefined);
  }
}

/** Who may be a worker of the cluster: who is one, and others while there are places. */
class Places {
  readonly #taken: Set<WorkerId>;

  constructor(known: Iterable<WorkerId>) {
    this.#taken = new Set(known);
  }

  take(id: WorkerId): boolean {
    if (this.#taken.has(id)) return true;
    if (this.#taken.size >= MEMBERS_MAX) return false;
    this.#taken.add(id);
    return true;
  }
}
