// TensorProto → tensor, straight from the message's bytes, by TensorFlow's rules
// (tensorflow/core/framework/tensor.cc, Tensor::FromProto): values are in `tensor_content` or in the field of
// their type; surplus values are ignored; missing values are copies of the last one; no value at all means
// zeros.
//
//   tensor-outline   dtype, shape, place of the content; nothing is allocated yet
//   ──▶ does it fit the signature and the budget?
//   number-values, string-values   values → typed arrays, in several turns of the event loop if there are many

import { WinnowError } from "@winnow/core";
import type { Dtype, Tensor } from "@winnow/core";
import { WIRE_TYPES, dataTypeName } from "./data-type.ts";
import { atOnce } from "../../turns/turns.ts";
import type { Steps } from "../../turns/turns.ts";
import { readingNumbers } from "./number-values.ts";
import { readingStrings } from "./string-values.ts";
import type { TensorBudget } from "./tensor-budget.ts";
import { MisfitError, outlineOf } from "./tensor-outline.ts";

/** The input that a tensor is read for. */
export interface ExpectedInput {
  readonly name: string;
  readonly dtype: Dtype;
  /** Refuses a shape before anything is allocated for its values. */
  readonly checkShape?: (shape: readonly number[]) => void;
}

/** As `readingTensorProto`, without a pause: for tensors of few values. */
export function readTensorProto(
  proto: Uint8Array,
  expected: ExpectedInput,
  budget: TensorBudget,
): Tensor {
  return atOnce(readingTensorProto(proto, expected, budget));
}

/**
 * Reads a tensor for an input, into new memory; pauses where a turn of the event loop is to end.
 * @throws WinnowError INVALID_ARGUMENT for damage, another dtype, or more than the budget
 */
export function* readingTensorProto(
  proto: Uint8Array,
  expected: ExpectedInput,
  budget: TensorBudget,
): Steps<Tensor> {
  try {
    return yield* readingTensor(proto, expected, budget);
  } catch (error) {
    if (!(error instanceof MisfitError)) throw error;
    throw new WinnowError(
      "INVALID_ARGUMENT",
      `tensor parsing error: ${expected.name}: ${error.message}`,
    );
  }
}

function* readingTensor(
  proto: Uint8Array,
  { name, dtype, checkShape }: ExpectedInput,
  budget: TensorBudget,
): Steps<Tensor> {
  const outline = outlineOf(proto, budget.fields);
  const { dataType, shape, count } = outline;
  if (dataType === 0) throw new MisfitError("it has no dtype");
  if (dataType !== WIRE_TYPES[dtype].number) {
    const given = dataTypeName(dataType);
    throw new WinnowError("INVALID_ARGUMENT", `Input "${name}" must be ${dtype}, not ${given}`);
  }
  checkShape?.(shape);
  if (dtype === "string") return { dtype, shape, data: yield* readingStrings(outline, budget) };
  budget.take(count * WIRE_TYPES[dtype].bytes);
  return { dtype, shape, data: yield* readingNumbers(outline, dtype) } as Tensor;
}
