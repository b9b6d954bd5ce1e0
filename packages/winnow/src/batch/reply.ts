// What the answer to a batch means for it: predictions; refused, so that some of its instances are at fault; nothing yet,
// so that it is worth asking again; or the end of the job.

import { type ErrorCode, WinnowError } from "@winnow/core";
import type { RestAnswer } from "../access/rest-client.ts";
import { codeOf, errorText } from "../predict/asking.ts";
import { predictionTexts } from "./answer-parts.ts";

/** The outcome of one request. */
export type Reply =
  | { readonly kind: "predictions"; readonly texts: readonly string[] }
  | { readonly kind: "refused"; readonly code: ErrorCode; readonly message: string }
  | {
      readonly kind: "passing";
      readonly message: string;
      /** How long the server asks to wait. */
      readonly waitMs: number | undefined;
      /** Whether fewer instances at a time may be answered where these are not. */
      readonly mayHalve: boolean;
    }
  | { readonly kind: "final"; readonly error: WinnowError };

/** The server says that the request is at fault, or too long: 400, 413 and their kind. */
const REFUSED: ReadonlySet<number> = new Set([400, 413, 422]);
/** Overload, a lost replica, a restart, a proxy without its server, a limit of this client's key. */
const PASSING: ReadonlySet<number> = new Set([408, 425, 429, 502, 503]);
/** The same, or one instance that takes too long or hits a fault of the server. */
const PASSING_OR_TOO_MUCH: ReadonlySet<number> = new Set([500, 504]);

/** What an answer to so many instances means. */
export function replyOf(answer: RestAnswer, instances: number): Reply {
  const { status } = answer;
  if (status === 200) return predictionsReply(answer, instances);
  const message = errorText(answer);
  if (REFUSED.has(status)) return { kind: "refused", code: codeOf(answer), message };
  const mayHalve = PASSING_OR_TOO_MUCH.has(status);
  if (mayHalve || PASSING.has(status)) {
    return { kind: "passing", message, waitMs: retryAfterMs(answer), mayHalve };
  }
  return { kind: "final", error: new WinnowError(codeOf(answer), message) };
}

/** What a request without an answer means: a certificate that is not believed stays so. */
export function replyOfFault(error: unknown): Reply {
  if (!(error instanceof WinnowError)) throw error;
  if (error.code !== "UNAVAILABLE") return { kind: "final", error };
  return { kind: "passing", message: error.message, waitMs: undefined, mayHalve: false };
}

function predictionsReply(answer: RestAnswer, instances: number): Reply {
  try {
    const texts = predictionTexts(answer.text);
    if (texts.length === instances) return { kind: "predictions", texts };
    const text = `The answer to ${instances} instances has ${texts.length} predictions: the signature does not answer row by row, or the server is none that does`;
    return { kind: "final", error: new WinnowError("UNKNOWN", text) };
  } catch (error) {
    if (error instanceof WinnowError) return { kind: "final", error };
    throw error;
  }
}

/** Seconds alone: dates are written by servers whose clocks may differ. */
function retryAfterMs(answer: RestAnswer): number | undefined {
  const seconds = answer.header("retry-after") ?? "";
  return /^\d{1,9}$/.test(seconds) ? Number(seconds) * 1000 : undefined;
}
