// The current routing table: made anew from the workers' announcements when these change, replaced as a
// whole, never modified. Requests keep the table that they began with; a request that cannot be answered with
// it waits here for the next one.

import type {
  Environment,
  Fingerprint,
  Signal,
  TableSpec,
  Timer,
  VersionKey,
  WinnowError,
} from "@winnow/core";
import type { Announcement, RoutedVersion, RoutingTable } from "@winnow/cluster";
import { buildRoutingTable } from "@winnow/cluster";
import type { RouterSettings } from "../router-settings.ts";
import type { LaterTables } from "../scatter/table-query.ts";

/** Sources of routing tables, and the callback for each new table. */
export interface RoutingParts {
  readonly environment: Environment;
  readonly settings: RouterSettings;
  /** Announcements of connected workers. */
  readonly announcements: () => readonly Announcement[];
  /** Announcements of members of the cluster, connected or not. */
  readonly members: () => readonly Announcement[];
  readonly tables: () => ReadonlyMap<Fingerprint, readonly TableSpec[]>;
  /** Versions that are not warmed up yet. */
  readonly warming: () => ReadonlySet<Fingerprint>;
  /** Versions that this router can never run, and why. */
  readonly unrunnable: () => ReadonlyMap<Fingerprint, WinnowError>;
  /**
   * Versions that may not be asked as long as other models are as this table says, and why. Each look is at the table
   * on which what the looks before found waits: versions of a later look may ask those of an earlier one. `previous` is
   * the table that this one replaces.
   */
  readonly waiting: readonly ((
    table: RoutingTable,
    previous: RoutingTable | undefined,
  ) => ReadonlyMap<Fingerprint, WinnowError>)[];
  readonly onTable: (table: RoutingTable) => void;
}

type Waiter = (table: RoutingTable) => void;

/** The current table and its successors. */
export class Routing implements LaterTables {
  readonly #parts: RoutingParts;
  readonly #waiters = new Set<Waiter>();
  /** When each content lost partitions that it had before; kept for `replanWaitMs`. */
  readonly #lostAtMs = new Map<Fingerprint, number>();
  #table: RoutingTable;
  #timer: Timer | undefined;
  #closed = false;

  constructor(parts: RoutingParts) {
    this.#parts = parts;
    this.#table = this.#build(undefined);
  }

  /** The current table. */
  get table(): RoutingTable {
    return this.#table;
  }

  /** Requests that wait for a later table. */
  get waiting(): number {
    return this.#waiters.size;
  }

  /** Something has changed: a new table follows soon, one for all changes of the moment. */
  invalidate(): void {
    if (this.#timer !== undefined || this.#closed) return;
    const { environment, settings } = this.#parts;
    this.#timer = environment.clock.setTimer(settings.tableDelayMs, () => {
      this.#timer = undefined;
      const before = this.#table;
      this.#table = this.#build(before);
      this.#noteLosses(before);
      this.#parts.onTable(this.#table);
      for (const waiter of this.#waiters) waiter(this.#table);
    });
  }

  /** Waits for an acceptable table later than `after`. @throws the signal's reason when aborted */
  nextTable(
    { after, waitMs, accept }: Parameters<LaterTables["nextTable"]>[0],
    signal: Signal,
  ): Promise<RoutingTable | undefined> {
    return new Promise((resolve, reject) => {
      if (signal.aborted) return reject(signal.reason);
      if (this.#table.generation > after && accept(this.#table)) return resolve(this.#table);
      if (waitMs <= 0) return resolve(undefined);
      const { clock } = this.#parts.environment;
      const stop = (): void => {
        clock.clearTimer(timer);
        this.#waiters.delete(waiter);
        signal.removeEventListener("abort", abort);
      };
      const waiter = (table: RoutingTable): void => {
        if (table.generation <= after || !accept(table)) return;
        stop();
        resolve(table);
      };
      const abort = (): void => {
        stop();
        reject(signal.reason);
      };
      const timer = clock.setTimer(waitMs, () => {
        stop();
        resolve(undefined);
      });
      this.#waiters.add(waiter);
      signal.addEventListener("abort", abort, { once: true });
    });
  }

  /**
   * For how many more ms to wait for partitions that a content has just lost; 0 if it lost none, or longer
   * ago than `replanWaitMs`. Workers that were restarted while this process stood still are connected to
   * within this time, and requests of that moment need not fail.
   */
  lossWaitMs({ fingerprint }: VersionKey): number {
    const lostAtMs = this.#lostAtMs.get(fingerprint);
    if (lostAtMs === undefined) return 0;
    const { environment, settings } = this.#parts;
    return Math.max(0, lostAtMs + settings.replanWaitMs - environment.clock.nowMs());
  }

  #noteLosses(before: RoutingTable): void {
    const whole = new Set(contentsOf(this.#table).filter(isWhole).map(fingerprintOf));
    const had = contentsOf(before).filter(isWhole).map(fingerprintOf);
    const nowMs = this.#parts.environment.clock.nowMs();
    const oldestMs = nowMs - this.#parts.settings.replanWaitMs;
    for (const [fingerprint, lostAtMs] of this.#lostAtMs) {
      if (whole.has(fingerprint) || lostAtMs < oldestMs) this.#lostAtMs.delete(fingerprint);
    }
    for (const fingerprint of had) {
      if (!whole.has(fingerprint)) this.#lostAtMs.set(fingerprint, nowMs);
    }
  }

  #build(previous: RoutingTable | undefined): RoutingTable {
    const { announcements, members, tables, warming, unrunnable, settings } = this.#parts;
    const { replication, modelReplication, swapReplicas } = settings;
    const context = {
      tables: tables(),
      members: members(),
      warming: warming(),
      unrunnable: unrunnable(),
      replication,
      modelReplication,
      swapReplicas,
    };
    const workers = announcements();
    let table = buildRoutingTable(workers, context, previous);
    let waiting: ReadonlyMap<Fingerprint, WinnowError> = new Map();
    for (const look of this.#parts.waiting) {
      const found = look(table, previous);
      if (found.size === 0) continue;
      waiting = new Map([...waiting, ...found]);
      table = buildRoutingTable(workers, { ...context, waiting }, previous);
    }
    return table;
  }

  /** No further tables; requests that wait for one get none when their time is over. */
  close(): void {
    this.#closed = true;
    if (this.#timer !== undefined) this.#parts.environment.clock.clearTimer(this.#timer);
    this.#timer = undefined;
  }
}

function contentsOf({ models }: RoutingTable): RoutedVersion[] {
  return Array.from(models.values(), ({ contents }) => contents).flat();
}

const isWhole = ({ coverage }: RoutedVersion): boolean => coverage === 1;
const fingerprintOf = ({ key }: RoutedVersion): Fingerprint => key.fingerprint;
