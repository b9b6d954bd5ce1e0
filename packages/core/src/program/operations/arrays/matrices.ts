// Bands of matrices, the masks of causal attention: a matrix is the last two axes of a tensor.

import { NOWHERE, takeValues } from "../element-positions.ts";
import { inputAt, integerAt } from "../host-call.ts";
import type { HostCall, HostOperations } from "../host-call.ts";
import { invalid } from "../../node-error.ts";
import type { Tensor } from "../../../tensor/tensor.ts";

/** Operations on matrices, by TensorFlow's name. */
export const matrixOperations: HostOperations = {
  MatrixBandPart: (call) => [bandPart(call)],
};

/** Keeps the diagonals near the main one; a negative number keeps all of its side. */
function bandPart(call: HostCall): Tensor {
  const input = inputAt(call, 0);
  const [rows, columns] = input.shape.slice(-2);
  if (rows === undefined || columns === undefined) {
    throw invalid(`input must be at least 2-dim, received shape: [${input.shape.join(",")}]`);
  }
  const lower = kept(call, 1, "num_lower", "number of rows", rows);
  const upper = kept(call, 2, "num_upper", "number of columns", columns);
  const positions = new Int32Array(input.data.length);
  for (let at = 0; at < positions.length; at += 1) {
    const distance = (at % columns) - (Math.floor(at / columns) % rows);
    positions[at] = distance >= -lower && distance <= upper ? at : NOWHERE;
  }
  return takeValues(input, positions, input.shape);
}

function kept(
  call: HostCall,
  ...[position, name, what, size]: [number, string, string, number]
): number {
  const bound = integerAt(call, position);
  if (bound > size) {
    throw invalid(`${name} must be negative or less or equal to ${what} (${size}) got: ${bound}`);
  }
  return bound < 0 ? Infinity : bound;
}
