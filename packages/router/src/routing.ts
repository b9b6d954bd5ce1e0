// The current routing table: rebuilt from what workers say whenever that changes, replaced whole,
// never changed. Requests keep the table they began with; whoever cannot finish with it waits here
// for the next.

import type { Environment, Fingerprint, TableSpec, Timer } from "@winnow/core";
import type { Announcement, RoutingTable } from "@winnow/cluster";
import { buildRoutingTable } from "@winnow/cluster";
import type { RouterSettings } from "./router-settings.ts";
import type { NextTable } from "./table-query.ts";

/** What tables are built from, and who wants to know of them. */
export interface RoutingParts {
  readonly environment: Environment;
  readonly settings: RouterSettings;
  /** Of connected workers. */
  readonly announcements: () => readonly Announcement[];
  /** Of members of the cluster, connected or not. */
  readonly members: () => readonly Announcement[];
  readonly tables: () => ReadonlyMap<Fingerprint, readonly TableSpec[]>;
  /** Versions that are not warmed up yet. */
  readonly warming: () => ReadonlySet<Fingerprint>;
  readonly onTable: (table: RoutingTable) => void;
}

type Waiter = (table: RoutingTable) => void;

/** The table in use and its successors. */
export class Routing {
  readonly #parts: RoutingParts;
  readonly #waiters = new Set<Waiter>();
  #table: RoutingTable;
  #timer: Timer | undefined;
  #closed = false;

  constructor(parts: RoutingParts) {
    this.#parts = parts;
    this.#table = this.#build(undefined);
  }

  /** The newest table. */
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
      this.#table = this.#build(this.#table);
      this.#parts.onTable(this.#table);
      for (const waiter of this.#waiters) waiter(this.#table);
    });
  }

  /** Waits for an acceptable table later than `after`. @throws the signal's reason when aborted */
  readonly nextTable: NextTable = ({ after, waitMs, accept }, signal) =>
    new Promise((resolve, reject) => {
      if (signal.aborted) return reject(signal.reason as Error);
      if (this.#table.generation > after && accept(this.#table)) return resolve(this.#table);
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
        reject(signal.reason as Error);
      };
      const timer = clock.setTimer(waitMs, () => {
        stop();
        resolve(undefined);
      });
      this.#waiters.add(waiter);
      signal.addEventListener("abort", abort, { once: true });
    });

  #build(previous: RoutingTable | undefined): RoutingTable {
    const { announcements, members, tables, warming, settings } = this.#parts;
    const { replication } = settings;
    const context = { tables: tables(), members: members(), warming: warming(), replication };
    return buildRoutingTable(announcements(), context, previous);
  }

  /** No further tables; those who wait get none when their time is up. */
  close(): void {
    this.#closed = true;
    if (this.#timer !== undefined) this.#parts.environment.clock.clearTimer(this.#timer);
    this.#timer = undefined;
  }
}
