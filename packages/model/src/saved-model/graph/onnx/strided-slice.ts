// StridedSlice: what `x[:, 2:-1, ..., None, 0]` compiles to (tensorflow/core/util/strided_slice_op.cc).
// Bit i of each mask speaks of entry i of the slice, and entries are matched to axes from the left,
// an ellipsis standing for as many axes as the others leave over.

import type { Translation } from "./translation.ts";

/** One axis as it is cut. */
interface AxisCut {
  readonly axis: number;
  readonly begin: number;
  readonly end: number;
  readonly stride: number;
}

interface Plan {
  readonly cuts: AxisCut[];
  /** Axes of the input that disappear. */
  readonly shrunk: number[];
  /** Axes of the result that are new. */
  readonly added: number[];
}

const END = Number.MAX_SAFE_INTEGER;

/** Slice, then Squeeze, then Unsqueeze, as far as each is needed. */
export function stridedSlice(t: Translation): string {
  const { cuts, shrunk, added } = planOf(t);
  const { model } = t;
  let value = t.name(0);
  if (cuts.length > 0) {
    const lists = [
      cuts.map(({ begin }) => begin),
      cuts.map(({ end }) => end),
      cuts.map(({ axis }) => axis),
      cuts.map(({ stride }) => stride),
    ];
    value = t.node("Slice", [value, ...lists.map((list) => model.integers(list))]);
  }
  if (shrunk.length > 0) value = t.node("Squeeze", [value, model.integers(shrunk)]);
  if (added.length > 0) value = t.node("Unsqueeze", [value, model.integers(added)]);
  return value === t.name(0) ? t.node("Identity", [value]) : value;
}

function planOf(t: Translation): Plan {
  const entries = entriesOf(t);
  const plan: Plan = { cuts: [], shrunk: [], added: [] };
  let axis = 0;
  let resultAxis = 0;
  for (const [index, entry] of entries.entries()) {
    if (entry.kind === "new") {
      plan.added.push(resultAxis);
      resultAxis += 1;
    } else if (entry.kind === "ellipsis") {
      if (index === entries.length - 1) break;
      const others = entries.filter(({ kind }) => kind === "range" || kind === "one").length;
      const count = t.rank(0) - others;
      axis += count;
      resultAxis += count;
    } else {
      if (entry.kind === "one") plan.shrunk.push(axis);
      else resultAxis += 1;
      if (!entry.isWhole) plan.cuts.push({ axis, ...entry.cut });
      axis += 1;
    }
  }
  return plan;
}

type Entry =
  | { readonly kind: "new" }
  | { readonly kind: "ellipsis" }
  | {
      readonly kind: "range" | "one";
      readonly isWhole: boolean;
      readonly cut: Omit<AxisCut, "axis">;
    };

function entriesOf(t: Translation): Entry[] {
  const [begins, ends, strides] = [t.integers(1), t.integers(2), t.integers(3)];
  const { attributes } = t.operation;
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

/** An open end reaches as far as the stride's direction goes. */
function rangeEntry(from: number | undefined, to: number | undefined, stride: number): Entry {
  const isWhole = stride === 1 && from === undefined && to === undefined;
  const [first, last] = stride > 0 ? [0, END] : [END, -END];
  return { kind: "range", isWhole, cut: { begin: from ?? first, end: to ?? last, stride } };
}
