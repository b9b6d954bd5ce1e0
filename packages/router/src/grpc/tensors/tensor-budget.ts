// How much memory the tensors of one request may take. What a tensor takes is not what its message
// is long: a shape and one value to repeat are ten bytes.

import { WinnowError } from "@winnow/core";

/** Bytes that the tensors of one request may take together. */
export class TensorBudget {
  readonly #bytesMax: number;
  #bytes = 0;

  constructor(bytesMax: number) {
    this.#bytesMax = bytesMax;
  }

  /** To be asked before memory is. @throws WinnowError INVALID_ARGUMENT when that is too much */
  take(bytes: number): void {
    this.#bytes += bytes;
    if (this.#bytes <= this.#bytesMax) return;
    throw new WinnowError(
      "INVALID_ARGUMENT",
      `The inputs take ${this.#bytes} bytes; at most ${this.#bytesMax} are allowed`,
    );
  }
}
