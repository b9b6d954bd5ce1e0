// Checks a request before any work is done for it: holds it against the limits, converts it to what the
// program needs, and computes its cost in rows, by which requests are admitted.

import {
  VECTOR_ATTRIBUTE,
  WinnowError,
  attributeNamed,
  checkInputs,
  depthText,
  itemInputsOf,
  rankedIdsOf,
  requestedDepth,
  valuesOfVector,
} from "@winnow/core";
import { keyBytes } from "@winnow/cluster";
import type {
  AttributeSpec,
  Filter,
  ModelProgram,
  Pipeline,
  PipelineStage,
  SignatureProgram,
  Tensor,
  TopKStep,
} from "@winnow/core";
import { ATTRIBUTES_OUTPUT, EXPLANATION_OUTPUT, VECTORS_OUTPUT } from "../predictor.ts";
import type { PredictRequest } from "../predictor.ts";
import {
  checkCandidates,
  checkDescribed,
  checkExcludedBytes,
  checkFilterBytes,
  checkFilters,
  checkInstances,
  checkK,
  checkListedIds,
  instancesOf,
} from "../limits/request-limits.ts";
import type { RequestLimits } from "../limits/request-limits.ts";
import {
  answersRanked,
  attributesRanked,
  costOfRankings,
  denseRankingsOf,
  withoutIds,
  withoutSearch,
} from "./dense-rankings.ts";
import type { RankedByDense } from "./dense-rankings.ts";
import { boundFilter, distinctConditions, listBytesOf, requestCost } from "./search-cost.ts";
import type { BoundFilter, SearchConditions, SliceLimits } from "./search-cost.ts";

/** What a request asks for beside its inputs, converted for the program, and its cost. */
export interface CheckedRequest {
  /** The cost of its searches and look-ups in rows (`requestCost`). */
  readonly rows: number;
  /** What its searches find, at most: queries times k. */
  readonly candidates: number;
  /** Replaces the program's k in every search; at most the number of rows of the smallest table searched. */
  readonly k: number | undefined;
  readonly conditions: SearchConditions;
}

/** Checks a request against the limits. @throws WinnowError INVALID_ARGUMENT */
export function checkRequest(
  program: ModelProgram,
  request: PredictRequest,
  limits: RequestLimits & SliceLimits,
): CheckedRequest {
  const { signature, inputs, exclude = [], include = [], attributes = [] } = request;
  const { tables } = program;
  const searches = signature.steps.filter((step) => step.kind === "topK");
  const uncut = denseRankingsOf(signature);
  const instances = instancesOf(signature, inputs);
  checkInstances(instances, limits, inputs);
  if (request.k !== undefined) checkK(request.k, limits);
  const k = fittedK(program, request, { searches, uncut });
  checkIds("exclude", exclude, { program, signature, searches, uncut, limits });
  checkIds("include", include, { program, signature, searches, uncut, limits });
  const filters = boundFilters(program, request, { searches, uncut, limits });
  // A signature that searches answers what its search finds.
  const answered = { searches, uncut: searches.length > 0 ? [] : uncut };
  checkReturned(program, request, answered);
  const depths = depthsOf(program, request, { searches, k });
  for (const [step, depth] of depths) checkDepth(signature, { step, depth }, limits);
  const ranks = answered.uncut.map(({ ranking }) => k ?? ranking.k);
  const items = [...depths.values(), ...ranks].reduce((sum, depth) => sum + instances * depth, 0);
  const found = [...depths].reduce(
    (sum, [step, depth]) => sum + instances * (step.vectors ?? 1) * depth,
    0,
  );
  const conditions = distinctConditions(filters);
  const isRanked = k !== undefined || exclude.length + include.length + filters.length > 0;
  const ranked = costOfRankings(isRanked ? uncut : [], { instances, k, conditions });
  const candidates = found + ranked.candidates;
  checkCandidates(candidates, limits);
  const described = items * valuesPerItem(program, searches, attributes);
  checkDescribed(described, limits);
  const textBytes = textBytesOf(inputs);
  const wanted = { exclude, include, filters, attributes, vectorBytes: request.vectorBytes };
  const listBytes = listBytesOf(wanted, instances);
  const cost = requestCost({ signature, tables, instances, depths, listBytes, textBytes }, limits);
  // Evaluating a condition that a worker does not know yet costs about as much as a query.
  const ofConditions = conditions + Math.ceil(described / VALUES_PER_ROW);
  return { rows: cost + ranked.rows + ofConditions, candidates, k, conditions: wanted };
}

/** Attribute values that cost as much as one row. */
const VALUES_PER_ROW = 64;

/** Attribute values that each item gets; a long vector counts for several. */
function valuesPerItem(
  { tables }: ModelProgram,
  [search]: readonly TopKStep[],
  names: readonly string[],
): number {
  if (search === undefined || !names.includes(VECTOR_ATTRIBUTE)) return names.length;
  return names.length - 1 + valuesOfVector(tables[search.table]!.dim);
}

interface SearchedBy {
  readonly program: ModelProgram;
  readonly signature: SignatureProgram;
}

interface Searching {
  readonly searches: readonly TopKStep[];
  readonly uncut: readonly RankedByDense[];
  readonly limits: RequestLimits;
}

function checkIds(
  field: "exclude" | "include",
  lists: readonly Tensor[],
  { program, signature, searches, uncut, limits }: Searching & SearchedBy,
): void {
  if (lists.length === 0) return;
  if (searches.length + uncut.length === 0) throw withoutSearch(field, signature, program);
  for (const { step, ranking } of uncut) {
    if (rankedIdsOf(signature, step, ranking) === undefined) throw withoutIds(field, ranking);
  }
  const ids = lists.reduce((sum, list) => sum + list.data.length, 0);
  checkListedIds(ids, limits, field);
  const bytes = lists.reduce((sum, list) => sum + keyBytes(list), 0);
  checkExcludedBytes({ ids, bytes }, limits, field === "exclude" ? "excluded ids" : "included ids");
}

/** The filters of a request as workers know them. @throws WinnowError INVALID_ARGUMENT */
function boundFilters(
  program: ModelProgram,
  { filter: filters = [], signature }: PredictRequest,
  { searches, uncut, limits }: Searching,
): readonly BoundFilter[] {
  if (filters.length === 0) return [];
  const attributes = attributesOf({ program, signature, searches, uncut }, "filter");
  // A filter that stands for many instances may be one object.
  const boundOf = new Map<Filter, BoundFilter>();
  for (const filter of new Set(filters)) {
    const bound = boundFilter(filter, attributes);
    checkFilterBytes(bound.text.length);
    boundOf.set(filter, bound);
  }
  const bound = filters.map((filter) => boundOf.get(filter)!);
  const distinct = new Set(bound.map(({ text }) => text)).size;
  checkFilters({ filters: distinct, conditions: distinctConditions(bound) }, limits);
  const bytes = bound.reduce((sum, { text }) => sum + text.length, 0);
  checkExcludedBytes({ ids: bound.length, bytes }, limits, "filters");
  return bound;
}

/** Checks that attributes can stand beside the items of the answer. @throws WinnowError INVALID_ARGUMENT */
function checkReturned(
  program: ModelProgram,
  { attributes: names = [], vectors = false, signature }: PredictRequest,
  { searches, uncut }: Pick<Searching, "searches" | "uncut">,
): void {
  if (names.length === 0) return;
  const stored = names.filter((name) => name !== VECTOR_ATTRIBUTE);
  const field = vectors && stored.length === 0 ? "return_vectors" : "return";
  const isUncut = uncut.length > 0 && stored.length < names.length;
  // A dense part that ranks items has no vectors of them to give.
  if (isUncut)
    throw withoutSearch(vectors ? "return_vectors" : VECTOR_ATTRIBUTE, signature, program);
  if (searches.length + uncut.length === 0) throw withoutSearch(field, signature, program);
  checkStored({ program, signature, searches, uncut }, stored);
  const taken = outputsOfItems({ attributes: stored, vectors }).find(({ output }) =>
    signature.outputs.some(({ name }) => name === output),
  );
  if (taken !== undefined) {
    const why = `has an output "${taken.output}" of its own`;
    throw unreturned(taken.key, signature, why);
  }
  if (answersFoundItems(signature, { searches, uncut })) return;
  throw unreturned(field, signature, "does not answer the items of one search as they were found");
}

function unreturned(field: string, { name }: SignatureProgram, why: string): WinnowError {
  return new WinnowError("INVALID_ARGUMENT", `Cannot apply "${field}": signature "${name}" ${why}`);
}

/** Checks that the items of a search have these attributes. @throws WinnowError INVALID_ARGUMENT */
function checkStored(items: FoundItems, names: readonly string[]): void {
  if (names.length === 0) return;
  const known = attributesOf(items, "return");
  const byName = new Map(known.map((spec) => [spec.name, spec]));
  for (const name of names) attributeNamed(name, byName);
}

/** Whether a signature has one search, or one ranking, and answers the items that it finds. */
function answersFoundItems(
  signature: SignatureProgram,
  { searches, uncut }: Pick<Searching, "searches" | "uncut">,
): boolean {
  if (searches.length + uncut.length !== 1) return false;
  const [search] = searches;
  if (search === undefined) return answersRanked(signature, uncut[0]!);
  const given = new Set(signature.outputs.map(({ value }) => value));
  const values = [search.scores, search.rows, search.ids];
  return values.some((value) => value !== undefined && given.has(value));
}

/** The outputs that a request wants of each item, by the keys that ask for them. */
function outputsOfItems({
  attributes = [],
  vectors,
}: Pick<PredictRequest, "attributes" | "vectors">): { key: string; output: string }[] {
  const wantsVectors = vectors === true;
  return [
    ...(attributes.length > 0 || !wantsVectors
      ? [{ key: "return", output: ATTRIBUTES_OUTPUT }]
      : []),
    ...(wantsVectors ? [{ key: "return_vectors", output: VECTORS_OUTPUT }] : []),
  ];
}

type FoundItems = SearchedBy & Pick<Searching, "searches" | "uncut">;

/** The attributes of the items that a signature finds. @throws WinnowError INVALID_ARGUMENT where some have none */
function attributesOf(
  { program, signature, searches, uncut }: FoundItems,
  field: string,
): readonly AttributeSpec[] {
  const [first] = searches;
  if (first === undefined && uncut.length === 0) throw withoutSearch(field, signature, program);
  for (const { step, ranking } of uncut) {
    if (rankedIdsOf(signature, step, ranking) === undefined) throw withoutIds(field, ranking);
  }
  const table = first && program.tables[first.table];
  const known = [
    ...(first === undefined ? [] : [table?.kind === "candidate" ? table.attributes : undefined]),
    ...uncut.map(({ ranking }) => attributesRanked(program, ranking)),
  ];
  const [attributes] = known;
  if (attributes !== undefined && !known.includes(undefined)) return attributes;
  const text = `Cannot apply "${field}": the version brings no attributes of its items`;
  const remedy = "an assets.extra/items.parquet, items.jsonl or items.csv beside it would";
  throw new WinnowError("INVALID_ARGUMENT", `${text}; ${remedy}`);
}

/** Candidates of all instances of one request. They are sorted in one turn of the router's event loop. */
const PIPELINE_REQUEST_CANDIDATES_MAX = 65_536;

/** Items of one request to which a pipeline retrieves similar ones: each is looked for, and excluded, by a list of its own. */
const PIPELINE_LIKED_MAX = 1024;

/** Candidates in the explanation of one answer, over all stages and instances. */
const EXPLAINED_MAX = 65_536;

/**
 * Checks what the models of a pipeline cannot see: the batch, and the candidates of all its instances.
 * @throws WinnowError INVALID_ARGUMENT
 */
export function checkPipelineRequest(
  { stages }: Pipeline,
  { signature, inputs, k, attributes = [], vectors, explain }: PredictRequest,
  limits: RequestLimits,
): void {
  const stored = attributes.filter((name) => name !== VECTOR_ATTRIBUTE);
  const wanted = [
    ...(attributes.length > 0 ? outputsOfItems({ attributes: stored, vectors }) : []),
    ...(explain === true ? [{ key: "explain", output: EXPLANATION_OUTPUT }] : []),
  ];
  const taken = wanted.find(({ output }) => signature.outputs.some(({ name }) => name === output));
  if (taken !== undefined) {
    const text = `Cannot apply "${taken.key}": the pipeline has an output "${taken.output}" of its own`;
    throw new WinnowError("INVALID_ARGUMENT", text);
  }
  checkInputs(signature, inputs);
  const instances = instancesOf(signature, inputs);
  checkInstances(instances, limits, inputs);
  checkEachInstance(instances, inputs);
  if (k !== undefined) checkK(k, limits);
  checkLiked(stages, instances, inputs);
  const retrieved = stages.reduce((sum, each) => sum + (each.kind === "retrieve" ? each.k : 0), 0);
  const candidates = instances * retrieved;
  checkDescribed(candidates * attributes.length, limits);
  if (explain === true) checkExplained(stages, instances);
  if (candidates <= PIPELINE_REQUEST_CANDIDATES_MAX) return;
  const text = `${instances} instances of ${retrieved} candidates each; at most`;
  const message = `Cannot run a pipeline on ${text} ${PIPELINE_REQUEST_CANDIDATES_MAX} are allowed`;
  throw new WinnowError("INVALID_ARGUMENT", `${message} in all: send fewer instances`);
}

/** @throws WinnowError INVALID_ARGUMENT where an input does not have one value, or one list, for each instance */
function checkEachInstance(instances: number, inputs: ReadonlyMap<string, Tensor>): void {
  for (const [name, { shape }] of inputs) {
    const [rows] = shape;
    if (rows === instances) continue;
    const own = rows === 0 ? "no values" : `values for ${rows} instances, not for ${instances}`;
    const text = `Input "${name}" has ${own}`;
    throw new WinnowError("INVALID_ARGUMENT", `${text}; a pipeline needs them for each`);
  }
}

/** @throws WinnowError INVALID_ARGUMENT for more items to which similar ones are retrieved than a request may name */
function checkLiked(
  stages: readonly PipelineStage[],
  instances: number,
  inputs: ReadonlyMap<string, Tensor>,
): void {
  const names = stages.flatMap(itemInputsOf);
  const items = names.reduce((sum, name) => sum + (inputs.get(name)?.shape[1] ?? 1), 0);
  const liked = instances * items;
  if (liked <= PIPELINE_LIKED_MAX) return;
  const text = `Cannot retrieve items like ${liked} items: ${instances} instances, ${items} items of each in ${names.length} inputs of retrievals`;
  const most = `at most ${PIPELINE_LIKED_MAX} in all`;
  throw new WinnowError("INVALID_ARGUMENT", `${text}; ${most}: send fewer instances`);
}

/**
 * Refuses an explanation that might become too large, judged by what the stages may give, before any model is
 * asked. @throws WinnowError INVALID_ARGUMENT
 */
function checkExplained(stages: readonly PipelineStage[], instances: number): void {
  let [width, told] = [0, 0];
  for (const stage of stages) {
    width = widthBehind(stage, width);
    told += stage.kind === "retrieve" ? stage.k : width;
  }
  if (told * instances <= EXPLAINED_MAX) return;
  const text = `Cannot explain ${told} candidates of all stages of ${instances} instances each`;
  throw new WinnowError(
    "INVALID_ARGUMENT",
    `${text}; at most ${EXPLAINED_MAX} in all: send fewer instances`,
  );
}

/** The most candidates that one instance can have after a stage. */
function widthBehind(stage: PipelineStage, before: number): number {
  switch (stage.kind) {
    case "retrieve":
      return before + stage.k;
    case "merge":
      return stage.by === "quotas"
        ? stage.parts.reduce((sum, { value }) => sum + value, 0)
        : before;
    case "diversify":
      return stage.by === "mmr" ? Math.min(before, stage.count) : before;
    case "limit":
      return Math.min(before, stage.count);
    case "filter":
    case "seen":
    case "unknown":
    case "rank":
    case "score":
      return before;
  }
}

/** No search returns more candidates than its table has rows. */
function fittedK(
  program: ModelProgram,
  { k, signature }: PredictRequest,
  { searches, uncut }: Pick<Searching, "searches" | "uncut">,
): number | undefined {
  if (k === undefined) return undefined;
  if (searches.length + uncut.length === 0) throw withoutSearch("k", signature, program);
  const rows = searches.map((step) => program.tables[step.table]!.rows);
  return Math.min(k, ...rows, ...uncut.map(({ ranking }) => ranking.items));
}

/** Refuses a k above the limit if the request itself says it. @throws WinnowError INVALID_ARGUMENT */
function checkDepth(
  signature: SignatureProgram,
  { step, depth }: { readonly step: TopKStep; readonly depth: number },
  { kMax }: RequestLimits,
): void {
  if (typeof step.k === "number" || depth <= kMax) return;
  const text = `k is ${depth}, as ${depthText(signature, step.k)} says; at most ${kMax} is allowed (kMax)`;
  throw new WinnowError("INVALID_ARGUMENT", text);
}

/**
 * The k of each search. A k that the run will refuse, such as one beyond the table, is counted as the rows of
 * the table: the run then refuses it in TensorFlow's words.
 */
function depthsOf(
  { tables }: ModelProgram,
  { signature, inputs }: PredictRequest,
  { searches, k }: { readonly searches: readonly TopKStep[]; readonly k: number | undefined },
): ReadonlyMap<TopKStep, number> {
  return new Map(
    searches.map((step) => {
      const depth = k ?? requestedDepth(signature, step, inputs) ?? 1;
      return [step, Math.min(Math.max(depth, 0), tables[step.table]!.rows)];
    }),
  );
}

/** Bytes of the string inputs. */
function textBytesOf(inputs: ReadonlyMap<string, Tensor>): number {
  let bytes = 0;
  for (const input of inputs.values()) if (input.dtype === "string") bytes += input.data.byteLength;
  return bytes;
}
