// Which requests are admitted. A request is either refused before any work is done for it or worked on to its
// end, because a request given up half-way costs as much and helps nobody. A request is refused
//
//   - beyond `inFlightRequestsMax` requests, or where the admitted searches would exceed `waitingRowsMax`;
//   - if, at the present pace, its answer would come so late that little of its time is left. Rows
//     that are due before it count (`core/src/time/due-time.ts`), and for a small request only those of
//     small requests, because these have a reserve in the limiter (`concurrency-limiter.ts`).
//
// So an overload is answered at once, and admitted requests are answered in time.

import type { Clock } from "@winnow/core";
import { dueMsOf, Outstanding, WinnowError } from "@winnow/core";
import type { RouterSettings } from "../router-settings.ts";
import type { RefusalReason } from "../router-observer.ts";

/** A request that asks to be admitted. */
export interface Candidature {
  /** Rows of its searches (`requestCost`); 0: it makes none. */
  readonly rows: number;
  readonly deadlineMs: number;
}

/** A request that was admitted. */
export interface Admitted {
  /** When the request is due. Its slices go in this order. */
  readonly dueMs: number;
  /** To be called when this many rows of the request need no more work. */
  answered(rows: number): void;
  /** To be called when the request ends: its remaining rows need no more work. */
  release(): void;
}

interface Taken {
  readonly dueMs: number;
  readonly deadlineMs: number;
  readonly isSmall: boolean;
  rows: number;
}

/** How much may be admitted. */
export type AdmissionLimits = Pick<
  RouterSettings,
  "inFlightRequestsMax" | "waitingRowsMax" | "waitShareMax"
> & {
  /** A request of at most this many rows is small: small requests are bounded by their number alone. */
  readonly smallRowsMax: number;
};

/** What admission needs. */
export interface AdmissionParts {
  readonly clock: Clock;
  /** Rows per ms that a busy cluster answers; `undefined` while not known. */
  readonly rowsPerMs: () => number | undefined;
  /** Called for every refusal. */
  readonly onRefused?: (reason: RefusalReason) => void;
}

/** Counts the requests under way, and decides about the next one. */
export class Admission {
  readonly #parts: AdmissionParts;
  readonly #limits: AdmissionLimits;
  readonly #taken = new Outstanding<Taken>();
  #rows = 0;

  constructor(parts: AdmissionParts, limits: AdmissionLimits) {
    this.#parts = parts;
    this.#limits = limits;
  }

  /** Rows that are admitted and not answered yet. */
  get rows(): number {
    return this.#rows;
  }

  /** Admits a request. @throws WinnowError UNAVAILABLE, at once */
  admit({ rows, deadlineMs }: Candidature): Admitted {
    const nowMs = this.#parts.clock.nowMs();
    const dueMs = dueMsOf({ arrivedMs: nowMs, rows, deadlineMs });
    const { inFlightRequestsMax, waitingRowsMax, smallRowsMax } = this.#limits;
    if (this.#taken.size >= inFlightRequestsMax) {
      throw this.#refusal("requests", `with ${inFlightRequestsMax} requests`);
    }
    const isSmall = rows <= smallRowsMax;
    // While no rows are under way, a request of any size is admitted: the request limits bound its size.
    if (!isSmall && this.#rows > 0 && this.#rows + rows > waitingRowsMax) {
      throw this.#refusal("rows", `with ${this.#rows} searches`);
    }
    const wanted: Taken = { dueMs, deadlineMs, rows, isSmall };
    if (rows > 0) this.#checkWait(wanted, nowMs);
    return this.#take(wanted);
  }

  /** Refuses a request whose answer would come too late. @throws WinnowError UNAVAILABLE */
  #checkWait(wanted: Taken, nowMs: number): void {
    const rowsPerMs = this.#parts.rowsPerMs();
    if (rowsPerMs === undefined) return;
    const rowsMax = (wanted.deadlineMs - nowMs) * this.#limits.waitShareMax * rowsPerMs;
    // The exact count looks at every request, and is seldom needed.
    if (this.#rows <= rowsMax) return;
    const before = this.#before(wanted);
    const rows = before.reduce((sum, taken) => sum + taken.rows, 0);
    if (rows <= rowsMax) return;
    // Whatever the pace, a request ends at its deadline.
    const lastMs = before.reduce((last, { deadlineMs }) => Math.max(last, deadlineMs), 0);
    const busyMs = Math.min(rows / rowsPerMs, lastMs - nowMs);
    throw this.#refusal("time", `for the next ${Math.max(1, Math.ceil(busyMs / 1000))} s`);
  }

  #refusal(reason: RefusalReason, how: string): WinnowError {
    this.#parts.onRefused?.(reason);
    return new WinnowError("UNAVAILABLE", `This router is busy ${how}; try again later`);
  }

  /** The requests that go before another one. */
  #before({ dueMs, isSmall }: Taken): Taken[] {
    return Array.from(this.#taken).filter((taken) => {
      return taken.dueMs <= dueMs && (taken.isSmall || !isSmall);
    });
  }

  #take(taken: Taken): Admitted {
    const id = this.#taken.add(taken);
    this.#rows += taken.rows;
    const answered = (rows: number): void => {
      const given = Math.min(rows, taken.rows);
      taken.rows -= given;
      this.#rows -= given;
    };
    return {
      dueMs: taken.dueMs,
      answered,
      release: () => {
        if (!this.#taken.delete(id)) throw new RangeError("a request released twice");
        answered(taken.rows);
      },
    };
  }
}
