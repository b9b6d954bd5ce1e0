// What the log says of the membership store: each fault once when it is sure, and once when it is over. A single failure is
// not told: a read may fail before the fault of its connection is known, and a store that fails over refuses a few writes.
// What keeps a process from reading as well as from writing is told by its reads alone.
//
//   reads     fail ── the connection's fault is known, or several in a row ──▶ "does not answer" ──▶ "answers again"
//   writes    fail while reads succeed ── twice ──▶ "does not take announcements" ──▶ "takes announcements again"
//   records   none of any known worker ── `forgottenMs` ──▶ "has no record of any worker" ──▶ "has records again"

import { excerpt } from "@winnow/core";
import type { Clock, Logger } from "@winnow/core";
import { isUnconnected, redisFault } from "./redis-fault.ts";

/** Where the log goes, and the store that it speaks of. */
export interface RedisStoreLogParts {
  readonly log: Logger;
  readonly clock: Clock;
  /** The URL of the store, of which the log has the host alone, without user and password. */
  readonly url: string;
  /** Ms without a record of any worker after which that is told. */
  readonly forgottenMs: number;
}

/** Failed reads after which the fault of a connection would be known: 400 ms apart, longer than connecting may take. */
const UNCONNECTED_READS = 4;
/** Failed reads on an open connection after which they are told. */
const CONNECTED_READS = 2;
/** Failed writes after which they are told. */
const UNTOLD_WRITES = 2;

/** What the types of Redis are called. */
const OF_TYPE: Readonly<Record<string, string>> = {
  string: "a string",
  list: "a list",
  set: "a set",
  hash: "a hash",
  stream: "a stream",
};

/** The log of one process about its store. */
export class RedisStoreLog {
  readonly #parts: RedisStoreLogParts;
  readonly #store: string;
  /** Why the last connection broke or failed; `undefined` while there is one. */
  #connectionFault: string | undefined;
  /** Failed reads in a row. */
  #failedReads = 0;
  #isReadFaultTold = false;
  /** Failed writes in a row, while reads succeed. */
  #failedWrites = 0;
  #isWriteFaultTold = false;
  /** Since when no reading has had a record of any worker. */
  #emptySinceMs: number | undefined;
  #isEmptyTold = false;

  constructor(parts: RedisStoreLogParts) {
    this.#parts = parts;
    this.#store = new URL(parts.url).host;
  }

  /** The fault in words for people. */
  faultOf(error: Error): string {
    return redisFault(error, this.#parts.url.startsWith("rediss:"));
  }

  /** A connection broke or could not be opened. */
  disconnected(error: Error): void {
    this.#connectionFault = this.faultOf(error);
    this.#parts.log.debug("membership store connection", { message: excerpt(error.message) });
  }

  /** A connection is open. */
  connected(): void {
    this.#connectionFault = undefined;
  }

  /** A reading failed; `isReady`: on a connection that is open. */
  readFailed(fault: Error, isReady: boolean): void {
    this.#failedReads += 1;
    if (this.#isReadFaultTold) return;
    const readsMin = isReady && !isUnconnected(fault) ? CONNECTED_READS : UNCONNECTED_READS;
    if (this.#connectionFault === undefined && this.#failedReads < readsMin) return;
    this.#isReadFaultTold = true;
    const message = excerpt(this.#connectionFault ?? this.faultOf(fault));
    this.#parts.log.warn("membership store does not answer", { store: this.#store, message });
  }

  /** The key of the members holds what another program has stored there, of a type that Redis may not tell. */
  async foundForeignKey(key: string, typeOf: () => Promise<string>): Promise<void> {
    this.#failedReads += 1;
    if (this.#isReadFaultTold) return;
    this.#isReadFaultTold = true;
    // Access lists may not allow to ask for the type.
    const type = await typeOf().catch(() => "something else");
    const remedy = "delete it, or give this cluster another name (--cluster)";
    const message = `key "${key}" holds ${OF_TYPE[type] ?? type}, where the ids of the workers are a sorted set; ${remedy}`;
    this.#parts.log.warn("membership store holds something else", { store: this.#store, message });
  }

  /**
   * A reading succeeded. If there was no record of any worker for a while although some are known, all have ended, or they
   * write to another Redis than is read here, such as the primary of a replica that lags: those that are known stay, but a
   * process that starts finds nobody.
   */
  readSucceeded({
    isEmpty,
    workers,
  }: {
    readonly isEmpty: boolean;
    readonly workers: number;
  }): void {
    if (this.#isReadFaultTold) this.#parts.log.info("membership store answers again");
    this.#failedReads = 0;
    this.#isReadFaultTold = false;
    if (isEmpty && workers > 0) this.#noteEmptiness(workers);
    else this.#noteRecords();
  }

  #noteEmptiness(workers: number): void {
    const { log, clock, forgottenMs } = this.#parts;
    const nowMs = clock.nowMs();
    this.#emptySinceMs ??= nowMs;
    if (this.#isEmptyTold || nowMs - this.#emptySinceMs < forgottenMs) return;
    this.#isEmptyTold = true;
    const message =
      "those that are known stay; if they live, do they write to this Redis, and is it no replica that lags?";
    const fields = { store: this.#store, workers, message };
    log.warn("membership store has no record of any worker", fields);
  }

  #noteRecords(): void {
    if (this.#isEmptyTold) this.#parts.log.info("membership store has records of workers again");
    this.#emptySinceMs = undefined;
    this.#isEmptyTold = false;
  }

  /** An announcement was stored. */
  written(): void {
    if (this.#isWriteFaultTold) {
      this.#parts.log.info("membership store takes announcements again");
    }
    this.#failedWrites = 0;
    this.#isWriteFaultTold = false;
  }

  /**
   * An announcement was not stored; `isReady`: on a connection that is open. A store that answers and does not take
   * announcements is a replica that is only read, its memory is full, its disk does not take its data, or the user may not
   * write.
   */
  writeFailed(fault: string, isReady: boolean): void {
    const { log } = this.#parts;
    const message = excerpt(fault);
    log.debug("announcement not stored", { message });
    if (this.#failedReads > 0 || !isReady) return;
    this.#failedWrites += 1;
    if (this.#isWriteFaultTold || this.#failedWrites < UNTOLD_WRITES) return;
    this.#isWriteFaultTold = true;
    log.warn("membership store does not take announcements", { store: this.#store, message });
  }
}
