// The traffic of one router on its way to the workers: which requests are admitted, which slice of a search
// goes next, and how fast the workers answer.
//
//   request ──▶ admission ──▶ its slices ──▶ concurrency limiter ──▶ workers
//                   ▲                            │ a slice leaves
//                   └────────── pace ◀───────────┘

import type { Clock } from "@winnow/core";
import { Admission } from "./admission.ts";
import { CandidateBudget } from "./candidate-budget.ts";
import type { RouterObserver } from "../router-observer.ts";
import type { RouterSettings } from "../router-settings.ts";
import { SearchPace } from "./search-pace.ts";
import { ConcurrencyLimiter } from "./concurrency-limiter.ts";

/** The gates that a request passes on its way to the workers, in this order. */
export interface Traffic {
  readonly admission: Admission;
  /** Bounds what searches have found, until the answers are written. */
  readonly candidates: CandidateBudget;
  /** Bounds the slices of searches that are under way. */
  readonly limiter: ConcurrencyLimiter;
}

/** Admission and limiter of one router, with nothing under way. The pace at which slices leave informs admission. */
export function createTraffic(
  clock: Clock,
  settings: RouterSettings,
  observer: RouterObserver = {},
): Traffic {
  const pace = new SearchPace(clock);
  const { searchRowsMax: rowsMax, sliceQueriesMax } = settings;
  const reserve = Math.min(sliceQueriesMax, rowsMax / 2);
  const limiter = new ConcurrencyLimiter({ rowsMax, reserve }, (rows, busy) =>
    pace.note(rows, busy),
  );
  const admission = new Admission(
    { clock, rowsPerMs: () => pace.rowsPerMs(), onRefused: (reason) => observer.refused?.(reason) },
    { ...settings, smallRowsMax: limiter.smallRowsMax },
  );
  const candidates = new CandidateBudget(settings, (reason) => observer.refused?.(reason));
  return { admission, candidates, limiter };
}
