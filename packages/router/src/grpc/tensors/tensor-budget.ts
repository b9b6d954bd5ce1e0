// How much memory the tensors of one request may take. The size of a tensor is not the size of its message: a
// shape and one value to repeat are ten bytes.

import { WinnowError } from "@winnow/core";

/** Bytes that all tensors of one request may take together. */
export class TensorBudget {
  readonly #bytesMax: number;
  #bytes = 0;

  constructor(bytesMax: number) {
    this.#bytesMax = bytesMax;
  }

  /**
   * Takes bytes from the budget; to be called before memory is allocated. @throws WinnowError
   * INVALID_ARGUMENT when they exceed it
   */
  take(bytes: number): void {
    this.#bytes += bytes;
    if (this.#bytes <= this.#bytesMax) return;
    throw new WinnowError(
      "INVALID_ARGUMENT",
      `The inputs take ${this.#bytes} bytes; at most ${this.#bytesMax} are allowed`,
    );
  }
}
