// Counts and logs refused records of a store and messages of peers: malformed, not signed by this
// cluster, under another worker's name, or with an address that is not allowed. All are counted by
// reason. A source is logged once for each reason; after one of its records was accepted it is logged again, but
// not before ten times as many of its records were refused: two clusters that write under the same names take
// turns each second. So whoever can write to the store cannot fill the log.

import { excerpt } from "@winnow/core";
import type { ErrorCode, Logger, WinnowError } from "@winnow/core";

/** Why a record was refused, as the label of a metric. */
export type RefusalReason = "malformed" | "signature" | "name" | "address" | "stale" | "excess";

/** How often records were refused, by reason. */
export type RefusalCounts = Readonly<Record<RefusalReason, number>>;

/** Sources remembered as logged, at most; refusals of further sources are only counted. */
const LOGGED_MAX = 1024;

const REASON_OF_CODE: Partial<Readonly<Record<ErrorCode, RefusalReason>>> = {
  UNAUTHENTICATED: "signature",
  PERMISSION_DENIED: "address",
};

/** The reason of a refusal, from the error that was thrown. */
export function refusalReason({ code }: WinnowError): RefusalReason {
  return REASON_OF_CODE[code] ?? "malformed";
}

/** Counts refusals and logs them sparingly; one instance for all that a process reads. */
export class RefusedRecords {
  readonly #log: Logger;
  readonly #sources = new Map<string, Source>();
  readonly #counts = { malformed: 0, signature: 0, name: 0, address: 0, stale: 0, excess: 0 };

  constructor(log: Logger) {
    this.#log = log;
  }

  /** Refusals so far. */
  get counts(): RefusalCounts {
    return { ...this.#counts };
  }

  /** A record of this source was refused. */
  refuse(source: string, reason: RefusalReason, message: string): void {
    this.#counts[reason] += 1;
    const known = this.#sources.get(source);
    if (known === undefined && this.#sources.size >= LOGGED_MAX) return;
    const { refused, nextLogged, reasons, wasAccepted } = known ?? UNKNOWN;
    const times = refused + 1;
    const isLogged = wasAccepted && (times >= nextLogged || !reasons.includes(reason));
    this.#sources.set(source, {
      refused: times,
      nextLogged: isLogged ? AGAIN_FACTOR * times : nextLogged,
      reasons: reasons.includes(reason) ? reasons : [...reasons, reason],
      wasAccepted: wasAccepted && !isLogged,
    });
    if (!isLogged) return;
    const fields = { source: excerpt(source), reason, message: excerpt(message) };
    this.#log.warn("record refused", times === 1 ? fields : { ...fields, times });
  }

  /** A record of this source was accepted. */
  accept(source: string): void {
    const known = this.#sources.get(source);
    if (known !== undefined) this.#sources.set(source, { ...known, wasAccepted: true });
  }
}

/** What is known of a source of which records were refused. */
interface Source {
  readonly refused: number;
  /** From this number of refusals on it is logged again. */
  readonly nextLogged: number;
  readonly reasons: readonly RefusalReason[];
  /** Whether a record was accepted since it was logged. */
  readonly wasAccepted: boolean;
}

const UNKNOWN: Source = { refused: 0, nextLogged: 1, reasons: [], wasAccepted: true };
const AGAIN_FACTOR = 10;
