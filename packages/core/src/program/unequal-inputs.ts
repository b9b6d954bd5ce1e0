// What a client is told whose inputs have unequal lengths, such as the columns of two users and three movies.
// Many graphs accept that on purpose: TensorFlow broadcasts a length of 1, and a list of candidates beside one
// user is an input of its own. So nothing is refused before a dense part has failed on the sizes of its inputs.
// The runtime then speaks of tensors inside of the graph; TensorFlow Serving's batching says what the client did:
// "input tensors must have equal 0th-dimension size".

import { WinnowError, excerpt } from "../errors/errors.ts";
import type { Tensor } from "../tensor/tensor.ts";
import type { SignatureProgram } from "./program.ts";

/** In what ONNX Runtime says of tensors whose sizes do not fit each other: they are concatenated, added, multiplied, reshaped. */
export const OF_SIZES: RegExp = /dimension|broadcast|shape|mismatch/i;

/** Inputs that a message names. */
const NAMED_MAX = 8;

/**
 * The error of a dense part, told by the lengths of the request's inputs where these differ and the sizes of tensors
 * are what it failed on; else the error itself.
 */
export function errorOfLengths(
  error: unknown,
  { inputs: declared }: Pick<SignatureProgram, "inputs">,
  inputs: ReadonlyMap<string, Tensor>,
): unknown {
  if (!(error instanceof WinnowError) || error.code !== "INVALID_ARGUMENT") return error;
  if (!OF_SIZES.test(error.message)) return error;
  const lengths = declared.flatMap(({ name, shape }) => {
    const length = inputs.get(name)?.shape[0];
    const isBatch = shape === undefined || shape[0] === -1;
    return isBatch && length !== undefined && !isOfSparse(name, inputs) ? [{ name, length }] : [];
  });
  if (lengths.every(({ length }) => length === lengths[0]!.length)) return error;
  const named = lengths
    .slice(0, NAMED_MAX)
    .map(({ name, length }) => `${excerpt(name)} has ${length}`);
  const more = lengths.length > NAMED_MAX ? ` and ${lengths.length - NAMED_MAX} more` : "";
  const text = `Input tensors must have equal 0th-dimension size: ${named.join(", ")}${more}`;
  return new WinnowError("INVALID_ARGUMENT", text, { cause: error });
}

/** Whether an input is one of the three tensors of a sparse one, whose lengths differ always. */
function isOfSparse(name: string, inputs: ReadonlyMap<string, Tensor>): boolean {
  const stem = name.slice(0, Math.max(0, name.lastIndexOf("/")));
  return ["indices", "values", "dense_shape"].every((part) => inputs.has(`${stem}/${part}`));
}
