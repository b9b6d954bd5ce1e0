// Sequences read from their end: go_backwards, and the second half of a bidirectional layer.

import { ONNX_TYPES } from "./onnx-message.ts";
import type { Translation, Translators } from "./translation.ts";

const END = Number.MAX_SAFE_INTEGER;

/** Translators of reversals. */
export const reversal: Translators = {
  ReverseV2: (t) => reversed(t, t.name(0), t.integers(1)),
  ReverseSequence: reverseSequence,
};

/** A value turned round along some axes. */
export function reversed(t: Translation, name: string, axes: readonly number[]): string {
  const backwards = [axes.map(() => -1), axes.map(() => -END), axes, axes.map(() => -1)];
  return t.node("Slice", [name, ...backwards.map((values) => t.model.integers(values))]);
}

/** Each row is turned round as far as its own length reaches. */
function reverseSequence(t: Translation): string {
  const { attributes } = t.operation;
  const [time, batch] = [attributes.int("seq_dim"), attributes.int("batch_dim", 0)];
  if (time + batch !== 1 || time * batch !== 0) {
    throw t.untranslatable(`turns axis ${time} round by axis ${batch}; only the first two can be`);
  }
  const lengths = t.cast(t.name(1), ONNX_TYPES.int64);
  return t.node("ReverseSequence", [t.name(0), lengths], { batch_axis: batch, time_axis: time });
}
