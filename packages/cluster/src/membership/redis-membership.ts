// Membership in Redis: a lease per worker (`SET … PX`), a sorted set of ids instead of a scan, and
// a published message that only means "read now". Redis is never the only copy: workers write their
// records again every second, and readers keep their last good view (see `membership-fold.ts`).
//
//   worker ── redis-lease.ts ──▶ Redis ── this file ──▶ membership-fold.ts ──▶ view
//
// Anybody who reaches Redis can fill the set with ids. Each reading therefore covers the known
// workers and one page of the set, the next reading the next page. So known workers stay in the
// view however large the set is, and a new worker is found when its page is read. Texts are bounded in
// Redis (`redis-reading.ts`); those of known workers are read apart, so that others take nothing from them.

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
import { RECORD_CHARACTERS_MAX, decodeRecord } from "./membership-record.ts";
import type { MembershipRecord } from "./membership-record.ts";
import type { OpenRedis } from "./redis-connection.ts";
import { RefusedReply } from "./redis-reply-bounds.ts";
import { LEFT_OUT, readIds, readRecords } from "./redis-reading.ts";
import type { StoredRecord } from "./redis-reading.ts";
import { redisKeys } from "./redis-keys.ts";
import type { RedisKeys } from "./redis-keys.ts";
import { RedisLease, WITHDRAWN_MS } from "./redis-lease.ts";
import { RedisStoreLog } from "./redis-store-log.ts";

/** Where the store is, how its records are trusted, and times. */
export interface RedisMembershipSettings {
  /** `redis://[user:password@]host:port[/db]`, or `rediss://`. */
  readonly url: string;
  /** Clusters of different names share a Redis without seeing each other. Default "default". */
  readonly cluster: string;
  /** Signs own records and verifies all that are read. Default none: unsigned ones are accepted. */
  readonly secret: ClusterSecret;
  /** Addresses that workers may have. Default: any. */
  readonly addresses: AddressRules;
  /** Counts and logs refused records. Default: an instance of its own. */
  readonly refused?: RefusedRecords;
  /** Ms for which a worker that died stays announced. Default 3000. */
  readonly leaseMs: number;
  /** Ms between renewals of the lease. Default 1000. */
  readonly renewMs: number;
  /** Ms between readings. Default 400. */
  readonly pollMs: number;
  /** Ms within which a worker can restart without moving partitions. Default 60,000. */
  readonly placementSettleMs: number;
  /** Ms for which a worker that the store lost stays in the view; several renewals fit into it. Default 5000. */
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
/** Ms for which a starting worker asks for its last incarnation; then it starts without it. */
const LAST_INCARNATION_MS_MAX = 1000;
const LAST_INCARNATION_RETRY_MS = 50;
/** Ids in a page of the set, and workers in a cluster, at most. */
const MEMBERS_MAX = 4096;
/** Bytes of an id that is read. */
const ID_BYTES_MAX = 512;
/** Bytes of all records of known workers that are read at once, and of all others. */
const KNOWN_BYTES_MAX = 64 * 2 ** 20;
const OTHER_BYTES_MAX = 4 * 2 ** 20;
/** Ids without a record that are remembered, at most. */
const ABSENT_MAX = 65_536;
/** Ms without a record after which an id is removed from the set. */
const PRUNE_MS = 600_000;

/** How Redis refuses a command on a key that holds another type. */
const WRONG_TYPE = "WRONGTYPE";
interface CachedRecord {
  readonly stored: string;
  /** `ClusterSecret.revision` at the time of the check. */
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
  /** Position in the set at which the next page begins; 0 while the whole set fits one page. */
  #pageStart = 0;
  #isCrowded = false;
  #isClosed = false;
  readonly #refused: RefusedRecords;
  readonly #log: RedisStoreLog;
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
    const { clock, log } = environment;
    this.#log = new RedisStoreLog({ clock, log, ...this.#settings });
    this.#redis = this.#connect(() => {
      this.#lease.renew();
      this.#pollSoon(0);
      this.orders.readSoon();
    });
    this.orders = new RedisOrders({ environment, redis: this.#redis, keys: this.#keys });
    this.#lease = new RedisLease(
      {
        environment,
        redis: this.#redis,
        keys: this.#keys,
        onWritten: (fault) => {
          if (fault === undefined) this.#log.written();
          else this.#log.writeFailed(fault, this.#isReady);
        },
      },
      this.#settings,
    );
  }

  async lastIncarnation(id: WorkerId): Promise<Incarnation | undefined> {
    const { clock } = this.#environment;
    const untilMs = clock.nowMs() + LAST_INCARNATION_MS_MAX;
    do {
      try {
        const [stored] = await this.#storedRecords([id], KNOWN_BYTES_MAX);
        const text = stored?.text;
        const record = typeof text === "string" ? this.#cachedRecord(id, text).record : undefined;
        return record?.kind === "announced" ? record.announcement.incarnation : record?.incarnation;
      } catch {
        // The connection may not be open yet, so this is tried again, but only for a bounded time.
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
    redis.on("error", (error: Error) => {
      this.#log.disconnected(error);
      if (error instanceof RefusedReply) this.#noteRefusedReply(error);
    });
    redis.on("ready", () => {
      this.#log.connected();
      onReady();
    });
    return redis;
  }

  get #isReady(): boolean {
    return this.#redis.status === "ready";
  }

  /** Counts a reply that ended its connection. The first one is logged. */
  #noteRefusedReply(error: RefusedReply): void {
    const { host: store } = new URL(this.#settings.url);
    this.#refused.refuse(`membership store ${store}`, error.reason, this.#log.faultOf(error));
  }

  #subscribe(): Redis {
    const subscriber = this.#connect(() => {
      // A failed subscription only delays news: the poll goes on.
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
      const isEmpty = reading.announced.length === 0 && reading.spoilt.size === 0;
      this.#log.readSucceeded({ isEmpty, workers: this.#state.members.size });
    } catch (error) {
      this.#state = foldFailure(this.#state);
      const fault = error instanceof Error ? error : toWinnowError(error);
      const { members } = this.#keys;
      if (fault.message.startsWith(WRONG_TYPE)) {
        await this.#log.foundForeignKey(members, () => this.#redis.type(members));
      } else this.#log.readFailed(fault, this.#isReady);
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
    const stored = await this.#recordsOf(ids);
    const silent = known.filter((_, index) => typeof stored[index]?.text !== "string");
    const listed = new Set([...page, ...(await this.#stillListed(silent))] as WorkerId[]);
    const places = new Places(this.#state.members.keys());
    const announced: Announcement[] = [];
    const leftMs = new Map<WorkerId, number>();
    const withdrawn = new Map<WorkerId, Incarnation>();
    const spoilt = new Set<WorkerId>();
    const records = new Map<string, CachedRecord>();
    for (const [index, id] of ids.entries()) {
      const text = stored[index]?.text;
      leftMs.set(workerId(id), stored[index]?.leftMs ?? 0);
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
    return { announced, leftMs, withdrawn, spoilt, listed };
  }

  /**
   * The records that are stored for ids, with texts that are empty for those that are too long, `LEFT_OUT` for those that do not fit. Each
   * reading begins with others.
   */
  async #recordsOf(ids: readonly string[]): Promise<readonly (StoredRecord | undefined)[]> {
    const { members } = this.#state;
    const known = ids.filter((id) => members.has(workerId(id)));
    const others = ids.filter((id) => !members.has(workerId(id)));
    const first = Math.floor(this.#environment.random() * others.length);
    const turned = [...others.slice(first), ...others.slice(0, first)];
    const records = await Promise.all([
      this.#storedRecords(known, KNOWN_BYTES_MAX),
      this.#storedRecords(turned, OTHER_BYTES_MAX),
    ]);
    const all = records.flat();
    const byId = new Map([...known, ...turned].map((id, at) => [id, all[at]]));
    return ids.map((id) => byId.get(id));
  }

  #storedRecords(ids: readonly string[], bytesMax: number): Promise<readonly StoredRecord[]> {
    const keys = ids.map((id) => this.#keys.worker(id));
    const leases = { announced: this.#settings.leaseMs, withdrawn: WITHDRAWN_MS };
    const bounds = { most: RECORD_CHARACTERS_MAX, all: bytesMax, ...leases };
    return readRecords(this.#redis, keys, bounds);
  }

  /** `page`: the next page of the set; `known`: known workers outside of it; `ids`: both. */
  async #idsToRead(): Promise<Record<"ids" | "page" | "known", readonly string[]>> {
    const start = this.#pageStart;
    const end = start + MEMBERS_MAX - 1;
    const bounds = { from: start, to: end, bytesMax: ID_BYTES_MAX };
    const listed = await readIds(this.#redis, this.#keys.members, bounds);
    const page = listed.filter((id) => id !== "");
    this.#pageStart = listed.length < MEMBERS_MAX ? 0 : start + MEMBERS_MAX;
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

  /** Those of `ids` that are still in the set; none after a flush. */
  async #stillListed(ids: readonly string[]): Promise<readonly string[]> {
    if (ids.length === 0) return [];
    const asking = this.#redis.pipeline();
    for (const id of ids) asking.zscore(this.#keys.members, id);
    const scores = (await asking.exec()) ?? [];
    const failure = scores.find(([error]) => error !== null)?.[0];
    if (failure) throw failure;
    return ids.filter((_, index) => scores[index]?.[1] !== null);
  }

  /** Checks a record; reuses the last result if neither its text nor the secrets changed. */
  #cachedRecord(id: string, stored: string): CachedRecord {
    const known = this.#records.get(id);
    const secretRevision = this.#settings.secret.revision;
    if (known?.stored === stored && known.secretRevision === secretRevision) return known;
    return { stored, secretRevision, record: this.#believedRecord(id, stored) };
  }

  #believedRecord(id: string, stored: string): MembershipRecord | undefined {
    if (stored === LEFT_OUT) return undefined;
    if (stored === "") {
      this.#refused.refuse(id, "malformed", "it is too long to be read");
      return undefined;
    }
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
    // A worker that lives adds its id again with its next renewal.
    this.#redis.zrem(this.#keys.members, id).catch(() => undefined);
  }
}

/** Bounds the workers of a cluster: known ones keep their places, new ones take free places. */
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
