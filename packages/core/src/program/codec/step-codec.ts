// Steps within an encoded program: written as they are, because they are plain data, and read with
// a check of each property.

import { rowsOfColumn } from "../../attributes/attribute-column.ts";
import type {
  Attribute,
  ChoiceStep,
  Condition,
  DenseRanking,
  DenseStep,
  HostStep,
  LookupStep,
  MaskRule,
  RankedItems,
  ScoreFunction,
  SearchDepth,
  SearchMask,
  Step,
  TableSpec,
  TopKStep,
} from "../program.ts";
import {
  count32,
  flag,
  listOf,
  number,
  oneOf,
  optional,
  positionIn,
  property,
  read,
  refuse,
  text,
} from "../header-reader.ts";
import type { HeaderReader, HeaderValue } from "../header-reader.ts";
import { isHostOperation } from "../operations/host-operations.ts";
import { areSearched } from "../search/row-classes.ts";
import { SCORE_OPERATIONS, isSoftmax } from "../search/score-functions.ts";
import { dtype } from "./tensor-codec.ts";

/** The lists to which the numbers in steps refer: the tables, and the lengths of the others. */
export interface StepSurroundings {
  readonly tables: readonly TableSpec[];
  readonly vocabularies: number;
  readonly denseModels: number;
  readonly rankedItems: readonly RankedItems[];
}

/**
 * A step for the header. Attributes become [name, kind, value]; -0, NaN and the infinities, which
 * JSON lacks, become texts.
 */
export function encodeStep(step: Step): unknown {
  if (step.kind === "topK") return encodeTopKStep(step);
  if (step.kind !== "host") return step;
  const attributes = Object.entries(step.attributes).map(([name, value]) => [
    name,
    kindOf(value),
    Array.isArray(value) ? value.map(numberText) : numberText(value),
  ]);
  return { ...step, attributes };
}

/**
 * Masks, functions of scores, and queries of several vectors have step kinds of their own, so that a router
 * of a release without them refuses the program instead of answering without them.
 */
function encodeTopKStep({ masks = [], ...step }: TopKStep): unknown {
  const { functions = [] } = step;
  const plain = masks.map((mask) => ({ ...mask, score: numberText(mask.score) }));
  const [mask] = plain;
  if (masks.length > 1 || mask?.bonus !== undefined) {
    return { ...step, kind: "manyMaskTopK", masks: plain, functions };
  }
  if (step.vectors !== undefined) {
    return { ...step, kind: "manyVectorTopK", mask, functions };
  }
  if (functions.length > 0 || mask?.penalty !== undefined) {
    return { ...step, kind: "rankedTopK", mask, functions };
  }
  return mask === undefined ? step : { ...step, kind: "maskedTopK", mask };
}

type AttributeKind = "number" | "text" | "flag" | "numbers" | "texts";

function kindOf(value: Attribute): AttributeKind {
  if (typeof value === "number") return "number";
  if (typeof value === "string") return "text";
  if (typeof value === "boolean") return "flag";
  return typeof value[0] === "string" ? "texts" : "numbers";
}

function numberText(value: unknown): unknown {
  if (typeof value !== "number" || (Number.isFinite(value) && !Object.is(value, -0))) return value;
  return Object.is(value, -0) ? "-0" : String(value);
}

/** Reads one step. */
export function stepReader(around: StepSurroundings): HeaderReader<Step> {
  return (from) => {
    const when = read(from, "when", optional(condition));
    const step = stepOfKind(from, around);
    return when === undefined ? step : { ...step, when };
  };
}

const STEP_KINDS = [
  "host",
  "lookup",
  "dense",
  "topK",
  "maskedTopK",
  "rankedTopK",
  "manyVectorTopK",
  "manyMaskTopK",
  "choice",
] as const;

function stepOfKind(from: HeaderValue, around: StepSurroundings): Step {
  switch (read(from, "kind", oneOf(...STEP_KINDS))) {
    case "host":
      return hostStep(from, around);
    case "lookup":
      return lookupStep(from, around);
    case "dense":
      return denseStep(from, around);
    case "topK":
      return topKStep(from, around);
    case "maskedTopK":
      return maskedTopKStep(from, around);
    case "manyMaskTopK":
      return manyMaskTopKStep(from, around);
    case "rankedTopK":
      return rankedTopKStep(from, around);
    case "manyVectorTopK":
      return manyVectorTopKStep(from, around);
    case "choice":
      return choiceStep(from);
  }
}

const condition: HeaderReader<Condition> = (from) => ({
  predicate: read(from, "predicate", count32),
  isTrue: read(from, "isTrue", flag),
});

function hostStep(from: HeaderValue, around: StepSurroundings): HostStep {
  const op = read(from, "op", text);
  if (!isHostOperation(op)) throw refuse(property(from, "op"), "a known operation");
  const vocabulary = read(from, "vocabulary", optional(positionIn(around.vocabularies)));
  return {
    kind: "host",
    op,
    node: read(from, "node", text),
    attributes: attributesOf(property(from, "attributes")),
    ...(vocabulary === undefined ? {} : { vocabulary }),
    inputs: read(from, "inputs", listOf(count32)),
    outputs: read(from, "outputs", listOf(count32)),
  };
}

const ATTRIBUTE_READERS: { readonly [K in AttributeKind]: HeaderReader<Attribute> } = {
  number,
  text,
  flag,
  numbers: listOf(number),
  texts: listOf(text),
};

/** Attributes as own properties of an object without a prototype. */
function attributesOf(from: HeaderValue): Readonly<Record<string, Attribute>> {
  const attributes = Object.create(null) as Record<string, Attribute>;
  for (const entry of listOf((item) => item)(from)) {
    const [name, kind, value] = listOf((item) => item)(entry);
    if (name === undefined || kind === undefined || value === undefined) {
      throw refuse(entry, "a name, a kind and a value");
    }
    const reader = ATTRIBUTE_READERS[oneOf("number", "text", "flag", "numbers", "texts")(kind)];
    attributes[text(name)] = reader(value);
  }
  return attributes;
}

function tableOf(from: HeaderValue, { tables }: StepSurroundings, kind: TableSpec["kind"]): number {
  const table = read(from, "table", positionIn(tables.length));
  if (tables[table]!.kind !== kind) throw refuse(property(from, "table"), `a ${kind} table`);
  return table;
}

function lookupStep(from: HeaderValue, around: StepSurroundings): LookupStep {
  return {
    kind: "lookup",
    table: tableOf(from, around, "keyed"),
    node: read(from, "node", text),
    keys: read(from, "keys", count32),
    output: read(from, "output", count32),
  };
}

const binding: HeaderReader<DenseStep["inputs"][number]> = (item) => ({
  name: read(item, "name", text),
  value: read(item, "value", count32),
});

function denseStep(from: HeaderValue, around: StepSurroundings): DenseStep {
  const rankings = read(from, "rankings", optional(listOf(rankingReader(around))));
  return {
    kind: "dense",
    model: read(from, "model", positionIn(around.denseModels)),
    inputs: read(from, "inputs", listOf(binding)),
    outputs: read(
      from,
      "outputs",
      listOf((item) => ({ ...binding(item), dtype: read(item, "dtype", dtype) })),
    ),
    ...(rankings !== undefined && { rankings }),
  };
}

/** Routers of a release without rankings ignore them, and refuse requests that need them. */
function rankingReader({ rankedItems }: StepSurroundings): HeaderReader<DenseRanking> {
  return (from) => {
    const [best, rows] = [read(from, "best", optional(text)), read(from, "rows", optional(text))];
    const items = read(from, "items", count32);
    const described = read(from, "described", optional(positionIn(rankedItems.length)));
    const columns = described === undefined ? [] : rankedItems[described]!.columns;
    if (columns.some((column) => rowsOfColumn(column) !== items)) {
      throw refuse(property(from, "described"), `attributes of ${items} items`);
    }
    return {
      node: read(from, "node", text),
      scores: read(from, "scores", text),
      items,
      k: read(from, "k", count32),
      ...(best !== undefined && { best }),
      ...(rows !== undefined && { rows }),
      ...(described !== undefined && { described }),
    };
  };
}

function topKStep(from: HeaderValue, around: StepSurroundings): TopKStep {
  return {
    kind: "topK",
    table: tableOf(from, around, "candidate"),
    node: read(from, "node", text),
    query: read(from, "query", count32),
    k: read(from, "k", searchDepth),
    capped: read(from, "capped", flag),
    scores: read(from, "scores", optional(count32)),
    rows: read(from, "rows", optional(count32)),
    ids: read(from, "ids", optional(count32)),
  };
}

function maskedTopKStep(from: HeaderValue, around: StepSurroundings): TopKStep {
  const step = topKStep(from, around);
  return { ...step, masks: [read(from, "mask", searchMask(columnsOf(step, around)))] };
}

function columnsOf({ table }: TopKStep, { tables }: StepSurroundings): readonly string[] {
  const spec = tables[table]!;
  return spec.kind === "candidate" ? (spec.masks ?? []).map(({ name }) => name) : [];
}

function rankedTopKStep(from: HeaderValue, around: StepSurroundings): TopKStep {
  const step = withScoreFunctions(topKStep(from, around), from);
  const mask = read(from, "mask", optional(searchMask(columnsOf(step, around))));
  return mask === undefined ? step : withMasks(step, [mask], property(from, "mask"));
}

function withScoreFunctions(step: TopKStep, from: HeaderValue): TopKStep {
  const functions = read(from, "functions", listOf(scoreFunction));
  if (functions.filter(isSoftmax).length > 1) {
    throw refuse(property(from, "functions"), "one softmax at most");
  }
  return functions.length > 0 ? { ...step, functions } : step;
}

function withMasks(step: TopKStep, masks: readonly SearchMask[], from: HeaderValue): TopKStep {
  const functions = step.functions?.length ?? 0;
  const places = masks.map(({ functionsBefore }) => functionsBefore);
  if (places.some((place) => place > functions)) {
    throw refuse(from, `behind ${functions} functions at most`);
  }
  if (places.some((place, at) => place < (places[at - 1] ?? 0))) {
    throw refuse(from, "masks one behind the other");
  }
  const areElse = masks.every(({ isElse, penalty, functionsBefore }, at) => {
    return isElse !== true || (penalty !== undefined && places[at - 1] === functionsBefore);
  });
  if (!areElse) throw refuse(from, "a mask before one that is else");
  return { ...step, masks };
}

/** A search with several masks, or with one that changes the scores of rows that are kept too; of several vectors or not. */
function manyMaskTopKStep(from: HeaderValue, around: StepSurroundings): TopKStep {
  const step = withScoreFunctions(topKStep(from, around), from);
  const masks = read(from, "masks", listOf(searchMask(columnsOf(step, around))));
  if (masks.length === 0 || !areSearched(masks)) {
    throw refuse(property(from, "masks"), "some masks, and few searches of them");
  }
  const vectors = read(from, "vectors", optional(count32));
  const masked = withMasks(step, masks, property(from, "masks"));
  return vectors === undefined ? masked : withVectors(masked, vectors, from);
}

function manyVectorTopKStep(from: HeaderValue, around: StepSurroundings): TopKStep {
  return withVectors(rankedTopKStep(from, around), read(from, "vectors", count32), from);
}

function withVectors(step: TopKStep, vectors: number, from: HeaderValue): TopKStep {
  if (step.functions?.some(isSoftmax) === true) throw refuse(from, "no softmax of several vectors");
  if (vectors < 1) throw refuse(property(from, "vectors"), "one vector at least");
  return { ...step, vectors };
}

const scoreFunction: HeaderReader<ScoreFunction> = (from) => {
  const operand = read(from, "operand", optional(count32));
  const op = read(from, "op", oneOf(...SCORE_OPERATIONS));
  return operand === undefined ? { op } : { op, operand };
};

/** Depth of nested rules, at most. */
const RULE_DEPTH_MAX = 16;

function searchMask(columns: readonly string[]): HeaderReader<SearchMask> {
  return (from) => {
    const penalty = read(from, "penalty", optional(count32));
    const bonus = read(from, "bonus", optional(count32));
    const isFactor = read(from, "isFactor", optional(flag));
    const isElse = read(from, "isElse", optional(flag));
    return {
      keeps: read(from, "keeps", (rule) => maskRule(rule, columns, 0)),
      score: read(from, "score", number),
      functionsBefore: read(from, "functionsBefore", optional(count32)) ?? 0,
      ...(penalty !== undefined && { penalty }),
      ...(bonus !== undefined && { bonus }),
      ...(isFactor !== undefined && { isFactor }),
      ...(isElse !== undefined && { isElse }),
    };
  };
}

function maskRule(from: HeaderValue, columns: readonly string[], depth: number): MaskRule {
  if (depth > RULE_DEPTH_MAX) throw refuse(from, `nested ${RULE_DEPTH_MAX} deep at most`);
  const inner = (rule: HeaderValue): MaskRule => maskRule(rule, columns, depth + 1);
  const kind = read(from, "kind", oneOf("test", "and", "or", "not"));
  if (kind === "not") return { kind, of: read(from, "of", inner) };
  if (kind !== "test") return { kind, of: read(from, "of", listOf(inner)) };
  const column = read(from, "column", text);
  if (!columns.includes(column)) throw refuse(property(from, "column"), "a column of the table");
  const is = read(from, "is", oneOf("in", "gt", "gte", "lt", "lte", "at"));
  const test = { kind, column, is, values: read(from, "values", count32) };
  return is === "at" ? { ...test, end: read(from, "end", count32) } : test;
}

const searchDepth: HeaderReader<SearchDepth> = (from) =>
  typeof from.value === "object" ? { value: read(from, "value", count32) } : count32(from);

function choiceStep(from: HeaderValue): ChoiceStep {
  const [yes, no, ...others] = read(from, "branches", listOf(count32));
  if (yes === undefined || no === undefined || others.length > 0) {
    throw refuse(property(from, "branches"), "two values");
  }
  return {
    kind: "choice",
    node: read(from, "node", text),
    predicate: read(from, "predicate", count32),
    branches: [yes, no],
    output: read(from, "output", count32),
  };
}
