// Scores of every position of a sequence, of which one position's are ranked. Sequence models that are trained to tell
// the next item at each step compute `logits = h @ items^T` for all of them, `[queries, positions, items]`, and serve
// the last: `logits[:, -1, :]`. That is the product of the position's query alone, `h[:, -1, :] @ items^T`. The sum or mean
// of the scores of several vectors is the product of their sum or mean as well.

import { numberOfDtype } from "../../../bundle/data-type.ts";
import { Attributes } from "../../definition/attributes.ts";
import type { AttributeValue } from "../../definition/attributes.ts";
import { constantValue, integerOf, integersOf, producerOf } from "../../graph-value.ts";
import type { GraphValue, OperationNode } from "../../graph-value.ts";
import type { Lowering } from "../../lowered-nodes.ts";
import { planSlice } from "../../shapes/slice-plan.ts";
import type { SlicePlan } from "../../shapes/slice-plan.ts";
import { otherAxis } from "../products/candidate-matrix.ts";
import { anyItemsOf } from "../products/item-tower.ts";
import { sequenceSidesOf } from "../products/many-vectors.ts";
import { matrixSidesOf } from "../products/score-product.ts";
import type { ScoreProduct, Side } from "../products/score-product.ts";
import type { ItemSlice } from "../steps/score-slice.ts";
import type { ScoreStep } from "../steps/score-steps.ts";
import { withoutRearrangement } from "../values/rearrangement.ts";
import { isSingle } from "../values/scalar-value.ts";
import type { ScalarReader } from "../values/scalar-value.ts";

/** Which position is taken: the same of all queries, or what an operation of the graph makes of all: one of each, their sum. */
export type Position = number | OperationNode;

interface TakenScores {
  /** `[queries, positions, items]`. */
  readonly scores: GraphValue;
  readonly position: Position;
  /** Where the same operation takes a part of the items. */
  readonly slice: ItemSlice | undefined;
}

/** The scores of all positions behind those of one; `undefined` for any other value. */
export function onePositionOf(value: GraphValue): TakenScores | undefined {
  if (value.shape?.length !== 2) return undefined;
  const found = slicedAt(value) ?? squeezedAt(value) ?? gatheredAt(value) ?? summedAt(value);
  return found && { ...found, scores: withoutRearrangement(found.scores) };
}

/** `logits[:, -1, :]`, `logits[:, -1, 1:]`. */
function slicedAt(value: GraphValue): TakenScores | undefined {
  const found = cutAt(value);
  if (found === undefined || found.plan.shrunk.join() !== "1") return undefined;
  const { scores, plan } = found;
  const [cut, ofItems, ...others] = plan.cuts;
  if (cut === undefined || others.length > 0) return undefined;
  if (ofItems === undefined) return { scores, position: cut.begin, slice: undefined };
  const slice = itemsOf(ofItems, value.shape![1]!, scores.shape![2]!);
  return slice && { scores, position: cut.begin, slice };
}

function itemsOf(
  { axis, begin, stride }: SlicePlan["cuts"][number],
  items: number,
  whole: number,
): ItemSlice | undefined {
  const firstItem = begin < 0 ? begin + whole : begin;
  const isWithin = firstItem >= 0 && items > 0 && firstItem + items <= whole;
  return axis === 2 && stride === 1 && isWithin ? { firstItem, items } : undefined;
}

const END = Number.MAX_SAFE_INTEGER;

/** `squeeze(logits[:, -1:, :], 1)`. */
function squeezedAt(value: GraphValue): TakenScores | undefined {
  const whole = producerOf(value, "Squeeze")?.inputs[0];
  const found = whole && cutAt(whole);
  const [cut, ...others] = found?.plan.shrunk.length === 0 ? found.plan.cuts : [];
  if (found === undefined || cut === undefined || others.length > 0) return undefined;
  const isOne = cut.stride === 1 && cut.end === (cut.begin === -1 ? END : cut.begin + 1);
  return isOne ? { scores: found.scores, position: cut.begin, slice: undefined } : undefined;
}

/** The slice of `[queries, positions, items]` that a value is, where it cuts positions first of all. */
function cutAt(
  value: GraphValue,
): { readonly scores: GraphValue; readonly plan: SlicePlan } | undefined {
  const node = producerOf(value, "StridedSlice");
  const plan = node && planOf(node);
  const isCut = plan?.added.length === 0 && plan.cuts[0]?.axis === 1;
  return isCut ? { scores: node!.inputs[0]!, plan } : undefined;
}

function planOf({ attributes, inputs }: OperationNode): SlicePlan | undefined {
  const [begins, ends, strides] = inputs.slice(1, 4).map(integersOf);
  const isOfThree = inputs[0]!.shape?.length === 3;
  if (!isOfThree || !begins || !ends || !strides) return undefined;
  return planSlice({ attributes, begins, ends, strides }, 3);
}

/** `gather(logits, last, batch_dims=1)`, `gather(logits, 4, axis=1)`, `gather_nd(logits, [[query, position], …])`. */
function gatheredAt(value: GraphValue): TakenScores | undefined {
  const node = producerOf(value, "GatherV2", "GatherNd");
  const [scores, indices] = node?.inputs ?? [];
  if (scores?.shape?.length !== 3 || indices?.shape === undefined) return undefined;
  return takesOne(node!, indices.shape) ? { scores, position: node!, slice: undefined } : undefined;
}

function takesOne({ op, attributes, inputs }: OperationNode, indices: readonly number[]): boolean {
  const batches = attributes.int("batch_dims", 0);
  if (op === "GatherNd") return indices.length === 2 && indices[1] === 2 && batches === 0;
  return integerOf(inputs[2]) === 1 && indices.length === batches;
}

const SUMS: ReadonlySet<string> = new Set(["Mean", "Sum"]);

/** `reduce_mean(scores, 1)`, `reduce_sum(scores, 1)`. */
function summedAt(value: GraphValue): TakenScores | undefined {
  const node = producerOf(value, ...SUMS);
  const [scores, axes] = node?.inputs ?? [];
  if (scores?.shape?.length !== 3 || node!.attributes.flag("keep_dims")) return undefined;
  const isOfVectors = ["1", "-2"].includes(integersOf(axes)?.join() ?? "");
  return isOfVectors ? { scores, position: node!, slice: undefined } : undefined;
}

/** Whether a step does to the scores of each position what it would do to those of one, or to their sum. */
export function isOfAnyPosition(step: ScoreStep, position: Position): boolean {
  const isSum = typeof position !== "number" && SUMS.has(position.op);
  if (isSum && step.kind !== "scaled" && step.kind !== "itemFactor") return false;
  if (step.kind === "itemFactor") return true;
  if (step.kind === "bias") return step.bias.weight === undefined;
  const operands = (step.functions ?? []).flatMap(({ operand }) => operand ?? []);
  const weight = step.kind === "weighted" ? [step.operand] : [];
  return [...operands, ...weight].every((each) => isSingle(each) && each.shape!.length < 2);
}

/** The product of one position's queries and stored candidates, by that of all positions, which `value` is. */
export function productOfPosition(
  lowering: Lowering,
  { value, position }: { readonly value: GraphValue; readonly position: Position },
  scalars: ScalarReader,
): ScoreProduct | undefined {
  const node = value.producer?.kind === "operation" ? value.producer : undefined;
  const sides = sequenceSidesOf(value);
  if (sides !== undefined) {
    const isOfFloats = sides.query.dtype === "float32";
    const searched = isOfFloats ? anyItemsOf(sides.items, scalars) : undefined;
    return searched && { query: taken(lowering, sides.query, position), ...searched, node };
  }
  const split = splitProductOf(value);
  const searched = split && anyItemsOf(split.items, scalars);
  if (split === undefined || searched === undefined) return undefined;
  const dim = searched.candidates.shape[otherAxis(searched.itemAxis)];
  const queries = splitRows(lowering, split, dim);
  return { query: taken(lowering, queries, position), ...searched, node };
}

/** A product of matrices whose rows are the positions of all queries, and the sizes that its scores get: tf.tensordot. */
interface SplitProduct {
  readonly rows: GraphValue;
  readonly items: Side;
  readonly sizes: GraphValue;
}

function splitProductOf(value: GraphValue): SplitProduct | undefined {
  const [flat, sizes] = producerOf(value, "Reshape")?.inputs ?? [];
  if (flat === undefined || sizes?.dtype !== "int32" || !areSplit(flat, value)) return undefined;
  const [rows, items] = matrixSidesOf(flat) ?? [];
  const isOfFloats = rows?.kept === 0 && rows.matrix.dtype === "float32";
  return isOfFloats && items ? { rows: rows.matrix, items, sizes } : undefined;
}

/** Whether `[rows, items]` became `[queries, positions, items]`. */
function areSplit(flat: GraphValue, scores: GraphValue): boolean {
  return scores.shape?.length === 3 && scores.shape[2] === flat.shape?.at(-1);
}

/** One position's part of `[queries, positions, dim]`. */
function taken(lowering: Lowering, queries: GraphValue, position: Position): GraphValue {
  const name = `${queries.producer?.name ?? "query"}/position`;
  const outputDtypes = [queries.dtype];
  if (typeof position !== "number") {
    const { op, attributes, inputs } = position;
    const gather = { op, name, attributes, outputDtypes };
    return lowering.operation(gather, [queries, ...inputs.slice(1)]).outputs[0]!;
  }
  const masks = { begin_mask: 1, end_mask: 1, shrink_axis_mask: 2 };
  const attributes = attributesOf(name, "Index", masks);
  const bounds = [vectorOf(0, position), vectorOf(0, position + 1), vectorOf(1, 1)];
  const slice = { op: "StridedSlice", name, attributes, outputDtypes };
  return lowering.operation(slice, [queries, ...bounds]).outputs[0]!;
}

/** The rows of a split product in the axes of its scores, `[queries, positions, dim]`. */
function splitRows(lowering: Lowering, { rows, sizes }: SplitProduct, dim: number): GraphValue {
  const name = `${rows.producer?.name ?? "query"}/positions`;
  const known = integersOf(sizes);
  const wanted =
    known === undefined
      ? computedSizes(lowering, sizes, { name, dim })
      : vectorOf(...known.slice(0, 2), dim);
  const attributes = attributesOf(name, "Tshape");
  const node = { op: "Reshape", name, attributes, outputDtypes: ["float32"] as const };
  return lowering.operation(node, [rows, wanted]).outputs[0]!;
}

/** Sizes of scores that a request decides, with the size of a query in the place of that of items. */
function computedSizes(
  lowering: Lowering,
  sizes: GraphValue,
  { name, dim }: { readonly name: string; readonly dim: number },
): GraphValue {
  const computed = (op: string, index: string, inputs: readonly GraphValue[]): GraphValue => {
    const attributes = attributesOf(`${name}/${op}`, index, { N: 2 });
    const node = { op, name: `${name}/${op}`, attributes, outputDtypes: ["int32"] as const };
    return lowering.operation(node, inputs).outputs[0]!;
  };
  const kept = computed("Slice", "Index", [sizes, vectorOf(0), vectorOf(2)]);
  const axis = constantValue({ dtype: "int32", shape: [], data: Int32Array.of(0) });
  return computed("ConcatV2", "Tidx", [kept, vectorOf(dim), axis]);
}

/** Attributes of an operation by int32 numbers, whose type the attribute `index` is. */
function attributesOf(
  name: string,
  index: string,
  integers: Readonly<Record<string, number>> = {},
): Attributes {
  const types = { T: numberOfDtype("float32"), [index]: numberOfDtype("int32") };
  const entries = [
    ...Object.entries(types).map(([key, value]) => [key, { kind: "type", value }] as const),
    ...Object.entries(integers).map(([key, value]) => [key, { kind: "int", value }] as const),
  ];
  return new Attributes(name, new Map<string, AttributeValue>(entries));
}

function vectorOf(...numbers: readonly number[]): GraphValue {
  const data = Int32Array.from(numbers);
  return constantValue({ dtype: "int32", shape: [data.length], data });
}
