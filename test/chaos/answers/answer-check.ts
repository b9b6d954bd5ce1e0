// Judges replies. An answer is compared with the oracle of the version that it names, value by value;
// a text that was found right once is compared by its bytes from then on, so that checking each of a
// million answers costs little. Nothing that says 200 passes unchecked.

import type { RankedList } from "./answer-oracle.ts";
import type { ModelName, VersionContent } from "./model-content.ts";

/** The class of a reply. */
export type AnswerClass =
  /** 200, equal to the oracle's answer for the version that it names. */
  | "exact"
  /** 200, marked as partial, which the request allows; every item is right. */
  | "partial"
  /** 503 or 429 with `Retry-After`, or the gRPC codes that mean the same. */
  | "refused"
  /** 404 for a pinned version that the run had replaced. */
  | "gone"
  /** Any other status, a broken connection, or no answer in time. */
  | "failed"
  /** 200 with anything else. */
  | "wrong";

/** A reply over HTTP or gRPC, reduced to what is judged. */
export interface CheckedReply {
  /** HTTP status, or what a gRPC code means there; 0 for a connection that broke. */
  readonly status: number;
  /** `X-Winnow-Model-Version`, or the version of a gRPC answer. */
  readonly version: string | undefined;
  /** `X-Winnow-Coverage`. */
  readonly coverage: string | undefined;
  readonly hasRetryAfter: boolean;
  readonly body: Buffer;
}

/** A class, and what was seen if it is not `exact`. */
export interface Verdict {
  readonly class: AnswerClass;
  readonly text?: string;
}

/** The versions that the run has published. */
export interface PublishedVersion extends VersionContent {
  /** A damaged version must never answer. */
  readonly sound: boolean;
}

/** Judges a reply, given everything published so far. */
export type Judge = (reply: CheckedReply, published: readonly PublishedVersion[]) => Verdict;

/** What is wrong with a body if this content answered; `undefined` if it is right. */
export type BodyFault = (body: Buffer, content: VersionContent) => string | undefined;

/** How predictions are judged. */
export interface PredictionCheck {
  readonly model: ModelName;
  readonly fault: BodyFault;
  /** Judges answers that may be partial; absent if the request does not allow them. */
  readonly partialFault?: BodyFault | undefined;
  /** The request names a version. */
  readonly isPinned?: boolean;
}

const EXACT: Verdict = { class: "exact" };
const TEXT_MAX = 300;

/** Judges the predictions that answer one request. */
export function predictionJudge(prediction: PredictionCheck): Judge {
  /** Bodies found right, by version. */
  const proven = new Map<string, Buffer>();
  return (reply, published) => {
    const { status, version = "", coverage = "1", body } = reply;
    if (status !== 200) return refusalVerdict(reply, prediction.isPinned ?? false);
    const isPartial = coverage !== "1";
    if (!isPartial && proven.get(version)?.equals(body) === true) return EXACT;
    const fault = predictionFault(prediction, { version, isPartial, body }, published);
    if (fault !== undefined) {
      const shown = body.toString("utf8", 0, TEXT_MAX);
      const text = `${fault}: version ${version}, coverage ${coverage}, ${shown}`;
      return { class: "wrong", text };
    }
    if (isPartial) return { class: "partial", text: `coverage ${coverage}` };
    proven.set(version, Buffer.from(body));
    return EXACT;
  };
}

interface GivenAnswer {
  readonly version: string;
  readonly isPartial: boolean;
  readonly body: Buffer;
}

function predictionFault(
  { model, fault, partialFault }: PredictionCheck,
  { version, isPartial, body }: GivenAnswer,
  published: readonly PublishedVersion[],
): string | undefined {
  const check = isPartial ? partialFault : fault;
  if (check === undefined) return "partial, which nobody allowed";
  const contents = published.filter(
    (content) => content.model === model && String(content.version) === version,
  );
  if (contents.length === 0) return "a version that was never published";
  const sound = contents.filter((content) => content.sound);
  if (sound.length === 0) return "a spoilt version";
  const faults = sound.map((content) => faultOf(check, body, content));
  return faults.includes(undefined) ? undefined : faults.join("; ");
}

/** Judges status and metadata of a model, whose bodies are the only place that names versions. */
export function toldJudge(
  judgeBody: (body: Buffer, published: readonly PublishedVersion[]) => Verdict,
): Judge {
  return (reply, published) => {
    if (reply.status !== 200) return refusalVerdict(reply, false);
    try {
      return judgeBody(reply.body, published);
    } catch (error) {
      return { class: "wrong", text: `cannot be read: ${String(error)}` };
    }
  };
}

/** What a reply other than 200 is. */
function refusalVerdict({ status, hasRetryAfter, body }: CheckedReply, isPinned: boolean): Verdict {
  const text = `${status} ${body.toString("utf8", 0, TEXT_MAX)}`;
  if (status === 503 || status === 429) {
    return hasRetryAfter
      ? { class: "refused", text }
      : { class: "failed", text: `without Retry-After: ${text}` };
  }
  return { class: status === 404 && isPinned ? "gone" : "failed", text };
}

function faultOf(fault: BodyFault, body: Buffer, content: VersionContent): string | undefined {
  try {
    return fault(body, content);
  } catch (error) {
    return `cannot be read: ${String(error)}`;
  }
}

/** Lists of candidates as an answer holds them. */
export interface GivenList {
  readonly scores: readonly number[];
  readonly ids: readonly string[];
}

/** What is wrong with a list that must be exactly this one. */
export function listFault(given: GivenList, expected: RankedList): string | undefined {
  if (given.ids.length !== expected.ids.length || given.scores.length !== expected.ids.length) {
    const counts = `${given.ids.length} items, ${given.scores.length} scores`;
    return `${counts} instead of ${expected.ids.length}`;
  }
  for (const [place, id] of expected.ids.entries()) {
    if (given.ids[place] === id && given.scores[place] === expected.scores[place]) continue;
    const seen = `${given.ids[place]} (${given.scores[place]})`;
    return `place ${place} is ${seen}, not ${id} (${expected.scores[place]})`;
  }
  return undefined;
}
