// StridedSlice: what `x[:, 2:-1, ..., None, 0]` compiles to
// (tensorflow/core/util/strided_slice_op.cc). Bit i of each mask applies to entry i of the slice.
// Entries are matched to axes from the left, and an ellipsis covers as many axes as the other
// entries leave over.

import type { Attributes } from "../definition/attributes.ts";

/** The cut along one axis; a bound beyond the axis means its end. */
interface AxisCut {
  readonly axis: number;
  readonly begin: number;
  readonly end: number;
  readonly stride: number;
}

/** What a slice does, in this order. */
export interface SlicePlan {
  readonly cuts: readonly AxisCut[];
  /** Axes of the input that disappear. */
  readonly shrunk: readonly number[];
  /** Axes of the result that are new. */
  readonly added: readonly number[];
}

/** A slice as a node gives it. */
export interface SliceRequest {
  readonly attributes: Attributes;
  readonly begins: readonly number[];
  readonly ends: readonly number[];
  readonly strides: readonly number[];
}

type Entry =
  | { readonly kind: "new" }
  | { readonly kind: "ellipsis" }
  | {
      readonly kind: "range" | "one";
      readonly isWhole: boolean;
      readonly cut: Omit<AxisCut, "axis">;
    };

const END = Number.MAX_SAFE_INTEGER;

/** Plans a slice of a value; `undefined` if an ellipsis is not last and the rank is unknown. */
export function planSlice(request: SliceRequest, rank: number | undefined): SlicePlan | undefined {
  const entries = entriesOf(request);
  const cuts: AxisCut[] = [];
  const shrunk: number[] = [];
  const added: number[] = [];
  let axis = 0;
  let resultAxis = 0;
  for (const [index, entry] of entries.entries()) {
    if (entry.kind === "new") {
      added.push(resultAxis);
      resultAxis += 1;
    } else if (entry.kind === "ellipsis") {
      if (index === entries.length - 1) break;
      if (rank === undefined) return undefined;
      const others = entries.filter(({ kind }) => kind === "range" || kind === "one").length;
      axis += rank - others;
      resultAxis += rank - others;
    } else {
      if (entry.kind === "one") shrunk.push(axis);
      else resultAxis += 1;
      if (!entry.isWhole) cuts.push({ axis, ...entry.cut });
      axis += 1;
    }
  }
  return { cuts, shrunk, added };
}

/** The shape a plan gives. */
export function slicedShape(shape: readonly number[], plan: SlicePlan): readonly number[] {
  const sizes: number[] = [...shape];
  for (const cut of plan.cuts) sizes[cut.axis] = slicedSize(sizes[cut.axis] ?? -1, cut);
  const kept = sizes.filter((_, axis) => !plan.shrunk.includes(axis));
  for (const axis of plan.added) kept.splice(axis, 0, 1);
  return kept;
}

function slicedSize(size: number, { begin, end, stride }: AxisCut): number {
  if (size < 0) return -1;
  const [least, most] = stride > 0 ? [0, size] : [-1, size - 1];
  const clamp = (bound: number): number => {
    return Math.min(Math.max(bound < 0 ? bound + size : bound, least), most);
  };
  const count = Math.ceil((clamp(end) - clamp(begin)) / stride);
  return Math.max(0, count);
}

function entriesOf({ attributes, begins, ends, strides }: SliceRequest): Entry[] {
  const has = (mask: string, index: number): boolean => {
    return ((attributes.int(mask, 0) >> index) & 1) === 1;
  };
  return begins.map((begin, index): Entry => {
    if (has("ellipsis_mask", index)) return { kind: "ellipsis" };
    if (has("new_axis_mask", index)) return { kind: "new" };
    if (has("shrink_axis_mask", index)) {
      const cut = { begin, end: begin === -1 ? END : begin + 1, stride: 1 };
      return { kind: "one", isWhole: false, cut };
    }
    const from = has("begin_mask", index) ? undefined : begin;
    const to = has("end_mask", index) ? undefined : ends[index];
    return rangeEntry(from, to, strides[index] ?? 1);
  });
}

/** An open bound reaches to the end of the axis in the direction of the stride. */
function rangeEntry(from: number | undefined, to: number | undefined, stride: number): Entry {
  const isWhole = stride === 1 && from === undefined && to === undefined;
  const [first, last] = stride > 0 ? [0, END] : [END, -END];
  return { kind: "range", isWhole, cut: { begin: from ?? first, end: to ?? last, stride } };
}
