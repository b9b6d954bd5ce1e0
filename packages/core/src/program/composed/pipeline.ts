// A pipeline: the stages of recommending, over other models, as one model. It has no tables and no
// steps of its own: the router asks the models that the stages name.
//
//   inputs ─▶ retrieve (─▶ merge) ─▶ candidates (id, scores) ─▶ rank, score ─▶ … ─▶ limit ─▶ scores, ids

import { parseFilterText } from "../../attributes/filter-text.ts";
import { toWinnowError } from "../../errors/errors.ts";
import type { HeaderReader, HeaderValue } from "../header-reader.ts";
import { count, listOf, oneOf, optional, read, refuse, text } from "../header-reader.ts";
import type { ScoreExpression } from "./score-expression.ts";
import { namesInScore, scoreReader } from "./score-expression.ts";
import { parseKeyPattern } from "./seen-key.ts";

/** Stages of one pipeline, at most. */
export const PIPELINE_STAGES_MAX = 16;
/** Candidates of one instance, at most: the default of `kMax`, which bounds what a request may ask of a model. */
export const PIPELINE_CANDIDATES_MAX = 4096;

/** A pipeline. Its first stages retrieve, and no later ones do; the lists of several retrieving stages are merged. */
export interface Pipeline {
  readonly stages: readonly PipelineStage[];
  /** Names of the outputs. */
  readonly outputs: { readonly scores: string; readonly ids: string };
}

/** One stage. */
export type PipelineStage =
  | RetrieveStage
  | MergeStage
  | FilterStage
  | SeenStage
  | UnknownStage
  | RankStage
  | ScoreStage
  | DiversifyStage
  | LimitStage;

/** A stage that asks a model. */
export type ModelStage = RetrieveStage | RankStage;

/** A signature of another model, in the version that is the default when the request arrives. */
export interface PipelineMember {
  readonly model: string;
  readonly signature: string;
}

/** The best `k` items of a retrieval model, or the `k` items of its search that are most like an item. */
export interface RetrieveStage extends PipelineMember {
  readonly kind: "retrieve";
  readonly k: number;
  /**
   * The input of the pipeline with an item's id: the best items are those with the largest products with its vector, and
   * the model has no inputs. Routers without this ask for the model's inputs, and so refuse the pipeline.
   */
  readonly like?: string | undefined;
  /** Beside `like`: the input with the items that the best ones are not to be like. */
  readonly unlike?: string | undefined;
  /** Inputs of the model, each from an input of the pipeline. */
  readonly inputs: readonly { readonly name: string; readonly from: string }[];
  readonly scores: string;
  readonly ids: string;
  /** The name of its score in expressions of later stages. */
  readonly as?: string | undefined;
}

/** The inputs of a pipeline with items to which a stage retrieves similar ones, or unlike ones. */
export function itemInputsOf(stage: PipelineStage): readonly string[] {
  if (stage.kind !== "retrieve" || stage.like === undefined) return [];
  return stage.unlike === undefined ? [stage.like] : [stage.like, stage.unlike];
}

/**
 * Merges what several stages have retrieved into one list, with each item once. `weights`: an item's score is
 * the sum of its scores times their weights. `reciprocal-ranks`: the sum of weight / (constant + its place there, from
 * 1), reciprocal rank fusion (Cormack, Clarke and Büttcher, SIGIR 2009). `quotas`: a number of items from each retrieval,
 * which take turns.
 */
export type MergeStage = {
  readonly kind: "merge";
  /** One part for each retrieval, by the name of its score. */
  readonly parts: readonly MergePart[];
} & (
  | { readonly by: "weights" | "quotas" }
  | { readonly by: "reciprocal-ranks"; readonly constant: number }
);

/** The weight or quota of one retrieval in a merge. */
interface MergePart {
  readonly name: string;
  readonly value: number;
}

/** The largest weight of a retrieval. */
export const MERGE_WEIGHT_MAX = 1e6;
/** The largest constant of reciprocal ranks; the least is 1. */
export const RANK_CONSTANT_MAX = 1e6;

/**
 * Which items may be retrieved, by their attributes. The filter is passed to the retrieval, which still gives
 * `k` items if enough are admitted; so it must come before every stage that cuts the list.
 */
export interface FilterStage {
  readonly kind: "filter";
  /** The filter as `filterText`, not yet checked against attributes. */
  readonly filter: string;
}

/**
 * Excludes the items that a set in Redis holds for each instance. Like a filter it is passed to the
 * retrieval. If Redis does not answer within the budget, nothing is excluded, and the answer says so.
 */
export interface SeenStage {
  readonly kind: "seen";
  /** A pattern for `parseKeyPattern`. */
  readonly key: string;
  /** From a sorted set, the members with the largest scores are excluded. */
  readonly type: SeenType;
  /** Members that are read of one key, at most. */
  readonly countMax: number;
  readonly budgetMs: number;
}

/**
 * What is answered to users that a model does not know: where none of the vocabularies in which it looks their key up
 * has the key. It is found out before anything is retrieved. Routers without this stage refuse the pipeline.
 */
export interface UnknownStage {
  readonly kind: "unknown";
  /** The pipeline's input that is the key. */
  readonly input: string;
  /** The retrieval whose model is asked; may be missing where there is but one. */
  readonly of?: string | undefined;
  readonly answer: UnknownAnswer;
}

/**
 *   oov       what the model makes of a key that it does not know
 *   error     nothing: the request is refused
 *   list      these items, in this order
 *   pipeline  what another pipeline answers
 */
export type UnknownAnswer =
  | { readonly kind: "oov" | "error" }
  | { readonly kind: "list"; readonly ids: readonly string[] }
  | { readonly kind: "pipeline"; readonly model: string };

/** The type of the value that Redis has under the key of a `seen` stage. */
export type SeenType = "set" | "sorted_set";
/** Members that one key may give, at most. */
export const SEEN_COUNT_MAX = 16_384;
/** The longest budget of a stage. */
export const STAGE_BUDGET_MS_MAX = 10_000;

/**
 * Makes the list less uniform; candidates keep their scores.
 *
 *   at-most      drops a candidate if one of its values has occurred `count` times before
 *   round-robin  takes one candidate of each value in turn, values in the order of their first candidate
 *   mmr          takes `count` candidates one by one, each the best by its score and its unlikeness to those
 *                taken so far (maximal marginal relevance, Carbonell and Goldstein 1998)
 */
export type DiversifyStage = { readonly kind: "diversify" } & (
  | { readonly by: "at-most"; readonly attribute: string; readonly count: number }
  | { readonly by: "round-robin"; readonly attribute: string }
  | {
      readonly by: "mmr";
      /** Weight of the score, 0 to 1; the rest is the weight of unlikeness. */
      readonly balance: number;
      readonly count: number;
      /** The retrieval whose items' vectors are compared; may be absent if there is only one. */
      readonly of?: string | undefined;
    }
);

/** Where an input of a ranking model comes from. */
export type RankSource =
  | { readonly kind: "request"; readonly input: string }
  | { readonly kind: "item" }
  | { readonly kind: "score" };

/**
 * Sorts candidates by the score that a ranking model gives each; equal scores keep their order. If the model
 * does not answer within the budget, the order before stays, stages that need its scores are left out, and
 * the answer says so. Routers of releases without budgets wait for the model.
 */
export interface RankStage extends PipelineMember {
  readonly kind: "rank";
  readonly inputs: readonly { readonly name: string; readonly from: RankSource }[];
  /** The output that is the score: one number for each candidate. */
  readonly scores: string;
  /** Outputs that expressions of later stages name: each one number for each candidate. */
  readonly heads?: readonly { readonly name: string; readonly output: string }[] | undefined;
  /** Absent: the request's deadline is the only limit. */
  readonly budgetMs?: number | undefined;
}

/** Sorts candidates by an expression over their named scores and `score`, the score so far. */
export interface ScoreStage {
  readonly kind: "score";
  readonly expression: ScoreExpression;
}

/** The name of the score so far. */
export const SCORE_SO_FAR = "score";
/** Named scores of one ranking stage, at most. */
export const PIPELINE_HEADS_MAX = 16;

/** Whether a stage asks a model. */
export function asksModel(stage: PipelineStage): stage is ModelStage {
  return stage.kind === "retrieve" || stage.kind === "rank";
}

/** Names of the scores that a stage gives. */
export function scoreNamesOf(stage: PipelineStage): readonly string[] {
  if (stage.kind === "retrieve") return stage.as === undefined ? [] : [stage.as];
  return stage.kind === "rank" ? (stage.heads ?? []).map(({ name }) => name) : [];
}

/** Keeps the first `count` candidates. */
export interface LimitStage {
  readonly kind: "limit";
  readonly count: number;
}

/** A stage that is not allowed at its place, and why. */
interface OrderFault {
  readonly at: number;
  readonly fault: string;
}

/** What is wrong with the order of stages; `undefined` if nothing is. */
export function orderFault(stages: readonly PipelineStage[]): OrderFault | undefined {
  for (const [at, stage] of stages.entries()) {
    const fault = faultBehind(stage, stages.slice(0, at));
    if (fault !== undefined) return { at, fault };
  }
  if (stages.length < 2 || stages.some(({ kind }) => kind !== "retrieve")) return undefined;
  return { at: stages.length - 1, fault: UNMERGED };
}

const UNMERGED = "retrieves a further list; a merge must follow it";

/** What is wrong with a stage after the stages `before`. */
function faultBehind(stage: PipelineStage, before: readonly PipelineStage[]): string | undefined {
  const retrievals = before.filter((each) => each.kind === "retrieve");
  const isBehindOthers = retrievals.length < before.length;
  if (stage.kind === "merge") return mergeFault(stage, isBehindOthers ? [] : retrievals);
  if (stage.kind === "retrieve") {
    if (isBehindOthers) return "retrieves behind other stages; retrievals come first";
    const isNamed = [stage, ...retrievals].every(({ as }) => as !== undefined);
    return before.length === 0 || isNamed ? undefined : "needs `as`, and so do all retrievals";
  }
  if (before.length === 0) return `is "${stage.kind}"; the first stage is "retrieve"`;
  if (!isBehindOthers && before.length > 1) return `stands where a merge of retrievals must`;
  return placeFault(stage, before);
}

function placeFault(stage: PipelineStage, before: readonly PipelineStage[]): string | undefined {
  if (stage.kind === "diversify") return diversifyFault(stage, before);
  if (stage.kind === "unknown") return unknownFault(stage, before);
  return stage.kind === "filter" || stage.kind === "seen"
    ? filterFault(stage.kind, before)
    : undefined;
}

function filterFault(own: "filter" | "seen", before: readonly PipelineStage[]): string | undefined {
  const cut = before.find(({ kind }) => kind === "limit" || kind === "diversify");
  if (cut === undefined) return undefined;
  const [verb, noun] = own === "filter" ? ["filters", "a filter"] : ["excludes", "what was seen"];
  return `${verb} behind a ${cut.kind}; ${noun} goes to the retrieval, so it stands before that`;
}

function unknownFault(stage: UnknownStage, before: readonly PipelineStage[]): string | undefined {
  const other = before.find(({ kind }) => !NEAR_RETRIEVAL.has(kind));
  if (other !== undefined) {
    const twice = other.kind === "unknown" ? "is the second one" : `stands behind a ${other.kind}`;
    return `${twice}; unknown users are told once, before candidates are ranked or cut`;
  }
  const retrieval = retrievalOf(stage, before);
  if (retrieval === undefined) {
    const names = before.flatMap((each) => (each.kind === "retrieve" ? (each.as ?? []) : []));
    return `needs \`of\`, the retrieval whose model knows users: ${names.join(" or ")}`;
  }
  if (retrieval.inputs.some(({ from }) => from === stage.input)) return undefined;
  return `goes by "${stage.input}", which the retrieval does not take`;
}

/** What may stand before a stage that tells unknown users. */
const NEAR_RETRIEVAL: ReadonlySet<PipelineStage["kind"]> = new Set<PipelineStage["kind"]>([
  "retrieve",
  "merge",
  "filter",
  "seen",
]);

/** The retrieval whose model tells which users it does not know. */
export function retrievalOf(
  { of }: Pick<UnknownStage, "of">,
  stages: readonly PipelineStage[],
): RetrieveStage | undefined {
  const retrievals = stages.filter((each) => each.kind === "retrieve");
  if (of === undefined) return retrievals.length === 1 ? retrievals[0] : undefined;
  return retrievals.find(({ as }) => as === of);
}

function diversifyFault(
  stage: DiversifyStage,
  before: readonly PipelineStage[],
): string | undefined {
  if (stage.by !== "mmr") return undefined;
  const retrievals = before.filter((each) => each.kind === "retrieve");
  const names = retrievals.flatMap(({ as }) => as ?? []);
  if (stage.of === undefined) {
    if (retrievals.length === 1) return undefined;
    return `needs \`of\`, the retrieval whose items' vectors are compared: ${names.join(" or ")}`;
  }
  return names.includes(stage.of)
    ? undefined
    : `compares items of ${stage.of}, which is no retrieval`;
}

function mergeFault(
  { by, parts }: MergeStage,
  retrievals: readonly RetrieveStage[],
): string | undefined {
  if (retrievals.length < 2) return "merges; it must follow two retrievals or more";
  const names = retrievals.map(({ as = "" }) => as);
  const isEach = names.every((name) => parts.some((part) => part.name === name));
  if (!isEach || parts.length !== names.length) {
    return `does not name each retrieval once; they are ${names.join(", ")}`;
  }
  if (by !== "quotas") return undefined;
  const beyond = retrievals.find(
    ({ as, k }) => (parts.find(({ name }) => name === as)?.value ?? 0) > k,
  );
  if (beyond === undefined) return undefined;
  return `wants more of ${beyond.as} than its ${beyond.k} items`;
}

/** The stage that tells unknown users; there is one at most. */
export function unknownStageOf({ stages }: Pick<Pipeline, "stages">): UnknownStage | undefined {
  return stages.find((stage) => stage.kind === "unknown");
}

/** The name of the pipeline that answers unknown users, where one does. */
export function fallbackPipelineOf(pipeline: Pick<Pipeline, "stages">): string | undefined {
  const { answer } = unknownStageOf(pipeline) ?? {};
  return answer?.kind === "pipeline" ? answer.model : undefined;
}

/** Names of the models that the stages of a pipeline ask, each once, ascending. */
export function modelsOf({ stages }: Pipeline): readonly string[] {
  const names = stages.flatMap((stage) => (asksModel(stage) ? [stage.model] : []));
  return [...new Set(names)].toSorted();
}

/** Reads a pipeline of an encoded program. */
const pipelineReader: HeaderReader<Pipeline> = (from) => {
  const stages = read(from, "stages", listOf(stageReader));
  if (stages.length === 0 || stages.length > PIPELINE_STAGES_MAX) {
    throw refuse(from, `1 to ${PIPELINE_STAGES_MAX} stages`);
  }
  const wrong = orderFault(stages);
  if (wrong !== undefined) {
    throw refuse(from, `stages in order, but stages[${wrong.at}] ${wrong.fault}`);
  }
  checkScoreNames(from, stages);
  const outputs = read(from, "outputs", (names) => ({
    scores: read(names, "scores", text),
    ids: read(names, "ids", text),
  }));
  return { stages, outputs };
};

/** Checks that every name is given once, before it is used. @throws WinnowError DATA_LOSS */
function checkScoreNames(from: HeaderValue, stages: readonly PipelineStage[]): void {
  const known = new Set([SCORE_SO_FAR]);
  for (const stage of stages) {
    for (const name of scoreNamesOf(stage)) {
      if (known.has(name)) throw refuse(from, `scores with a name each, not "${name}" again`);
      known.add(name);
    }
    const asked = stage.kind === "score" ? namesInScore(stage.expression) : [];
    const unknown = asked.find((name) => !known.has(name));
    if (unknown !== undefined) throw refuse(from, `scores that are known, not "${unknown}"`);
  }
}

const candidates: HeaderReader<number> = between(1, PIPELINE_CANDIDATES_MAX);

const READERS: {
  readonly [Kind in PipelineStage["kind"]]: HeaderReader<PipelineStage>;
} = {
  retrieve: readRetrieve,
  merge: readMerge,
  filter: (from) => ({ kind: "filter", filter: read(from, "filter", filterReader) }),
  seen: readSeen,
  unknown: readUnknown,
  rank: readRank,
  score: (from) => ({ kind: "score", expression: read(from, "expression", scoreReader) }),
  diversify: readDiversify,
  limit: (from) => ({ kind: "limit", count: read(from, "count", candidates) }),
};
const KINDS = Object.keys(READERS) as readonly PipelineStage["kind"][];

const stageReader: HeaderReader<PipelineStage> = (from) =>
  READERS[read(from, "kind", oneOf(...KINDS))](from);

function readMember(from: HeaderValue) {
  const member = { model: read(from, "model", text), signature: read(from, "signature", text) };
  return { ...member, scores: read(from, "scores", text) };
}

function readRank(from: HeaderValue): RankStage {
  const member = readMember(from);
  const inputs = read(from, "inputs", listOf(rankInput));
  const heads = read(from, "heads", optional(listOf(headReader)));
  if ((heads?.length ?? 0) > PIPELINE_HEADS_MAX) {
    throw refuse(from, `at most ${PIPELINE_HEADS_MAX} heads`);
  }
  const budgetMs = read(from, "budgetMs", optional(between(1, STAGE_BUDGET_MS_MAX)));
  return {
    kind: "rank",
    ...member,
    inputs,
    ...(heads && { heads }),
    ...(budgetMs && { budgetMs }),
  };
}

function readRetrieve(from: HeaderValue): RetrieveStage {
  const member = readMember(from);
  const inputs = read(
    from,
    "inputs",
    listOf((input) => ({ name: read(input, "name", text), from: read(input, "from", text) })),
  );
  const k = read(from, "k", candidates);
  const as = read(from, "as", optional(text));
  const ids = read(from, "ids", text);
  const like = read(from, "like", optional(text));
  if (like !== undefined && inputs.length > 0) throw refuse(from, "inputs or an item, not both");
  const unlike = read(from, "unlike", optional(text));
  if (unlike !== undefined && like === undefined) throw refuse(from, "an item beside `unlike`");
  return {
    kind: "retrieve",
    ...member,
    k,
    inputs,
    ids,
    ...(as !== undefined && { as }),
    ...(like !== undefined && { like }),
    ...(unlike !== undefined && { unlike }),
  };
}

function readMerge(from: HeaderValue): MergeStage {
  const by = read(from, "by", oneOf("weights", "quotas", "reciprocal-ranks"));
  const value = by === "quotas" ? candidates : weight;
  const parts = read(
    from,
    "parts",
    listOf((part) => ({ name: read(part, "name", text), value: read(part, "value", value) })),
  );
  if (by !== "reciprocal-ranks") return { kind: "merge", by, parts };
  return { kind: "merge", by, parts, constant: read(from, "constant", rankConstant) };
}

function readSeen(from: HeaderValue): SeenStage {
  return {
    kind: "seen",
    key: read(from, "key", keyReader),
    type: read(from, "type", oneOf("set", "sorted_set")),
    countMax: read(from, "countMax", between(1, SEEN_COUNT_MAX)),
    budgetMs: read(from, "budgetMs", between(1, STAGE_BUDGET_MS_MAX)),
  };
}

function readUnknown(from: HeaderValue): UnknownStage {
  const of = read(from, "of", optional(text));
  return {
    kind: "unknown",
    input: read(from, "input", text),
    ...(of !== undefined && { of }),
    answer: read(from, "answer", unknownAnswer),
  };
}

const unknownAnswer: HeaderReader<UnknownAnswer> = (from) => {
  const kind = read(from, "kind", oneOf("oov", "error", "list", "pipeline"));
  if (kind === "pipeline") return { kind, model: read(from, "model", text) };
  if (kind !== "list") return { kind };
  const ids = read(from, "ids", listOf(text));
  if (ids.length > 0 && ids.length <= PIPELINE_CANDIDATES_MAX) return { kind, ids };
  throw refuse(from, `a list of 1 to ${PIPELINE_CANDIDATES_MAX} ids`);
};

const keyReader: HeaderReader<string> = (from) => {
  const pattern = text(from);
  const found = parseKeyPattern(pattern);
  if ("fault" in found) throw refuse(from, `a pattern of keys, but "${pattern}" ${found.fault}`);
  return pattern;
};

function between(least: number, most: number): HeaderReader<number> {
  return (from) => {
    const value = count(from);
    if (value >= least && value <= most) return value;
    throw refuse(from, `from ${least} to ${most}`);
  };
}

function readDiversify(from: HeaderValue): DiversifyStage {
  const kind = "diversify";
  const by = read(from, "by", oneOf("at-most", "round-robin", "mmr"));
  if (by === "mmr") {
    const balance = read(from, "balance", share);
    const of = read(from, "of", optional(text));
    return { kind, by, balance, count: read(from, "count", candidates), ...(of && { of }) };
  }
  const attribute = read(from, "attribute", text);
  if (by === "round-robin") return { kind, by, attribute };
  return { kind, by, attribute, count: read(from, "count", candidates) };
}

const share: HeaderReader<number> = (from) => {
  const { value } = from;
  if (typeof value === "number" && value >= 0 && value <= 1) return value;
  throw refuse(from, "from 0 to 1");
};

const weight: HeaderReader<number> = (from) => {
  const { value } = from;
  if (typeof value === "number" && value >= 0 && value <= MERGE_WEIGHT_MAX) return value;
  throw refuse(from, `from 0 to ${MERGE_WEIGHT_MAX}`);
};

const rankConstant: HeaderReader<number> = (from) => {
  const { value } = from;
  if (typeof value === "number" && value >= 1 && value <= RANK_CONSTANT_MAX) return value;
  throw refuse(from, `from 1 to ${RANK_CONSTANT_MAX}`);
};

const filterReader: HeaderReader<string> = (from) => {
  const written = text(from);
  try {
    parseFilterText(written);
    return written;
  } catch (error) {
    throw refuse(from, `a filter: ${toWinnowError(error).message}`);
  }
};

const headReader: HeaderReader<{ readonly name: string; readonly output: string }> = (head) => ({
  name: read(head, "name", text),
  output: read(head, "output", text),
});

const rankInput: HeaderReader<RankStage["inputs"][number]> = (input) => ({
  name: read(input, "name", text),
  from: read(input, "from", (source): RankSource => {
    const kind = read(source, "kind", oneOf("request", "item", "score"));
    return kind === "request" ? { kind, input: read(source, "input", text) } : { kind };
  }),
});

/** A pipeline, or `undefined`. */
export const optionalPipeline: HeaderReader<Pipeline | undefined> = optional(pipelineReader);
