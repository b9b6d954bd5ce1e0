// StringFormat: a text with tensors in its places, as tf.strings.format writes them. Layers for vocabularies make the
// message of an assertion this way.

import { numberAttribute, textAttribute } from "../host-call.ts";
import type { HostCall, HostOperations } from "../host-call.ts";
import { invalid } from "../../node-error.ts";
import { elementCount } from "../../../tensor/tensor.ts";
import type { Tensor } from "../../../tensor/tensor.ts";
import { stringsOf } from "../tensor-memory.ts";
import { floatText } from "./number-text.ts";

/** Texts of whole tensors, by TensorFlow's name. */
export const tensorTextOperations: HostOperations = { StringFormat: (call) => [formatted(call)] };

function formatted(call: HostCall): Tensor {
  const texts = textAttribute(call, "template", "%s").split(
    textAttribute(call, "placeholder", "%s"),
  );
  const places = texts.length - 1;
  const { inputs } = call;
  if (places !== inputs.length)
    throw invalid(
      `num placeholders in template and num inputs must match: ${places} vs. ${inputs.length}`,
    );
  const valuesMax = numberAttribute(call, "summarize", 3);
  const parts = texts.map((text, at) => text + (at < places ? textOf(inputs[at]!, valuesMax) : ""));
  return stringsOf([], [new TextEncoder().encode(parts.join(""))]);
}

/** A tensor with at most `valuesMax` values (all if negative) at both ends of each axis. */
function textOf(tensor: Tensor, valuesMax: number): string {
  const count = elementCount(tensor.shape);
  const atEnds = valuesMax < 0 ? count : Math.min(valuesMax, count);
  // TensorFlow writes brackets without values, except of booleans.
  if (atEnds === 0 && tensor.dtype === "bool") return "";
  return axisText(tensor, { axis: 0, first: 0, atEnds });
}

interface Place {
  readonly axis: number;
  /** The element with which the part begins. */
  readonly first: number;
  /** How many parts are written at either end of an axis. */
  readonly atEnds: number;
}

function axisText(tensor: Tensor, { axis, first, atEnds }: Place): string {
  const { shape } = tensor;
  if (axis === shape.length) return valueText(tensor, first);
  const size = shape[axis]!;
  const step = elementCount(shape.slice(axis + 1));
  const partAt = (at: number): string =>
    axisText(tensor, { axis: axis + 1, first: first + at * step, atEnds });
  const later = shape.length - axis - 1;
  const space = later === 0 ? " " : "\n".repeat(later) + " ".repeat(axis + 1);
  const begin = Array.from({ length: Math.min(atEnds, size) }, (_, at) => partAt(at));
  const end = Array.from({ length: Math.min(atEnds, Math.max(0, size - atEnds)) }, (_, at) =>
    partAt(size - Math.min(atEnds, size - atEnds) + at),
  );
  const head = begin.join(space) + (size > 2 * atEnds ? `${space}...` : "");
  return `[${[head, ...end].join(space)}]`;
}

function valueText({ dtype, data }: Tensor, at: number): string {
  if (dtype === "string") return `"${data.textAt(at).replaceAll(SPECIAL, escaped)}"`;
  const value = data[at]!;
  if (dtype === "float32") return shortestText(Number(value), [6, 9], Math.fround);
  if (dtype === "float64") return shortestText(Number(value), [15, 17], Number);
  return String(value);
}

/** A float by as many digits as every text of so many has, or by as many as every float needs. */
function shortestText(
  value: number,
  [few, all]: readonly [number, number],
  rounded: (value: number) => number,
): string {
  const format = { isScientific: false, isShortest: true, width: -1, fill: "" };
  const short = floatText(value, { ...format, precision: few });
  const isExact = !Number.isFinite(value) || rounded(Number(short)) === value;
  return isExact ? short : floatText(value, { ...format, precision: all });
}

// oxlint-disable-next-line no-control-regex -- those are escaped
const SPECIAL = /["'\\\u0000-\u001f\u007f]/gu;
const NAMED: Readonly<Record<string, string>> = { "\n": "\\n", "\r": "\\r", "\t": "\\t" };

/** A character as C writes it in a literal. */
function escaped(character: string): string {
  if (/["'\\]/.test(character)) return `\\${character}`;
  return NAMED[character] ?? `\\${character.codePointAt(0)!.toString(8).padStart(3, "0")}`;
}
