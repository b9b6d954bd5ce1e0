// Which arm each instance of a request belongs to. The key is the value of an input, one for each instance,
// or a header, one for the whole request. Integers count by their digits: 42, "42" and a header with 42 are
// the same key.

import { StringColumn, WinnowError, excerpt } from "@winnow/core";
import type { Dtype, Experiment, StickyKey, Tensor } from "@winnow/core";
import { turnMeter } from "../turns/turns.ts";
import type { Steps } from "../turns/turns.ts";
import type { PredictRequest } from "../predictor.ts";
import { armOf } from "./arm-choice.ts";

/** Cost of one hash, of an instance and an arm, in units of `turnMeter`. */
const WORK_OF_HASH = 2 ** 8;

/** Bytes of a key; a longer key is refused. */
const KEY_BYTES_MAX = 512;

const KEY_DTYPES: ReadonlySet<Dtype> = new Set([
  "string",
  "int8",
  "uint8",
  "int16",
  "uint16",
  "int32",
  "uint32",
  "int64",
  "uint64",
]);

/** Whether values of this type can be keys. */
export function canBeKey(dtype: Dtype): boolean {
  return KEY_DTYPES.has(dtype);
}

/**
 * Positions of arms: one for each instance, or a single one if all instances belong to the same arm because
 * the key is a header or there is only one arm. Works in steps, because large batches need many hashes.
 * @throws WinnowError INVALID_ARGUMENT where the request has no key
 */
export function* armsOfRequest(
  { arms, sticky, salt = "" }: Experiment,
  request: PredictRequest,
  instances: number,
): Steps<readonly number[]> {
  if (sticky === undefined) return [0];
  if (sticky.by === "input") {
    const keys = keysOf(inputNamed(request, sticky.name), sticky.name, instances);
    const isTurnOver = turnMeter();
    const chosen: number[] = [];
    for (let at = 0; at < instances; at += 1) {
      chosen.push(armOf(arms, salt, keys(at)));
      if (isTurnOver(arms.length * WORK_OF_HASH)) yield;
    }
    return chosen;
  }
  const key = headerKey(sticky, request);
  if (key !== undefined) return [armOf(arms, salt, key)];
  const missing = arms.findIndex(({ name }) => name === sticky.missing);
  if (missing >= 0) return [missing];
  const text = `The request lacks the header ${sticky.name}, by which the experiment chooses an arm`;
  throw new WinnowError("INVALID_ARGUMENT", text);
}

/**
 * The header that is the key; `undefined` if the request lacks it or it is empty. Node gives each byte of a header as
 * one character, so a user's id in UTF-8 is the same key as in an input.
 */
function headerKey(
  { name }: Extract<StickyKey, { readonly by: "header" }>,
  { header }: PredictRequest,
): Uint8Array | undefined {
  const value = header?.(name.toLowerCase());
  if (value === undefined || value === "") return undefined;
  return checked(Buffer.from(value, "latin1"), `header ${name}`);
}

function inputNamed({ inputs, signature }: PredictRequest, name: string): Tensor {
  const input = inputs.get(name);
  if (input !== undefined) return input;
  const text = `Signature "${excerpt(signature.name)}" has no input "${excerpt(name)}"`;
  throw new WinnowError("INVALID_ARGUMENT", `${text}, by which the experiment chooses an arm`);
}

/** Gives the bytes of the key of an instance. */
function keysOf(input: Tensor, name: string, instances: number): (at: number) => Uint8Array {
  const { data } = input;
  if (data.length !== instances || !canBeKey(input.dtype)) {
    const text = `Input "${excerpt(name)}", by which the experiment chooses an arm, is ${input.dtype}`;
    const remedy = "it must be one string or integer per instance";
    throw new WinnowError("INVALID_ARGUMENT", `${text} [${input.shape.join()}]; ${remedy}`);
  }
  if (!(data instanceof StringColumn)) return (at) => Buffer.from(String(data[at]));
  return (at) => checked(data.at(at), `input "${excerpt(name)}"`);
}

function checked(key: Uint8Array, what: string): Uint8Array {
  if (key.length <= KEY_BYTES_MAX) return key;
  const text = `The ${what}, by which the experiment chooses an arm, has ${key.length} bytes`;
  throw new WinnowError("INVALID_ARGUMENT", `${text}; at most ${KEY_BYTES_MAX} are taken`);
}
