// Sends a model's questions, block by block, and judges the replies. The expected answers of a block are
// computed before it is sent, so that a busy event loop is not mistaken for a slow server.
//
//   questions of a block ─▶ expected answers ─▶ all sent at once ─▶ judged ─▶ progress kept ─▶ next block

import { excerpt } from "@winnow/core";
import type { Difference } from "../oracle/answer-comparison.ts";
import { isRagged } from "../oracle/answer-records.ts";
import type { QuestionSource } from "./question-sources.ts";
import type { Expected, PredictServer, Question, ServerReply } from "./exchange.ts";
import { type Verdict, judgeByFiles, judgeServers } from "./verdicts.ts";
import {
  type FieldCounts,
  type ModelProgress,
  NO_FIELDS,
  NO_VERDICTS,
  type ReportedDifference,
  type VerdictCounts,
} from "./verification-state.ts";

/** How a run sends and judges. */
export interface VerificationSettings {
  /** Requests in flight at a time. */
  readonly connections: number;
  /** For a server against the files; 0: equal to the bit. */
  readonly tolerance: number;
  /** For one server against another. */
  readonly serverTolerance: number;
}

/** What a run needs. */
export interface VerificationParts {
  readonly server: PredictServer;
  /** The same server over gRPC, whose answers are compared with the files, too. */
  readonly grpc: PredictServer | undefined;
  /** Another server whose answers are compared with the first one's. */
  readonly against: PredictServer | undefined;
  readonly signal: AbortSignal;
  /** Called after every block, with the whole progress. */
  readonly keep: (progress: ModelProgress) => void;
}

/** Differences kept for one model; all are counted. */
const DIFFERENCES_MAX = 20;
/** Missing answers after which a model is given up. */
const MISSING_MAX = 64;
const BODY_TEXT_MAX = 400;

/** Checks a model from the end of `before`. Ends early on the signal, or if too many answers are missing. */
export async function verifyModel(
  source: QuestionSource,
  settings: VerificationSettings,
  { before, ...parts }: VerificationParts & { readonly before: ModelProgress | undefined },
): Promise<ModelProgress> {
  let progress = before ?? nothingOf(source, parts);
  const again = [...progress.missing];
  const numbers = again.length;
  let taken = 0;
  while (!parts.signal.aborted) {
    const left = numbers - taken;
    const block = nextBlock(again.slice(taken), progress.next, {
      most: settings.connections,
      end: source.count,
    });
    if (block.length === 0) break;
    const judged = await askBlock(block, { source, settings, parts });
    if (parts.signal.aborted) break;
    taken += Math.min(left, block.length);
    progress = judged.reduce(withJudged, progress);
    parts.keep(progress);
    if (progress.missing.length >= MISSING_MAX) break;
  }
  return progress;
}

function nextBlock(
  again: readonly number[],
  next: number,
  { most, end }: { readonly most: number; readonly end: number },
): readonly number[] {
  if (again.length > 0) return again.slice(0, most);
  const length = Math.max(0, Math.min(most, end - next));
  return Array.from({ length }, (_, at) => next + at);
}

interface Judged {
  readonly number: number;
  readonly question: Question;
  readonly files: Verdict | undefined;
  readonly grpc: Verdict | undefined;
  readonly servers: Verdict | undefined;
  readonly missing: string | undefined;
}

interface Block {
  readonly source: QuestionSource;
  readonly settings: VerificationSettings;
  readonly parts: VerificationParts;
}

async function askBlock(numbers: readonly number[], block: Block): Promise<readonly Judged[]> {
  const { source, parts } = block;
  const questions: Question[] = [];
  for (const number of numbers) questions.push(await source.question(number));
  return Promise.all(
    questions.map(async (question, at) => {
      const { server, grpc, against, signal } = parts;
      const [first, second, other] = await Promise.all([
        server.predict(source, question, signal),
        grpc?.predict(source, question, signal),
        against?.predict(source, question, signal),
      ]);
      return judge({ number: numbers[at]!, question }, { first, second, other }, block);
    }),
  );
}

/** Replies to one question: from the server, from its gRPC port, and from another server. */
interface Replies {
  readonly first: ServerReply;
  readonly second: ServerReply | undefined;
  readonly other: ServerReply | undefined;
}

function judge(
  { number, question }: Pick<Judged, "number" | "question">,
  { first, second, other }: Replies,
  { source, settings, parts }: Block,
): Judged {
  const nothing = { number, question, files: undefined, grpc: undefined, servers: undefined };
  if (first.kind === "missing") return { ...nothing, missing: first.text };
  if (second?.kind === "missing") return { ...nothing, missing: `over gRPC: ${second.text}` };
  if (other?.kind === "missing") {
    return { ...nothing, missing: `${parts.against?.url ?? ""}: ${other.text}` };
  }
  const { expected } = question;
  const { tolerance, serverTolerance } = settings;
  const rules = { tolerance, version: source.version };
  const files = expected && judgeByFiles({ ...question, expected }, first, rules);
  const grpc =
    expected &&
    second &&
    judgeByFiles({ ...question, expected: asTensors(expected) }, second, rules);
  const servers = other && judgeServers(question, [first, other], serverTolerance);
  return { number, question, files, grpc, servers, missing: undefined };
}

/** Lists of different lengths do not fit into a tensor: over gRPC such a question must be refused. */
function asTensors(expected: Expected): Expected {
  if (expected.kind === "refusal" || !isRagged(expected.records)) return expected;
  return { kind: "refusal", text: "lists of different lengths" };
}

function nothingOf(
  source: QuestionSource,
  { grpc, against }: Pick<VerificationParts, "grpc" | "against">,
): ModelProgress {
  const { model, version, fingerprint } = source;
  return {
    model,
    version,
    fingerprint,
    next: 0,
    missing: [],
    instances: 0,
    files: undefined,
    grpc: grpc && NO_VERDICTS,
    servers: against && NO_VERDICTS,
    differences: [],
    missingText: undefined,
  };
}

/** The progress after one more question. */
function withJudged(progress: ModelProgress, judged: Judged): ModelProgress {
  const { number, question, files, grpc, servers, missing } = judged;
  const others = progress.missing.filter((each) => each !== number);
  const next = Math.max(progress.next, number + 1);
  if (missing !== undefined) {
    return { ...progress, next, missing: [...others, number], missingText: excerpt(missing) };
  }
  const found = [
    ...reported(judged, "files", files?.differences ?? []),
    ...reported(judged, "grpc", grpc?.differences ?? []),
    ...reported(judged, "servers", servers?.differences ?? []),
  ];
  return {
    ...progress,
    next,
    missing: others,
    instances: progress.instances + question.instances,
    fields: withFields(progress.fields, question),
    files: counted(progress.files, files),
    grpc: counted(progress.grpc, grpc),
    servers: counted(progress.servers, servers),
    differences: [...progress.differences, ...found].slice(0, DIFFERENCES_MAX),
  };
}

function withFields(
  before: FieldCounts | undefined,
  { request }: Question,
): FieldCounts | undefined {
  if (request === undefined) return before;
  const { k, exclude = [], include = [], filter, attributes } = request;
  const counts = before ?? NO_FIELDS;
  return {
    k: counts.k + Number(k !== undefined),
    exclude: counts.exclude + Number(exclude.length > 0),
    include: counts.include + Number(include.length > 0),
    filter: counts.filter + Number(filter !== undefined),
    return: counts.return + Number(attributes !== undefined),
  };
}

function counted(
  counts: VerdictCounts | undefined,
  verdict: Verdict | undefined,
): VerdictCounts | undefined {
  if (verdict === undefined) return counts;
  const before = counts ?? NO_VERDICTS;
  return { ...before, [verdict.kind]: before[verdict.kind] + 1 };
}

function reported(
  { number, question }: Judged,
  between: ReportedDifference["between"],
  differences: readonly Difference[],
): readonly ReportedDifference[] {
  return differences.map((difference) => {
    const { kind, instance, place, expected, given } = difference;
    const note = between === "servers" ? undefined : question.noteOf?.(difference);
    const body = question.body.slice(0, BODY_TEXT_MAX);
    return { request: number, between, kind, instance, place, expected, given, note, body };
  });
}
