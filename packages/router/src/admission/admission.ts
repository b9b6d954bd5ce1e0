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
import { dueMsOf, WinnowError, withoutStack } from "@winnow/core";
import type { RouterSettings } from "../router-settings.ts";
import type { RefusalReason } from "../router-observer.ts";
import type { AdmittedRequest } from "./admitted-requests.ts";
import { AdmittedRequests } from "./admitted-requests.ts";

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
  readonly #admitted = new AdmittedRequests();

  constructor(parts: AdmissionParts, limits: AdmissionLimits) {
    this.#parts = parts;
    this.#limits = limits;
  }

  /** Rows that are admitted and not answered yet. */
  get rows(): number {
    return this.#admitted.rows;
  }

  /** Admits a request. @throws WinnowError UNAVAILABLE, at once */
  admit({ rows, deadlineMs }: Candidature): Admitted {
    const nowMs = this.#parts.clock.nowMs();
    const dueMs = dueMsOf({ arrivedMs: nowMs, rows, deadlineMs });
    const { inFlightRequestsMax, waitingRowsMax, smallRowsMax } = this.#limits;
    if (this.#admitted.size >= inFlightRequestsMax) {
      throw this.#refusal("requests", `with ${inFlightRequestsMax} requests`);
    }
    const isSmall = rows <= smallRowsMax;
    // While no rows are under way, a request of any size is admitted: the request limits bound its size.
    const before = this.#admitted.rows;
    if (!isSmall && before > 0 && before + rows > waitingRowsMax) {
      throw this.#refusal("rows", `with ${before} searches`);
    }
    const wanted: AdmittedRequest = { dueMs, deadlineMs, rows, isSmall };
    if (rows > 0) this.#checkWait(wanted, nowMs);
    return this.#take(wanted);
  }

  /** Refuses a request whose answer would come too late. @throws WinnowError UNAVAILABLE */
  #checkWait(wanted: AdmittedRequest, nowMs: number): void {
    const rowsPerMs = this.#parts.rowsPerMs();
    if (rowsPerMs === undefined) return;
    const rowsMax = (wanted.deadlineMs - nowMs) * this.#limits.waitShareMax * rowsPerMs;
    // The exact count looks at every request, and is seldom needed.
    if (this.#admitted.rows <= rowsMax) return;
    const { rows, lastDeadlineMs } = this.#admitted.before(wanted);
    if (rows <= rowsMax) return;
    // Whatever the pace, a request ends at its deadline.
    const busyMs = Math.min(rows / rowsPerMs, lastDeadlineMs - nowMs);
    throw this.#refusal("time", `for the next ${Math.max(1, Math.ceil(busyMs / 1000))} s`);
  }

  #refusal(reason: RefusalReason, how: string): WinnowError {
    this.#parts.onRefused?.(reason);
    const text = `This router is busy ${how}; try again later`;
    return withoutStack(() => new WinnowError("UNAVAILABLE", text));
  }

  #take(request: AdmittedRequest): Admitted {
    const admitted = this.#admitted;
    const place = admitted.add(request);
    let isOpen = true;
    return {
      dueMs: request.dueMs,
      answered: (rows) => {
        if (isOpen) admitted.answered(place, rows);
      },
      release: () => {
        if (!isOpen) throw new RangeError("a request released twice");
        isOpen = false;
        admitted.delete(place);
      },
    };
  }
}
