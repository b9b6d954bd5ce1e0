// Which requests are admitted. A request is refused before any work is done for it, or it is worked on
// to its end: a request given up half-way costs as much and helps nobody. A request is refused
//
//   - beyond `inFlightRequestsMax` requests, or where the admitted searches would exceed `waitingRowsMax`;
//   - where, at the present pace, its answer would come so late that little of its time is left. Rows
//     that are due before it count (`core/due-time.ts`), and for a small request only those of small
//     requests, because these have a reserve in the limiter (`concurrency-limiter.ts`).
//
// So an overload is answered at once, and admitted requests are answered in time.

import type { Clock } from "@winnow/core";
import { dueMsOf, Outstanding, WinnowError } from "@winnow/core";
import type { RouterSettings } from "../router-settings.ts";
import type { RefusalReason } from "../router-observer.ts";

/** A request that asks to be admitted. */
export interface Candidature {
  /** Rows of its searches, see `requestCost`; 0: none. */
  readonly rows: number;
  readonly deadlineMs: number;
}

/** A request that was admitted. */
export interface Admitted {
  /** When the request is due; its slices are ordered by it. */
  readonly dueMs: number;
  /** Tells that so many rows of the request need no work any more. */
  answered(rows: number): void;
  /** The request has ended: its remaining rows need no work any more. */
  release(): void;
}

interface Taken {
  readonly dueMs: number;
  readonly isSmall: boolean;
  rows: number;
}

/** How much may be admitted. */
export type AdmissionLimits = Pick<
  RouterSettings,
  "inFlightRequestsMax" | "waitingRowsMax" | "waitShareMax"
> & {
  /** Requests of at most so many rows are small: these are bounded by their number alone. */
  readonly smallRowsMax: number;
};

/** Dependencies of admission. */
export interface AdmissionParts {
  readonly clock: Clock;
  /** Rows answered per ms by a busy cluster; `undefined` where that is not known. */
  readonly rowsPerMs: () => number | undefined;
  /** Hears of every refusal. */
  readonly onRefused?: (reason: RefusalReason) => void;
}

/** The requests under way, and the decision about the next. */
export class Admission {
  readonly #parts: AdmissionParts;
  readonly #limits: AdmissionLimits;
  readonly #taken = new Outstanding<Taken>();
  #rows = 0;

  constructor(parts: AdmissionParts, limits: AdmissionLimits) {
    this.#parts = parts;
    this.#limits = limits;
  }

  /** Rows admitted and not answered. */
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
    // Where no rows are under way, any size is admitted; the request limits bound it.
    if (!isSmall && this.#rows > 0 && this.#rows + rows > waitingRowsMax) {
      throw this.#refusal("rows", `with ${this.#rows} searches`);
    }
    if (rows > 0) this.#checkWait({ dueMs, rows, isSmall }, deadlineMs - nowMs);
    return this.#take({ dueMs, rows, isSmall });
  }

  /** @throws WinnowError UNAVAILABLE where the answer would come too late */
  #checkWait(wanted: Taken, leftMs: number): void {
    const rowsPerMs = this.#parts.rowsPerMs();
    if (rowsPerMs === undefined) return;
    const rowsMax = leftMs * this.#limits.waitShareMax * rowsPerMs;
    // The exact count costs a look at every request, and is seldom needed.
    if (this.#rows <= rowsMax) return;
    const before = this.#rowsBefore(wanted);
    if (before <= rowsMax) return;
    throw this.#refusal("time", `for the next ${Math.ceil(before / rowsPerMs / 1000)} s`);
  }

  #refusal(reason: RefusalReason, how: string): WinnowError {
    this.#parts.onRefused?.(reason);
    return new WinnowError("UNAVAILABLE", `This router is busy ${how}; try again later`);
  }

  #rowsBefore({ dueMs, isSmall }: Taken): number {
    let rows = 0;
    for (const taken of this.#taken) {
      if (taken.dueMs <= dueMs && (taken.isSmall || !isSmall)) rows += taken.rows;
    }
    return rows;
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
