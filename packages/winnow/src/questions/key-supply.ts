// Values for the inputs of a signature: known keys, from the vocabulary or the table that an input leads to,
// and unknown ones.

import type { Dtype, Step, Tensor, ValueId } from "@winnow/core";
import { dtypeArrays } from "@winnow/core";
import type { InputOfModel, KnowingModel } from "../oracle/reference.ts";
import type { ScalarValue } from "../oracle/scalars.ts";
import { idOfRow, keyAt } from "../oracle/whole-table.ts";
import { type Random, draw, pick } from "./seeded-random.ts";

/** Keys that one input knows. */
export interface KnownKeys {
  readonly count: number;
  at(index: number): ScalarValue;
}

/** The known keys of an input; `undefined` if they cannot be found. */
export function knownKeysOf(origin: InputOfModel | undefined): KnownKeys | undefined {
  if (origin === undefined || isFloat(origin.input.dtype)) return undefined;
  const { input } = origin;
  const keys = keysBehind(origin);
  if (keys === undefined || keys.count === 0) return undefined;
  // A key of another type is computed by steps in between, from values that cannot be guessed.
  const isFitting = (typeof keys.at(0) === "string") === (input.dtype === "string");
  return isFitting ? keys : undefined;
}

const isFloat = (dtype: Dtype): boolean => dtype === "float32" || dtype === "float64";

/** Follows an input through the steps that only reshape or rename it, to the first look-up. */
function keysBehind({ model, signature, input, items }: InputOfModel): KnownKeys | undefined {
  if (items !== undefined) return { count: items.rows, at: (index) => idOfRow(items, index) };
  const { vocabularies } = model.version.program;
  const derived = new Set<ValueId>([input.value]);
  for (const step of signature.steps) {
    if (step.kind === "host" && derived.has(step.inputs[0]!)) {
      const vocabulary = vocabularies[step.vocabulary ?? -1];
      if (vocabulary !== undefined) return keysOfTensors([vocabulary.keys]);
      for (const value of step.outputs) derived.add(value);
    } else {
      const keys = keysWanted(model, step, derived);
      if (keys !== undefined) return keys;
    }
  }
  return undefined;
}

/** Which keys a step looks up, or how many items it searches for, by values of the input. */
function keysWanted(
  model: KnowingModel,
  step: Step,
  values: ReadonlySet<ValueId>,
): KnownKeys | undefined {
  const { tables } = model.version.program;
  if (step.kind === "topK" && typeof step.k !== "number" && values.has(step.k.value)) {
    return { count: tables[step.table]!.rows, at: (index) => BigInt(index + 1) };
  }
  const spec = step.kind === "lookup" && values.has(step.keys) ? tables[step.table] : undefined;
  if (step.kind !== "lookup" || spec?.kind !== "keyed") return undefined;
  if (spec.keys.kind === "row") return { count: spec.rows, at: BigInt };
  return keysOfTensors(model.keyed(step.table).keys);
}

function keysOfTensors(tensors: readonly Tensor[]): KnownKeys {
  const counts = tensors.map(({ data }) => data.length);
  const count = counts.reduce((sum, each) => sum + each, 0);
  return {
    count,
    at: (index) => {
      let left = index;
      for (const [part, size] of counts.entries()) {
        if (left < size) return keyAt(tensors[part]!, left);
        left -= size;
      }
      throw new RangeError(`key ${index} of ${count}`);
    },
  };
}

const INT32 = 2 ** 31;
/** Small, because an input may be a row number of a table in a dense part, whose size is not known. */
const PLAUSIBLE_MAX = 4;
const STRANGE_TEXTS = [
  "",
  " ",
  "nobody",
  "0",
  "-1",
  "ключ ☃ 🎬",
  '"quoted\\',
  "\u0000x",
  "x".repeat(300),
];

/** A value that a model probably accepts, if its keys are not known. */
export function plausibleScalar(dtype: Dtype, random: Random): ScalarValue {
  if (isFloat(dtype)) return normal(random);
  if (dtype === "bool") return draw(random, 2);
  const number = draw(random, PLAUSIBLE_MAX);
  return dtype === "string" ? String(number) : BigInt(number);
}

/** A value that the model may not know. */
export function strangeScalar(dtype: Dtype, random: Random): ScalarValue {
  if (dtype === "string") {
    const text = pick(random, [...STRANGE_TEXTS, `stranger ${draw(random, INT32)}`] as [string]);
    return Buffer.from(text, "utf8").toString("latin1");
  }
  if (isFloat(dtype)) return normal(random);
  if (dtype === "bool") return draw(random, 2);
  const { min, max } = integerRange(dtype);
  const near = BigInt(draw(random, 100));
  const far = BigInt(draw(random, INT32));
  const chosen = pick(random, [0n, -1n, near, far, max]);
  if (chosen < min) return min;
  return chosen > max ? max : chosen;
}

function integerRange(dtype: Dtype): { readonly min: bigint; readonly max: bigint } {
  const bits = BigInt(dtypeArrays[dtype as "int64"].BYTES_PER_ELEMENT * 8);
  if (dtype.startsWith("u")) return { min: 0n, max: (1n << bits) - 1n };
  return { min: -(1n << (bits - 1n)), max: (1n << (bits - 1n)) - 1n };
}

/** About normally distributed, like embeddings and features. */
function normal(random: Random): number {
  return (random() + random() + random() + random() - 2) * Math.sqrt(3);
}
