// What was not believed: records of a store and words of peers that are malformed, not this cluster's,
// under another's name, or name an address that is not connected to. All are counted by reason; each
// source is logged once, and once more after it was believed again, so that whoever can write to the
// store cannot fill the log.

import { excerpt } from "@winnow/core";
import type { ErrorCode, Logger, WinnowError } from "@winnow/core";

/** Why a record was refused, as the label of a metric. */
export type RefusalReason = "malformed" | "signature" | "name" | "address" | "stale" | "excess";

/** How often records were refused, by reason. */
export type RefusalCounts = Readonly<Record<RefusalReason, number>>;

/** Sources that are remembered as logged; beyond that others are counted and not logged. */
const LOGGED_MAX = 1024;

const REASON_OF_CODE: Partial<Readonly<Record<ErrorCode, RefusalReason>>> = {
  UNAUTHENTICATED: "signature",
  PERMISSION_DENIED: "address",
};

/** The reason of a refusal that was thrown. */
export function refusalReason({ code }: WinnowError): RefusalReason {
  return REASON_OF_CODE[code] ?? "malformed";
}

/** Counts refusals and logs them sparingly; one for all that a process reads. */
export class RefusedRecords {
  readonly #log: Logger;
  readonly #logged = new Set<string>();
  readonly #counts = { malformed: 0, signature: 0, name: 0, address: 0, stale: 0, excess: 0 };

  constructor(log: Logger) {
    this.#log = log;
  }

  /** So far. */
  get counts(): RefusalCounts {
    return { ...this.#counts };
  }

  /** A record of this source was refused. */
  refuse(source: string, reason: RefusalReason, message: string): void {
    this.#counts[reason] += 1;
    if (this.#logged.has(source) || this.#logged.size >= LOGGED_MAX) return;
    this.#logged.add(source);
    this.#log.warn("record refused", {
      source: excerpt(source),
      reason,
      message: excerpt(message),
    });
  }

  /** A record of this source was believed. */
  accept(source: string): void {
    this.#logged.delete(source);
  }
}
