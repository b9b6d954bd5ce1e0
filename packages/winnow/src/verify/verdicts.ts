// Judges replies: one server's against the files, or two servers' against each other.

import { excerpt } from "@winnow/core";
import { type Comparison, type Difference, compareAnswers } from "../oracle/answer-comparison.ts";
import { type AnswerValue, parseAnswer } from "../oracle/answer-json.ts";
import {
  type AnswerFormat,
  type AnswerRecord,
  type AnswerRecords,
  type OutputSpec,
  recordsOfBody,
} from "../oracle/answer-records.ts";
import type { ServerReply } from "./rest-server.ts";

/** What the files say about a question. */
export type Expected =
  | { readonly kind: "records"; readonly records: readonly AnswerRecord[] }
  | { readonly kind: "refusal"; readonly text: string };

/** A question as it is sent and judged. */
export interface Question {
  readonly body: string;
  readonly format: AnswerFormat;
  readonly instances: number;
  readonly outputs: readonly OutputSpec[];
  /** Absent where only servers are compared. */
  readonly expected?: Expected;
  /** Where the item of a difference stands in the files. */
  readonly noteOf?: (difference: Difference) => string | undefined;
}

/** How a reply was judged. */
export interface Verdict {
  readonly kind: "exact" | "close" | "reordered" | "refused" | "different";
  readonly differences: readonly Difference[];
}

type Given = Exclude<ServerReply, { readonly kind: "missing" }>;

const KINDS = {
  equal: "exact",
  close: "close",
  reordered: "reordered",
  different: "different",
} as const;

/** Judges a reply by the files. `version`: the one that had to answer. */
export function judgeByFiles(
  question: Question & { readonly expected: Expected },
  reply: Given,
  { tolerance, version }: { readonly tolerance: number; readonly version: number | undefined },
): Verdict {
  const { expected, outputs, format } = question;
  if (expected.kind === "refusal" || reply.kind === "refused") {
    return judgeRefusal(
      expected.kind === "refusal" ? expected.text : undefined,
      reply.kind === "refused" ? reply.text : undefined,
    );
  }
  const told = reply.version;
  if (version !== undefined && told !== undefined && told !== String(version)) {
    return different({
      kind: "version",
      expected: `version ${version}`,
      given: `version ${excerpt(told)}`,
    });
  }
  const given = recordsOf(reply.body, outputs, format);
  return verdictOf(compareAnswers(expected.records, given, { outputs, tolerance }));
}

/** Judges two replies to one question. */
export function judgeServers(
  { outputs, format }: Question,
  [first, second]: readonly [Given, Given],
  tolerance: number,
): Verdict {
  if (first.kind === "refused" || second.kind === "refused") {
    return judgeRefusal(
      first.kind === "refused" ? first.text : undefined,
      second.kind === "refused" ? second.text : undefined,
    );
  }
  const expected = recordsOf(first.body, outputs, format);
  const given = recordsOf(second.body, outputs, format);
  if (expected.kind === "fault") {
    return different({ kind: "form", expected: expected.text, given: "the other's answer" });
  }
  return verdictOf(compareAnswers(expected.records, given, { outputs, tolerance }));
}

function judgeRefusal(expected: string | undefined, given: string | undefined): Verdict {
  if (expected !== undefined && given !== undefined) return { kind: "refused", differences: [] };
  return different({ kind: "status", expected: refusalText(expected), given: refusalText(given) });
}

function refusalText(refusal: string | undefined): string {
  return refusal === undefined ? "an answer" : `a refusal: ${excerpt(refusal)}`;
}

function recordsOf(
  body: string,
  outputs: readonly OutputSpec[],
  format: AnswerFormat,
): AnswerRecords {
  let value: AnswerValue;
  try {
    value = parseAnswer(body);
  } catch {
    return { kind: "fault", text: `no JSON: ${excerpt(body)}` };
  }
  return recordsOfBody(value, outputs, format);
}

function verdictOf({ verdict, differences }: Comparison): Verdict {
  return { kind: KINDS[verdict], differences };
}

function different(difference: Pick<Difference, "kind" | "expected" | "given">): Verdict {
  return { kind: "different", differences: [{ instance: 0, ...difference }] };
}
