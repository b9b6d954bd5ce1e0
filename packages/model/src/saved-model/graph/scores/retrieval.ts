// Searches. A top-k over scores of stored candidates (score-expression.ts), with a k that is constant or
// that a request brings, is a search of a candidate table, which workers run. Identifiers gathered by the rows that a search found
// belong to the table. A top-k of anything else stays an operation.

import { DEPTH_OPERATIONS, WinnowError } from "@winnow/core";
import type { StoredTensor } from "../../partitions/stored-table.ts";
import { Attributes } from "../definition/attributes.ts";
import { constantValue, integerOf, producerOf } from "../graph-value.ts";
import type {
  GraphMaskRule,
  GraphValue,
  NodeMask,
  OperationNode,
  TopKNode,
} from "../graph-value.ts";
import type { Lowering, Visit } from "../lowered-nodes.ts";
import { storedSliceOf } from "../tables/row-slice.ts";
import type { StoredIds, StoredRows } from "../tables/table-registry.ts";
import type { PlacedMask, SearchedScores } from "./composition/searched-scores.ts";
import { scoresOfOneVector } from "./one-vector.ts";
import { searchedScoresOf } from "./score-expression.ts";
import { reshaped } from "./values/added-operations.ts";

const NO_ATTRIBUTES = new Attributes("", new Map());

/** Handles TopKV2. In a loop it stays an operation, since no worker can be asked from there. */
export function visitTopK(lowering: Lowering, visit: Visit): readonly GraphValue[] | undefined {
  return lowering.isInLoop ? undefined : topKOf(lowering, visit);
}

/** The top k of scores; `isOfVector`: these were made of a vector's already (one-vector.ts). */
function topKOf(
  lowering: Lowering,
  visit: Visit,
  isOfVector = false,
): readonly GraphValue[] | undefined {
  const { node, inputs } = visit;
  const [scored, wanted] = inputs;
  const depth = wanted && depthOf(wanted);
  if (scored === undefined || depth === undefined) return undefined;
  const sorted = alreadySorted(lowering, scored, depth);
  if (sorted !== undefined) return sorted;
  if (node.outputDtypes[1] !== "int32") return undefined;
  const scores = searchedScoresOf(lowering, scored);
  if ("query" in scores) {
    const { stored } = scores.candidates;
    if (!lowering.registry.canRead(stored)) return undefined;
    return search(lowering, { name: node.name, depth, scored, ...scores });
  }
  const found = isOfVector ? undefined : searchOfOne(lowering, visit, scored);
  if (found === undefined && scores.node !== undefined) lowering.obstacles.set(scored, scores.node);
  return found;
}

/** The k, or the value that says it; `undefined` if nothing does before a request runs. */
function depthOf(wanted: GraphValue): number | GraphValue | undefined {
  const k = integerOf(wanted);
  if (k === undefined) return isOfRequest(wanted) ? wanted : undefined;
  return k > 0 ? k : undefined;
}

/** The top k of the scores of one query, `[items]`. */
function searchOfOne(
  lowering: Lowering,
  visit: Visit,
  scored: GraphValue,
): readonly GraphValue[] | undefined {
  const findOf =
    (isOfVector: boolean) =>
    (all: GraphValue): readonly GraphValue[] | undefined =>
      topKOf(lowering, { ...visit, inputs: [all, visit.inputs[1]!] }, isOfVector);
  const found = foundForOne(lowering, scored, findOf(false));
  return found ?? foundForVector(lowering, scored, findOf(true));
}

/**
 * Handles ApproxTopK of largest values (`tf.math.approx_max_k`), which approximates on TPUs alone: on CPUs and GPUs it is
 * TopKV2.
 */
export function visitApproximateTopK(
  lowering: Lowering,
  { node, inputs, walk }: Visit,
): readonly GraphValue[] | undefined {
  const { attributes } = node;
  const [scored] = inputs;
  // TensorFlow has no other axis on CPUs.
  const isOfLast = attributes.int("reduction_dimension", -1) === -1;
  const isOfAll = ["is_max_k", "aggregate_to_topk"].every((name) => {
    return attributes.get(name) === undefined || attributes.flag(name);
  });
  if (scored === undefined || !isOfLast || !isOfAll) return undefined;
  const data = Int32Array.of(attributes.int("k", 1));
  const wanted = [scored, constantValue({ dtype: "int32", shape: [], data })];
  const plain = { ...node, op: "TopKV2" };
  const found = visitTopK(lowering, { node: plain, inputs: wanted, walk });
  return found ?? lowering.operation(plain, wanted).outputs;
}

const DEPTH_STEPS_MAX = 16;

/** Whether a k follows from inputs and constants by what a router reckons before a request runs. */
function isOfRequest(k: GraphValue): boolean {
  const values = new Set([k]);
  for (const { dtype, producer } of values) {
    if (isSizeOfInput(producer)) continue;
    const isFew = values.size <= DEPTH_STEPS_MAX && (dtype === "int32" || dtype === "int64");
    if (!isFew || !isCheap(producer)) return false;
    for (const input of producer?.inputs ?? []) if (!input.constant) values.add(input);
  }
  return true;
}

function isCheap(producer: GraphValue["producer"]): boolean {
  if (producer?.kind !== "operation") return producer === undefined;
  return producer.op !== "Shape" && DEPTH_OPERATIONS.has(producer.op);
}

/** Whether a value is the shape of what a request brings: k may count the ids that it excludes. */
function isSizeOfInput(producer: GraphValue["producer"]): boolean {
  const input =
    producer?.kind === "operation" && producer.op === "Shape" ? producer.inputs[0] : undefined;
  return input !== undefined && input.producer === undefined && input.stored === undefined;
}

/**
 * The top k of the scores of one query, `[items]`, that a graph takes from those of all, `[queries, items]`: the same query's
 * part of what is found for all.
 */
function foundForOne(
  lowering: Lowering,
  scored: GraphValue,
  find: (all: GraphValue) => readonly GraphValue[] | undefined,
): readonly GraphValue[] | undefined {
  const taking = lowering.isInDataset ? undefined : takingOfOne(scored);
  const all = taking?.inputs[0];
  const found = all && find(all);
  if (taking === undefined || found === undefined) return undefined;
  return found.map((value) => partOfOne(lowering, value, taking));
}

/** The top k of the scores of a vector, `[items]`, or of a matrix of one query: what is found for a matrix of this query. */
function foundForVector(
  lowering: Lowering,
  scored: GraphValue,
  find: (all: GraphValue) => readonly GraphValue[] | undefined,
): readonly GraphValue[] | undefined {
  if (lowering.isInDataset) return undefined;
  const { result: found, nodes } = lowering.aside(() => {
    const matrix = scoresOfOneVector(lowering, scored);
    if (matrix === undefined || scored.shape?.length === 2) return matrix && find(matrix);
    const name = scored.producer?.name ?? "scores";
    return foundForOne(lowering, reshaped(lowering, matrix, { name, sizes: [-1] }), find);
  });
  if (found !== undefined) lowering.nodes.push(...nodes);
  return found;
}

/** The part of one query, which leads back to the value of all. */
function partOfOne(lowering: Lowering, all: GraphValue, taking: OperationNode): GraphValue {
  const { op, name, attributes, inputs } = taking;
  const sizes = constantValue({ dtype: "int32", shape: [1], data: Int32Array.of(-1) });
  const others = op === "Reshape" ? [sizes] : inputs.slice(1);
  const node = { op, name: `${name}/found`, attributes, outputDtypes: [all.dtype] };
  const part = lowering.operation(node, [all, ...others]).outputs[0]!;
  lowering.partsOfOne.set(part, { all, taking });
  return part;
}

/** The operation that takes the scores of one query, `[items]`, from those of several, `[queries, items]`. */
function takingOfOne(scores: GraphValue): OperationNode | undefined {
  const taking = producerOf(scores, "Squeeze", "Reshape", "StridedSlice");
  return taking !== undefined && takesOne(taking, scores.shape ?? []) ? taking : undefined;
}

function takesOne({ op, attributes, inputs }: OperationNode, scores: readonly number[]): boolean {
  const [all = [], begin = []] = inputs.map(({ shape }) => shape ?? []);
  const [items = -1] = scores;
  if (all.length !== 2 || scores.length !== 1 || all[1] !== items || items === -1) return false;
  if (op !== "StridedSlice") return all[0] === 1;
  return begin[0] === 1 && attributes.int("shrink_axis_mask", 0) === 1;
}

interface WantedSearch extends SearchedScores {
  readonly name: string;
  /** The k, or the value that says it. */
  readonly depth: number | GraphValue;
  /** The value that the graph ranks. */
  readonly scored: GraphValue;
}

function search(
  lowering: Lowering,
  { name, depth, scored, query, vectors, candidates, functions, masks }: WantedSearch,
): readonly GraphValue[] | undefined {
  checkDimensions(name, query, { ...candidates, dim: candidates.dim * (vectors ?? 1) });
  const table = lowering.registry.candidate(candidates, undefined);
  const named = masks.flatMap((mask) => namedMask(lowering, mask, table) ?? []);
  if (named.length < masks.length) return undefined;
  const k = typeof depth === "number" ? depth : undefined;
  const depths = typeof depth === "number" ? [] : [depth];
  const node: TopKNode = {
    kind: "topK",
    name,
    table,
    inputs: [
      query,
      ...depths,
      ...named.flatMap(valuesInNodeMask),
      ...functions.flatMap(({ operand }) => operand ?? []),
    ],
    k,
    vectors,
    masks: named,
    functions,
    capped: lowering.isInDataset,
    outputs: [],
  };
  const shape = [query.shape?.[0] ?? -1, k ?? -1];
  node.outputs = [
    { dtype: "float32", shape, producer: node },
    { dtype: "int32", shape, producer: node },
  ];
  lowering.add(node);
  const [scores, rows] = node.outputs;
  lowering.rankings.set(scores!, node);
  lowering.scoresOfSearches.set(node, scored);
  return [scores!, rows!];
}

function checkDimensions(name: string, { shape }: GraphValue, candidates: StoredRows): void {
  const dim = shape?.[1] ?? -1;
  if (dim === -1 || dim === candidates.dim) return;
  const dims = `queries of ${dim} values among candidates of ${candidates.dim}`;
  throw new WinnowError("INVALID_ARGUMENT", `node ${name} searches ${dims}`);
}

function namedMask(
  lowering: Lowering,
  { keeps, ...mask }: PlacedMask,
  table: number,
): NodeMask | undefined {
  const rule = namedRule(lowering, keeps, table);
  return rule && { ...mask, keeps: rule };
}

/** A rule over the columns of a table; `undefined` where one of its vectors cannot be a column. */
function namedRule(
  lowering: Lowering,
  rule: GraphMaskRule,
  table: number,
): GraphMaskRule<string> | undefined {
  if (rule.kind === "test") {
    const column = lowering.registry.mask(table, rule.column);
    return column === undefined ? undefined : checkedTest(lowering, { ...rule, column });
  }
  if (rule.kind === "not") {
    const of = namedRule(lowering, rule.of, table);
    return of && { kind: "not", of };
  }
  const of = rule.of.flatMap((each) => namedRule(lowering, each, table) ?? []);
  return of.length < rule.of.length ? undefined : { kind: rule.kind, of };
}

/** A test whose values are refused where they are none of so many, as a gather refuses them. */
function checkedTest(
  lowering: Lowering,
  test: Extract<GraphMaskRule<string>, { readonly kind: "test" }>,
): GraphMaskRule<string> {
  const { end, ...plain } = test;
  if (test.is !== "in" || end === undefined) return test;
  const data = Int32Array.from({ length: end }, (_, number) => number);
  const numbers = constantValue({ dtype: "int32", shape: [end], data });
  const axis = constantValue({ dtype: "int32", shape: [], data: Int32Array.of(0) });
  const name = `${test.column} of request`;
  const node = {
    op: "GatherV2",
    name,
    attributes: NO_ATTRIBUTES,
    outputDtypes: ["int32"] as const,
  };
  const { outputs } = lowering.operation(node, [numbers, test.values, axis]);
  return { ...plain, values: outputs[0]! };
}

function valuesInNodeMask({ keeps, penalty, bonus }: NodeMask): readonly GraphValue[] {
  const changes = [penalty, bonus].filter((value) => value !== undefined);
  return [...valuesInGraphRule(keeps), ...changes];
}

function valuesInGraphRule(rule: GraphMaskRule<string>): readonly GraphValue[] {
  if (rule.kind === "test") return [rule.values];
  return rule.kind === "not" ? valuesInGraphRule(rule.of) : rule.of.flatMap(valuesInGraphRule);
}

/**
 * The top k of a search's scores, where the search gives at most k: the scores as they are, because
 * a search sorts them. Graphs of TFRS Streaming end with such a top-k. Its indices then count from
 * 0 within each list (`Ordinal`), which only a gather from the same search can use.
 */
function alreadySorted(
  lowering: Lowering,
  scored: GraphValue,
  depth: number | GraphValue,
): readonly GraphValue[] | undefined {
  const search = lowering.rankings.get(scored);
  if (!lowering.isInDataset || search === undefined) return undefined;
  const areAll =
    typeof depth === "number" ? (search.k ?? Infinity) <= depth : search.inputs[1] === depth;
  if (!areAll) return undefined;
  const ordinal: GraphValue = {
    dtype: "int32",
    shape: scored.shape,
    producer: {
      kind: "operation",
      op: "Ordinal",
      name: search.name,
      attributes: NO_ATTRIBUTES,
      inputs: [scored, ...search.outputs],
      outputs: [],
    },
  };
  return [scored, ordinal];
}

/** Identifiers of the rows a search found, when `source` holds one per candidate, from the first or a later one on. */
export function gatherIdentifiers(
  lowering: Lowering,
  source: GraphValue,
  indices: GraphValue,
): GraphValue | undefined {
  const part = lowering.partsOfOne.get(indices);
  if (part !== undefined) {
    const ofAll = gatherIdentifiers(lowering, source, part.all);
    return ofAll && partOfOne(lowering, ofAll, part.taking);
  }
  const { rows, offset } = withoutOffset(indices);
  const search = rows.producer;
  if (search?.kind !== "topK" || search.outputs[1] !== rows) return undefined;
  const table = lowering.registry.tables[search.table];
  const ids = table && idsOf(lowering, source, { firstRow: offset, rows: table.spec.rows });
  if (ids === undefined || table === undefined) return undefined;
  const known = search.outputs[2];
  if (known !== undefined) return lowering.registry.hasIds(search.table, ids) ? known : undefined;
  const { derivation } = table;
  const stored = { stored: table.rows, rows: table.spec.rows, dim: table.spec.dim, derivation };
  const wanted = lowering.registry.candidate(stored, ids);
  if (wanted !== search.table) lowering.registry.copyMasks(search.table, wanted);
  const value: GraphValue = { dtype: ids.dtype, shape: indices.shape, producer: search };
  search.table = wanted;
  search.outputs = [...search.outputs, value];
  return value;
}

/** Rows to which a graph adds a number, as behind a search of `items[1:]`. */
function withoutOffset(indices: GraphValue): {
  readonly rows: GraphValue;
  readonly offset: number;
} {
  const [left, right] = producerOf(indices, "Add", "AddV2")?.inputs ?? [];
  for (const [rows, number] of [[left, right] as const, [right, left] as const]) {
    const offset = number?.shape?.length === 0 ? integerOf(number) : undefined;
    if (rows !== undefined && offset !== undefined && offset >= 0) return { rows, offset };
  }
  return { rows: indices, offset: 0 };
}

/** Ids of `rows` rows of a stored vector, from `firstRow` on. */
function idsOf(
  lowering: Lowering,
  source: GraphValue,
  { firstRow, rows }: { readonly firstRow: number; readonly rows: number },
): StoredIds | undefined {
  const value = storedSliceOf(source) ?? source;
  const { dtype, shape } = value;
  const isId = dtype === "string" || dtype === "int32" || dtype === "int64";
  const stored = contentOf(value);
  const count = shape?.length === 1 ? shape[0]! : -1;
  if (!isId || stored === undefined || firstRow + rows > count) return undefined;
  if (count === rows) return readableIds(lowering, { stored, dtype });
  return readableIds(lowering, { stored: { kind: "rows", of: stored, firstRow, rows }, dtype });
}

function contentOf({ stored, constant }: GraphValue): StoredTensor | undefined {
  return stored ?? (constant && { kind: "constant", name: "identifiers", tensor: constant });
}

/** Identifiers as they can be read by partition: of a part of some strings, these are taken now. */
function readableIds({ registry }: Lowering, { stored, dtype }: StoredIds): StoredIds | undefined {
  if (stored.kind !== "rows") return { stored, dtype };
  if (dtype !== "string" && registry.canRead(stored)) return { stored, dtype };
  return { stored: registry.asConstant(stored), dtype };
}
