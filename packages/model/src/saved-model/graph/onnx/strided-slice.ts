// StridedSlice as Slice, then Squeeze, then Unsqueeze, as far as each is needed.

import { integersOf } from "../graph-value.ts";
import { planSlice } from "../shapes/slice-plan.ts";
import { computedSlice } from "./computed-slice.ts";
import type { Translation } from "./translation.ts";

/** Translates StridedSlice. @throws WinnowError UNIMPLEMENTED where its bounds are computed outside of loops */
export function stridedSlice(t: Translation): string {
  // Outside of loops the host slices at computed places, and next steps need not wait for a dense part.
  const isComputed = integersOf(t.value(1)) === undefined || integersOf(t.value(2)) === undefined;
  if (t.model.isInner && isComputed) return computedSlice(t);
  const [begins, ends, strides] = [t.integers(1), t.integers(2), t.integers(3)];
  const { attributes } = t.operation;
  const plan = planSlice({ attributes, begins, ends, strides }, t.value(0).shape?.length);
  if (plan === undefined) throw t.untranslatable("needs values of a known rank");
  const { cuts, shrunk, added } = plan;
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
