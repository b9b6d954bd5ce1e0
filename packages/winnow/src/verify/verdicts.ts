// Judges replies: those of one server against the files, or of two servers against each other.

import { excerpt } from "@winnow/core";
import { type Comparison, type Difference, compareAnswers } from "../oracle/answer-comparison.ts";
import type { Expected, Question, ServerReply } from "./exchange.ts";

/** The result for one reply. */
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

/** Judges a reply by the files. `version` had to answer. */
export function judgeByFiles(
  question: Pick<Question, "outputs"> & { readonly expected: Expected },
  reply: Given,
  { tolerance, version }: { readonly tolerance: number; readonly version: number | undefined },
): Verdict {
  const { expected, outputs } = question;
  if (expected.kind === "refusal" || reply.kind === "refused") {
    return judgeRefusal(
      expected.kind === "refusal" ? expected.text : undefined,
      reply.kind === "refused" ? reply.text : undefined,
    );
  }
  const { told, records } = reply;
  const { beside } = expected;
  const wrong =
    toldOtherwise("version", version?.toString(), told.version) ??
    toldOtherwise("arm", beside.arm, told.arm) ??
    toldOtherwise("version", inOneOrder(beside.members), inOneOrder(told.members));
  if (wrong !== undefined) return wrong;
  return verdictOf(compareAnswers(expected.records, records, { outputs, tolerance }));
}

/** A header with a wrong value; if a server does not send it, it is not judged. */
function toldOtherwise(
  kind: "version" | "arm",
  expected: string | undefined,
  given: string | undefined,
): Verdict | undefined {
  if (expected === undefined || given === undefined || expected === given) return undefined;
  const text = (value: string): string => `${kind} ${excerpt(value)}`;
  return different({ kind, expected: text(expected), given: text(given) });
}

const inOneOrder = (versions: string | undefined): string | undefined =>
  versions?.split(", ").toSorted().join(", ");

/** Judges two replies to one question. */
export function judgeServers(
  { outputs }: Question,
  [first, second]: readonly [Given, Given],
  tolerance: number,
): Verdict {
  if (first.kind === "refused" || second.kind === "refused") {
    return judgeRefusal(
      first.kind === "refused" ? first.text : undefined,
      second.kind === "refused" ? second.text : undefined,
    );
  }
  const { records: expected } = first;
  const { records: given } = second;
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

function verdictOf({ verdict, differences }: Comparison): Verdict {
  return { kind: KINDS[verdict], differences };
}

function different(difference: Pick<Difference, "kind" | "expected" | "given">): Verdict {
  return { kind: "different", differences: [{ instance: 0, ...difference }] };
}
