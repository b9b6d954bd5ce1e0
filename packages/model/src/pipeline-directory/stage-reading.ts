// The stages of a `pipeline.yaml`, one reader for each kind.

import {
  MERGE_WEIGHT_MAX,
  PIPELINE_CANDIDATES_MAX,
  PIPELINE_HEADS_MAX,
  PIPELINE_STAGES_MAX,
  RANK_CONSTANT_MAX,
  SCORE_SO_FAR,
  SEEN_COUNT_MAX,
  STAGE_BUDGET_MS_MAX,
  WinnowError,
  excerpt,
  filterText,
  isScoreName,
  orderFault,
  parseFilter,
  parseKeyPattern,
  parseScore,
  scoreNamesOf,
} from "@winnow/core";
import type {
  Dtype,
  PipelineStage,
  RankSource,
  RankStage,
  RetrieveStage,
  SeenType,
  UnknownAnswer,
} from "@winnow/core";
import { readItemList } from "./item-list.ts";
import type { Field, Members } from "./yaml-fields.ts";

/** The constant of reciprocal rank fusion in the paper, and where else it is offered. */
const USUAL_RANK_CONSTANT = 60;

/** Type of an input: `[-1]`, one value for each instance, or `[-1, length]`, a list, where -1 is any length. */
export interface PipelineInput {
  readonly dtype: Dtype;
  readonly shape: readonly number[];
}

/** What a pipeline says beside its stages. */
interface PipelineWords {
  /** Inputs of the pipeline. */
  readonly inputs: ReadonlyMap<string, PipelineInput>;
  /** Dtype of the ids. */
  readonly items: Dtype;
  /** The content of a file beside the pipeline's. */
  readonly readList: (name: string) => Uint8Array;
}

/** What a stage may refer to. */
interface Surroundings extends PipelineWords {
  /** Names of the scores that earlier stages give. */
  readonly scores: ReadonlySet<string>;
}

type StageReader = (field: Field, around: Surroundings) => PipelineStage;

/** Reads the stages. @throws WinnowError INVALID_ARGUMENT naming file, line and field */
export function readStages(field: Field, words: PipelineWords): readonly PipelineStage[] {
  const items = field.elements();
  if (items === undefined) throw field.refused("is not a list of stages");
  if (items.length === 0 || items.length > PIPELINE_STAGES_MAX) {
    const text = `has ${items.length} stages; a pipeline has 1 to ${PIPELINE_STAGES_MAX}`;
    throw field.refused(text);
  }
  const scores = new Set([SCORE_SO_FAR]);
  const stages: PipelineStage[] = [];
  for (const item of items) {
    const stage = readStage(item, { ...words, scores });
    for (const name of scoreNamesOf(stage)) scores.add(name);
    stages.push(stage);
  }
  const wrong = orderFault(stages);
  if (wrong !== undefined) throw items[wrong.at]!.refused(wrong.fault);
  return stages;
}

const READERS: ReadonlyMap<string, StageReader> = new Map<string, StageReader>([
  ["retrieve", readRetrieve],
  ["merge", readMerge],
  ["filter", readFilter],
  ["seen", readSeen],
  ["unknown", readUnknown],
  ["rank", readRank],
  ["score", readScore],
  ["diversify", readDiversify],
  ["limit", (field) => ({ kind: "limit", count: readCandidates(field) })],
]);

function readStage(item: Field, around: Surroundings): PipelineStage {
  const kinds = [...READERS.keys()];
  const [entry, second] = item.members(kinds).entries();
  if (entry === undefined || second !== undefined) {
    throw item.refused(`is not one of ${kinds.join(", ")}`);
  }
  const [kind, field] = entry;
  return READERS.get(kind)!(field, around);
}

function readRetrieve(field: Field, { inputs, scores }: Surroundings): PipelineStage {
  const fields = field.members([
    "model",
    "signature",
    "k",
    "inputs",
    "like",
    "unlike",
    "scores",
    "ids",
    "as",
  ]);
  const as = fields.get("as");
  return {
    kind: "retrieve",
    ...memberOf(fields),
    k: readCandidates(fields.needed("k")),
    ...readWanted(field, fields, inputs),
    scores: fields.get("scores")?.text() ?? "output_1",
    ids: fields.get("ids")?.text() ?? "output_2",
    ...(as !== undefined && { as: readNewScore(as, as.text(), scores) }),
  };
}

/** By what a retrieval finds items: the model's inputs, or items that they are like, and unlike. */
function readWanted(
  field: Field,
  fields: Members,
  inputs: Surroundings["inputs"],
): Pick<RetrieveStage, "inputs" | "like" | "unlike"> {
  const like = fields.get("like");
  const unlike = fields.get("unlike");
  if (like === undefined) {
    if (unlike !== undefined) {
      throw field.refused(
        "has `unlike` and no `like`; items are found by those that they are like",
      );
    }
    const given = fields.needed("inputs").members().entries();
    return { inputs: given.map(([name, value]) => ({ name, from: readInput(value, inputs) })) };
  }
  if (fields.get("inputs") !== undefined) {
    throw field.refused("has `inputs` and `like`; items like an item are found without inputs");
  }
  return {
    inputs: [],
    like: readInput(like, inputs),
    ...(unlike !== undefined && { unlike: readInput(unlike, inputs) }),
  };
}

function readMerge(field: Field): PipelineStage {
  const fields = field.members(["weights", "quotas", "reciprocal_ranks", "rank_constant"]);
  const constant = fields.get("rank_constant");
  const [entry, second] = fields.entries().filter(([, value]) => value !== constant);
  if (entry === undefined || second !== undefined) {
    throw field.refused("is not weights, quotas or reciprocal_ranks");
  }
  const [by, given] = entry;
  const parts = given
    .members()
    .entries()
    .map(([name, value]) => ({
      name,
      value: by === "quotas" ? readCandidates(value) : value.number(0, MERGE_WEIGHT_MAX),
    }));
  if (by === "reciprocal_ranks") {
    const read = constant?.number(1, RANK_CONSTANT_MAX) ?? USUAL_RANK_CONSTANT;
    return { kind: "merge", by: "reciprocal-ranks", parts, constant: read };
  }
  if (constant !== undefined) throw constant.refused("belongs to reciprocal_ranks");
  return { kind: "merge", by: by === "quotas" ? "quotas" : "weights", parts };
}

function readFilter(field: Field): PipelineStage {
  const written = field.json();
  try {
    return { kind: "filter", filter: filterText(parseFilter(written)) };
  } catch (error) {
    if (!(error instanceof WinnowError)) throw error;
    throw field.refused(error.message);
  }
}

const SEEN_COUNT_DEFAULT = 1000;
const SEEN_BUDGET_DEFAULT_MS = 20;
/** Types of inputs that can be part of a key: a floating-point number has several texts. */
const KEY_DTYPES: ReadonlySet<Dtype> = new Set<Dtype>([
  "string",
  "int8",
  "int16",
  "int32",
  "int64",
  "uint8",
  "uint16",
  "uint32",
  "uint64",
]);

function readSeen(field: Field, { inputs }: Surroundings): PipelineStage {
  const fields = field.members(["key", "type", "most", "budget"]);
  const key = fields.needed("key");
  const found = parseKeyPattern(key.text());
  if ("fault" in found) throw key.refused(`is "${excerpt(key.text())}", which ${found.fault}`);
  for (const part of found.parts) if ("input" in part) checkKeyInput(key, part.input, inputs);
  return {
    kind: "seen",
    key: key.text(),
    type: readSeenType(fields.get("type")),
    countMax: fields.get("most")?.integer(1, SEEN_COUNT_MAX) ?? SEEN_COUNT_DEFAULT,
    budgetMs: fields.get("budget")?.durationMs(STAGE_BUDGET_MS_MAX) ?? SEEN_BUDGET_DEFAULT_MS,
  };
}

function readUnknown(field: Field, around: Surroundings): PipelineStage {
  const fields = field.members(["user", "of", "answer", "list", "pipeline"]);
  const of = fields.get("of");
  return {
    kind: "unknown",
    input: readUser(fields.needed("user"), around.inputs),
    ...(of !== undefined && { of: of.text() }),
    answer: readAnswer(field, fields, around),
  };
}

function readAnswer(
  field: Field,
  fields: Members,
  { items, readList }: Surroundings,
): UnknownAnswer {
  const [answer, list, pipeline] = ["answer", "list", "pipeline"].map((name) => fields.get(name));
  const given = [answer, list, pipeline].filter((each) => each !== undefined);
  if (given.length !== 1) throw field.refused("is not one of `answer`, `list` and `pipeline`");
  if (list !== undefined) return { kind: "list", ids: readItemList(list, items, readList) };
  if (pipeline !== undefined) return { kind: "pipeline", model: pipeline.text() };
  const kind = answer!.text();
  if (kind === "oov" || kind === "error") return { kind };
  throw answer!.refused(`is "${excerpt(kind)}"; it can be oov or error`);
}

function checkKeyInput(key: Field, name: string, inputs: Surroundings["inputs"]): void {
  const input = inputs.get(name);
  if (input === undefined) {
    const known = excerpt([...inputs.keys()].join(", "));
    throw key.refused(`names "${excerpt(name)}"; the pipeline's inputs are ${known}`);
  }
  if (isList(input))
    throw key.refused(`names "${excerpt(name)}", a list; one value can be in a key`);
  const { dtype } = input;
  if (KEY_DTYPES.has(dtype)) return;
  throw key.refused(`names "${excerpt(name)}", a ${dtype}; strings and integers can be in a key`);
}

function readSeenType(field: Field | undefined): SeenType {
  const type = field?.text() ?? "set";
  if (type === "set" || type === "sorted_set") return type;
  throw field!.refused(`is "${excerpt(type)}"; it can be set or sorted_set`);
}

function readRank(field: Field, around: Surroundings): PipelineStage {
  const fields = field.members(["model", "signature", "inputs", "scores", "heads", "budget"]);
  const heads = fields.get("heads");
  const budget = fields.get("budget");
  const given = fields.needed("inputs").members().entries();
  return {
    kind: "rank",
    ...memberOf(fields),
    inputs: given.map(([name, value]) => ({ name, from: readSource(value, around) })),
    scores: fields.get("scores")?.text() ?? "output_1",
    ...(heads !== undefined && { heads: readHeads(heads, around.scores) }),
    ...(budget !== undefined && { budgetMs: budget.durationMs(STAGE_BUDGET_MS_MAX) }),
  };
}

function memberOf(fields: Members): { readonly model: string; readonly signature: string } {
  return {
    model: fields.needed("model").text(),
    signature: fields.get("signature")?.text() ?? "serving_default",
  };
}

function readScore(field: Field, { scores }: Surroundings): PipelineStage {
  const value = field.scalar();
  const found = parseScore(typeof value === "number" ? `${value}` : field.text(), scores);
  if ("fault" in found) throw field.refused(found.fault);
  return { kind: "score", expression: found.expression };
}

function readDiversify(field: Field): PipelineStage {
  const kind = "diversify";
  const fields = field.members(["at_most", "per", "round_robin", "mmr", "count", "of"]);
  const names = fields.entries().map(([name]) => name);
  const isOf = (...known: readonly string[]): boolean =>
    names.every((name) => known.includes(name));
  const [atMost, turns, mmr] = ["at_most", "round_robin", "mmr"].map((name) => fields.get(name));
  if (atMost !== undefined && isOf("at_most", "per")) {
    const attribute = fields.needed("per").text();
    return { kind, by: "at-most", attribute, count: readCandidates(atMost) };
  }
  if (turns !== undefined && isOf("round_robin")) {
    return { kind, by: "round-robin", attribute: turns.text() };
  }
  if (mmr !== undefined && isOf("mmr", "count", "of")) {
    const count = readCandidates(fields.needed("count"));
    const of = fields.get("of")?.text();
    return { kind, by: "mmr", balance: mmr.number(0, 1), count, ...(of !== undefined && { of }) };
  }
  throw field.refused("is not { at_most, per }, { round_robin } or { mmr, count } with `of`");
}

function readHeads(field: Field, scores: ReadonlySet<string>): RankStage["heads"] {
  const heads = field.members().entries();
  if (heads.length > PIPELINE_HEADS_MAX) {
    throw field.refused(`has ${heads.length} heads; ${PIPELINE_HEADS_MAX} are allowed`);
  }
  return heads.map(([name, value]) => ({
    name: readNewScore(value, name, scores),
    output: value.text(),
  }));
}

/** A name that no earlier stage has given to a score. */
function readNewScore(field: Field, name: string, scores: ReadonlySet<string>): string {
  if (!isScoreName(name)) {
    const text = `names a score "${excerpt(name)}"; a name is a word of letters, digits and _`;
    throw field.refused(`${text}, and no function`);
  }
  if (!scores.has(name)) return name;
  throw field.refused(`names a score "${excerpt(name)}", which is the name of another`);
}

function readSource(field: Field, { inputs }: Surroundings): RankSource {
  const text = field.text();
  if (text === "item") return { kind: "item" };
  if (text === "score") return { kind: "score" };
  const name = text.startsWith("request.") ? text.slice("request.".length) : undefined;
  if (name !== undefined && inputs.has(name)) return { kind: "request", input: name };
  const choices = ["item", "score", ...[...inputs.keys()].map((input) => `request.${input}`)];
  throw field.refused(`is "${excerpt(text)}"; it can be ${excerpt(choices.join(", "))}`);
}

/** An input that tells a user. */
function readUser(field: Field, inputs: ReadonlyMap<string, PipelineInput>): string {
  const name = readInput(field, inputs);
  if (!isList(inputs.get(name)!)) return name;
  throw field.refused(`is "${excerpt(name)}", a list; one value tells a user`);
}

const isList = ({ shape }: PipelineInput): boolean => shape.length > 1;

function readInput(field: Field, inputs: ReadonlyMap<string, PipelineInput>): string {
  const text = field.text();
  if (inputs.has(text)) return text;
  const names = [...inputs.keys()].join(", ");
  throw field.refused(`is "${excerpt(text)}"; the pipeline's inputs are ${excerpt(names)}`);
}

function readCandidates(field: Field): number {
  return field.integer(1, PIPELINE_CANDIDATES_MAX);
}
