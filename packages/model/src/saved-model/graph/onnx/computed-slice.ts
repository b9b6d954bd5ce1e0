// StridedSlice at places that are computed, as `x[:, t]` in a loop over t: each bound is taken out of
// the vector that holds it.

import { planSlice } from "../shapes/slice-plan.ts";
import type { Translation } from "./translation.ts";

const END = Number.MAX_SAFE_INTEGER;
const INT64 = 7;

/** Translates a slice in steps of 1. @throws WinnowError UNIMPLEMENTED for other steps */
export function computedSlice(t: Translation): string {
  const { model } = t;
  const strides = t.integers(3);
  if (strides.some((stride) => stride !== 1))
    throw t.untranslatable("takes steps at computed places");
  // Bounds of the plan are not places here: 1 and more is the number of the bound in its vector.
  const numbers = strides.map((_, entry) => entry + 1);
  const { attributes } = t.operation;
  const request = { attributes, begins: numbers, ends: numbers, strides };
  const plan = planSlice(request, t.value(0).shape?.length);
  if (plan === undefined) throw t.untranslatable("needs values of a known rank");
  const cuts = plan.cuts.map(({ axis, begin, end }): AxisBounds => {
    const from = begin === 0 ? model.integers([0]) : boundAt(t, 1, begin - 1);
    if (plan.shrunk.includes(axis)) return { axis, begin: from, end: behind(t, from) };
    return { axis, begin: from, end: end === END ? model.integers([END]) : boundAt(t, 2, end - 1) };
  });
  const joined = (names: readonly string[]): string => t.node("Concat", names, { axis: 0 });
  let value = t.name(0);
  if (cuts.length > 0) {
    const [begins, ends] = [cuts.map(({ begin }) => begin), cuts.map(({ end }) => end)];
    const axes = model.integers(cuts.map(({ axis }) => axis));
    value = t.node("Slice", [value, joined(begins), joined(ends), axes]);
  }
  if (plan.shrunk.length > 0) value = t.node("Squeeze", [value, model.integers(plan.shrunk)]);
  if (plan.added.length > 0) value = t.node("Unsqueeze", [value, model.integers(plan.added)]);
  return value === t.name(0) ? t.node("Identity", [value]) : value;
}

/** The cut along one axis, as names of int64 vectors of one element. */
interface AxisBounds {
  readonly axis: number;
  readonly begin: string;
  readonly end: string;
}

function boundAt(t: Translation, position: number, entry: number): string {
  const bound = t.node("Gather", [t.name(position), t.model.integers([entry])]);
  return t.cast(bound, INT64);
}

/** The place behind an element; that of the last one, -1, is the end. */
function behind(t: Translation, begin: string): string {
  const { model } = t;
  const isLast = t.node("Equal", [begin, model.integers([-1])]);
  const next = t.node("Add", [begin, model.integers([1])]);
  return t.node("Where", [isLast, model.integers([END]), next]);
}
