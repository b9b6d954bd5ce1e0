// The vectors of items as numbers. Workers give a vector as the attribute `$vector`, base64 of its values, so that
// whatever carries attributes (pipelines, arms of experiments) carries vectors; an answer has them as one tensor.

import { StringColumn, VECTOR_ATTRIBUTE, WinnowError } from "@winnow/core";
import type { Tensor } from "@winnow/core";
import type { Prediction, PredictRequest } from "../predictor.ts";
import { inTurns, turnMeter } from "../program/turns.ts";
import type { Steps } from "../program/turns.ts";

/** The request with the vectors among its attributes; they come last. */
export function askingVectors(request: PredictRequest): PredictRequest {
  const { attributes = [] } = request;
  const others = attributes.filter((name) => name !== VECTOR_ATTRIBUTE);
  return { ...request, attributes: [...others, VECTOR_ATTRIBUTE] };
}

/**
 * The answer to `askingVectors(request)` as the request wants it.
 * @throws WinnowError INVALID_ARGUMENT for items whose vectors have different lengths; the signal's reason
 */
export async function withVectors(
  { attributes, ...answer }: Prediction,
  { attributes: wanted = [], context }: PredictRequest,
): Promise<Prediction> {
  if (attributes === undefined) throw new RangeError("an answer without the vectors wanted");
  const { rest, vectors } = await inTurns(splitVectors(attributes), context.signal);
  if (wanted.length === 0) return { ...answer, vectors };
  const isText = wanted.includes(VECTOR_ATTRIBUTE);
  return { ...answer, vectors, attributes: isText ? attributes : rest };
}

const KEY = `"${VECTOR_ATTRIBUTE}":"`;
const END = '"}';

/** Splits objects whose last member is a vector. In a string of JSON the key would have its quotes escaped. */
function* splitVectors(texts: Tensor): Steps<{ readonly rest: Tensor; readonly vectors: Tensor }> {
  const { data: column, shape, rowLengths } = texts;
  if (!(column instanceof StringColumn)) throw new RangeError("attributes that are no texts");
  const isTurnOver = turnMeter();
  const parts: (readonly [rest: string, vector: Float32Array | undefined])[] = [];
  for (let at = 0; at < column.length; at += 1) {
    const text = column.textAt(at);
    parts.push(partsOf(text));
    if (isTurnOver(text.length)) yield;
  }
  const rest = parts.map(([text]) => text);
  const vectors = joined(parts.map(([, vector]) => vector));
  const rows = rowLengths === undefined ? {} : { rowLengths };
  return {
    rest: { ...texts, dtype: "string", data: StringColumn.fromText(rest) },
    vectors: { dtype: "float32", shape: [...shape, vectors.dim], data: vectors.values, ...rows },
  };
}

/** An object without its vector, and the vector. Behind the last item of a list shorter than others texts are empty. */
function partsOf(text: string): readonly [rest: string, vector: Float32Array | undefined] {
  if (text === "") return ["", undefined];
  const from = text.lastIndexOf(KEY);
  if (from < 0) {
    throw new WinnowError("INTERNAL", "A worker described an item without the vector wanted");
  }
  const base64 = text.slice(from + KEY.length, -END.length);
  return [`${text.slice(0, from).replace(/,$/, "")}}`, valuesOf(base64)];
}

/** All vectors one behind the other, zeros where there is none. @throws WinnowError INVALID_ARGUMENT */
function joined(vectors: readonly (Float32Array | undefined)[]) {
  const dim = vectors.find((vector) => vector !== undefined)?.length ?? 0;
  const values = new Float32Array(vectors.length * dim);
  for (const [at, vector] of vectors.entries()) {
    if (vector === undefined) continue;
    if (vector.length !== dim) throw unequal(dim, vector.length);
    values.set(vector, at * dim);
  }
  return { dim, values };
}

/** float32 values, little-endian as workers write them, at an aligned place. */
function valuesOf(base64: string): Float32Array {
  const { buffer } = Uint8Array.from(Buffer.from(base64, "base64"));
  return new Float32Array(buffer);
}

function unequal(one: number, other: number): WinnowError {
  const text = `Cannot apply "return_vectors": vectors of ${one} and of ${other} values are no one tensor`;
  return new WinnowError(
    "INVALID_ARGUMENT",
    `${text}; "return": ["${VECTOR_ATTRIBUTE}"] gives each by itself`,
  );
}
