// The requests of one router on their way to the workers: which are taken on, whose frame goes next,
// and at what pace they are answered.
//
//   request ──▶ admission ──▶ its frames ──▶ turnstile ──▶ workers
//                   ▲                            │ leaves
//                   └────────── pace ◀───────────┘

import type { Clock } from "@winnow/core";
import { Admission } from "./admission.ts";
import type { RouterObserver } from "../router-observer.ts";
import type { RouterSettings } from "../router-settings.ts";
import { SearchPace } from "./search-pace.ts";
import { Turnstile } from "./turnstile.ts";

/** What requests pass on their way. */
export interface Traffic {
  readonly admission: Admission;
  /** For the frames of searches. */
  readonly turnstile: Turnstile;
}

/** An empty road. */
export function createTraffic(
  clock: Clock,
  settings: RouterSettings,
  observer: RouterObserver = {},
): Traffic {
  const pace = new SearchPace(clock);
  const { searchRowsMax: rowsMax, frameQueriesMax } = settings;
  const reserve = Math.min(frameQueriesMax, rowsMax / 2);
  const turnstile = new Turnstile({ rowsMax, reserve }, (rows, busy) => pace.note(rows, busy));
  const admission = new Admission(
    { clock, rowsPerMs: () => pace.rowsPerMs(), onRefused: (reason) => observer.refused?.(reason) },
    { ...settings, smallRowsMax: turnstile.smallRowsMax },
  );
  return { admission, turnstile };
}
