// Slices of scores before a top-k: `scores[:, 1:]` leaves out the padding row. A search of the items of the slice
// gives the same, so the slice is done to whatever has a value for each item: rows of the matrix, or columns where
// items are columns, biases, and the vectors that masks compare.

import type { Tensor } from "@winnow/core";
import type { StoredTensor } from "../../../partitions/stored-table.ts";
import { integersOf, producerOf } from "../../graph-value.ts";
import type { GraphMaskRule, GraphValue, OperationNode } from "../../graph-value.ts";
import { planSlice } from "../../shapes/slice-plan.ts";
import { rowsOf } from "../../tables/row-slice.ts";
import type { SearchedItems } from "../products/score-product.ts";
import type { ScoreStep } from "./score-steps.ts";

/** Neighbouring items. */
export interface ItemSlice {
  readonly firstItem: number;
  readonly items: number;
}

/** Gives the content of a stored tensor. */
export type ReadStored = (stored: StoredTensor) => Tensor;

/** Items whose vectors are read as a whole when a version is opened. */
const ITEMS_MAX = 2 ** 24;
/** Bytes of a matrix stored by column that its slice leaves out, and that are read for their checksum alone. */
const BESIDE_BYTES_MAX = 2 ** 24;

/** The scores of which a value holds those of neighbouring items, last axis; `undefined` for any other value. */
export function slicedScoresOf(
  value: GraphValue,
): { readonly scores: GraphValue; readonly slice: ItemSlice } | undefined {
  const node = producerOf(value, "StridedSlice", "Slice");
  const scores = node?.inputs[0];
  if (node === undefined || scores?.shape === undefined) return undefined;
  const rank = scores.shape.length;
  if ((rank !== 2 && rank !== 3) || value.shape?.length !== rank) return undefined;
  const slice = sliceFrom(beginOf(node, rank), value.shape.at(-1)!, scores.shape.at(-1)!);
  return slice && { scores, slice };
}

/** The node of a slice, lowered or not. */
type SliceNode = Pick<OperationNode, "op" | "attributes" | "inputs">;

/** Where a slice of the last axis alone begins; `undefined` for any other slice. */
export function beginOf(node: SliceNode, rank: number): number | undefined {
  return node.op === "Slice" ? beginOfSlice(node, rank) : beginOfCut(node, rank);
}

function sliceFrom(begin: number | undefined, items: number, whole: number): ItemSlice | undefined {
  if (begin === undefined || items < 1 || whole > ITEMS_MAX) return undefined;
  const firstItem = begin < 0 ? Math.max(0, begin + whole) : begin;
  return firstItem + items <= whole ? { firstItem, items } : undefined;
}

/** Of `tf.slice(scores, [0, begin], [-1, size])`. */
function beginOfSlice(node: SliceNode, rank: number): number | undefined {
  const [begins, sizes] = [integersOf(node.inputs[1]), integersOf(node.inputs[2])];
  const areWhole =
    begins?.slice(0, -1).every((begin) => begin === 0) === true &&
    sizes?.slice(0, -1).every((size) => size === -1) === true;
  return areWhole && begins.length === rank ? begins.at(-1) : undefined;
}

/** Of `scores[:, begin:end]`. */
function beginOfCut({ attributes, inputs }: SliceNode, rank: number): number | undefined {
  const [begins, ends, strides] = inputs.slice(1, 4).map(integersOf);
  if (begins === undefined || ends === undefined || strides === undefined) return undefined;
  const plan = planSlice({ attributes, begins, ends, strides }, rank);
  if (plan === undefined || plan.shrunk.length + plan.added.length > 0) return undefined;
  const [cut, ...others] = plan.cuts;
  const isOfItems = cut?.axis === rank - 1 && cut.stride === 1 && others.length === 0;
  return isOfItems ? cut.begin : undefined;
}

/** A slice of a slice. */
export function sliceWithin(outer: ItemSlice | undefined, inner: ItemSlice): ItemSlice {
  if (outer === undefined) return inner;
  return { firstItem: inner.firstItem + outer.firstItem, items: outer.items };
}

/** The items of a slice; `undefined` where too much would be read of what it leaves out. */
export function slicedItems<Items extends SearchedItems>(
  product: Items,
  { firstItem, items }: ItemSlice,
): Items | undefined {
  const { candidates, itemAxis } = product;
  const { shape, computed } = candidates;
  const count = shape[itemAxis];
  const sizes: readonly [number, number] = itemAxis === 0 ? [items, shape[1]] : [shape[0], items];
  if (itemAxis === 0) {
    const stored = rowsOf(candidates.stored, firstItem, items);
    const beside = computed?.beside.map((each) => {
      return { ...each, stored: rowsOf(each.stored, firstItem, items) };
    });
    const own = {
      ...candidates,
      stored,
      shape: sizes,
      ...(beside && { computed: { ...computed!, beside } }),
    };
    return { ...product, candidates: own };
  }
  if ((count - items) * shape[0] * Float32Array.BYTES_PER_ELEMENT > BESIDE_BYTES_MAX) {
    return undefined;
  }
  const first = firstItem + (candidates.firstItem ?? 0);
  return { ...product, candidates: { ...candidates, shape: sizes, firstItem: first } };
}

/** What a step does to the scores of a slice; `undefined` where the others count too. */
export function slicedStep(
  step: ScoreStep,
  slice: ItemSlice,
  read: ReadStored,
): ScoreStep | undefined {
  if (step.kind === "softmax") return undefined;
  if (step.kind === "itemFactor") {
    const stored = slicedVector(step.factor.stored, slice, read);
    return { ...step, factor: { ...step.factor, stored, items: slice.items } };
  }
  if (step.kind !== "bias") return step;
  const { bias, shown } = step;
  const stored = bias.stored && slicedVector(bias.stored, slice, read);
  const squares = bias.squares && slicedItems(bias.squares, slice);
  if (bias.squares !== undefined && squares === undefined) return undefined;
  return {
    ...step,
    bias: { ...bias, stored, squares, items: slice.items },
    shown: shown && slicedRule(shown, slice, read),
  };
}

/** A rule over the items of a slice. */
export function slicedRule(rule: GraphMaskRule, slice: ItemSlice, read: ReadStored): GraphMaskRule {
  if (rule.kind === "test") return { ...rule, column: slicedVector(rule.column, slice, read) };
  if (rule.kind === "not") return { kind: "not", of: slicedRule(rule.of, slice, read) };
  return { kind: rule.kind, of: rule.of.map((each) => slicedRule(each, slice, read)) };
}

/** The part of a vector with one value for each item, in any number of axes of size 1, or of so many flags for each. */
function slicedVector(
  stored: StoredTensor,
  { firstItem, items }: ItemSlice,
  read: ReadStored,
): StoredTensor {
  const whole = read(stored);
  const [first, end] = [firstItem, firstItem + items];
  const flags = flagsOfEach(whole);
  const data = whole.data.slice(first * flags, end * flags);
  const shape = flags === 1 ? [items] : [items, flags];
  const name = `items ${first} to ${end - 1} of ${nameOfVector(stored)}`;
  return { kind: "constant", name, tensor: { ...whole, shape, data } as Tensor };
}

/** How many flags a tensor has for each item: those of a mask whose items are in groups, else one. */
function flagsOfEach({ dtype, shape }: Tensor): number {
  return dtype === "bool" && shape.length === 2 && shape[0]! > 1 ? shape[1]! : 1;
}

function nameOfVector(stored: StoredTensor): string {
  switch (stored.kind) {
    case "bundle":
      return stored.key;
    case "constant":
      return stored.name;
    case "concatenated":
    case "rows":
      return "a vector";
  }
}
