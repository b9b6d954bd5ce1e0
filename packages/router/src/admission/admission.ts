// Which requests are taken on. A request is refused before any work is done for it, or it is worked on
// to its end: what would be given up half-way costs as much and helps nobody. Refused is
//
//   - what is one too many, or would make the searches taken on larger than `waitingRowsMax`;
//   - what at the present pace would be answered so late that little of its time is left. Only what
//     is due before it counts (`core/turn.ts`), and to a small request only the small: a part of what
//     is under way is kept for these (`turnstile.ts`).
//
// An overload is thus answered at once, and those taken on are answered in time.

import type { Clock } from "@winnow/core";
import { turnMsOf, WinnowError } from "@winnow/core";
import type { RouterSettings } from "../router-settings.ts";
import type { RefusalReason } from "../router-observer.ts";

/** What is asked for. */
export interface Candidature {
  /** Rows of its searches, see `requestCost`; 0: none. */
  readonly rows: number;
  readonly deadlineMs: number;
}

/** A request that was taken on. */
export interface Admitted {
  /** When it is due; all its frames go by it. */
  readonly turnMs: number;
  /** So many of its rows need no work any more. */
  answered(rows: number): void;
  /** It has ended; what is left of it needs no work any more. */
  release(): void;
}

interface Taken {
  readonly turnMs: number;
  readonly isSmall: boolean;
  rows: number;
}

/** How many may be taken on. */
export type AdmissionLimits = Pick<
  RouterSettings,
  "inFlightRequestsMax" | "waitingRowsMax" | "waitShareMax"
> & {
  /** Requests of at most so many rows are small: these are bounded by their number alone. */
  readonly smallRowsMax: number;
};

/** What admission goes by. */
export interface AdmissionParts {
  readonly clock: Clock;
  /** Rows answered per ms by a busy cluster; `undefined` where that is not known. */
  readonly rowsPerMs: () => number | undefined;
  /** Hears of every refusal. */
  readonly onRefused?: (reason: RefusalReason) => void;
}

/** Keeps the requests under way. */
export class Admission {
  readonly #parts: AdmissionParts;
  readonly #limits: AdmissionLimits;
  readonly #taken = new Set<Taken>();
  #rows = 0;

  constructor(parts: AdmissionParts, limits: AdmissionLimits) {
    this.#parts = parts;
    this.#limits = limits;
  }

  /** Rows taken on and not answered. */
  get rows(): number {
    return this.#rows;
  }

  /** Takes a request on. @throws WinnowError UNAVAILABLE, at once */
  admit({ rows, deadlineMs }: Candidature): Admitted {
    const nowMs = this.#parts.clock.nowMs();
    const turnMs = turnMsOf({ arrivedMs: nowMs, rows, deadlineMs });
    const { inFlightRequestsMax, waitingRowsMax, smallRowsMax } = this.#limits;
    if (this.#taken.size >= inFlightRequestsMax) {
      throw this.#refusal("requests", `with ${inFlightRequestsMax} requests`);
    }
    const isSmall = rows <= smallRowsMax;
    // The first is taken on whatever its size, which is bounded where it is validated.
    if (!isSmall && this.#rows > 0 && this.#rows + rows > waitingRowsMax) {
      throw this.#refusal("rows", `with ${this.#rows} searches`);
    }
    if (rows > 0) this.#checkWait({ turnMs, rows, isSmall }, deadlineMs - nowMs);
    return this.#take({ turnMs, rows, isSmall });
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

  #rowsBefore({ turnMs, isSmall }: Taken): number {
    let rows = 0;
    for (const taken of this.#taken) {
      if (taken.turnMs <= turnMs && (taken.isSmall || !isSmall)) rows += taken.rows;
    }
    return rows;
  }

  #take(taken: Taken): Admitted {
    this.#taken.add(taken);
    this.#rows += taken.rows;
    const answered = (rows: number): void => {
      const given = Math.min(rows, taken.rows);
      taken.rows -= given;
      this.#rows -= given;
    };
    return {
      turnMs: taken.turnMs,
      answered,
      release: () => {
        if (!this.#taken.delete(taken)) throw new RangeError("a request released twice");
        answered(taken.rows);
      },
    };
  }
}
