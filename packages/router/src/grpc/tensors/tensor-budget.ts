// How much memory the tensors of one request may take, and how many fields. The size of a tensor is not the size of its
// message: a shape and one value to repeat are ten bytes, and a string of no bytes is two.

import { WinnowError } from "@winnow/core";
import type { FieldBudget } from "../client-message.ts";
import type { TensorMemory } from "./tensor-memory.ts";

/** Fields of all tensors of a request. */
const FIELDS_MAX = 2 ** 20;

/** Bytes and fields that all tensors of one request may take together. */
export class TensorBudget {
  /** Each field is counted once, when it is first read. */
  readonly fields: FieldBudget = {
    left: FIELDS_MAX,
    problem: `tensors of more than ${FIELDS_MAX} fields, one for each string; tensor_content and raw contents take one in all`,
  };
  readonly #bytesMax: number;
  readonly #memory: TensorMemory | undefined;
  #bytes = 0;
  /** Bytes of `#memory` that this request has. */
  #held = 0;

  /** `memory`: what the tensors of all requests may take; to be given back by `close`. Default: no limit. */
  constructor(bytesMax: number, memory?: TensorMemory) {
    this.#bytesMax = bytesMax;
    this.#memory = memory;
  }

  /**
   * Takes bytes from the budget; to be called before memory is allocated. @throws WinnowError
   * INVALID_ARGUMENT when they exceed it, UNAVAILABLE when other requests have the memory
   */
  take(bytes: number): void {
    this.#bytes += bytes;
    if (this.#bytes > this.#bytesMax) {
      throw new WinnowError(
        "INVALID_ARGUMENT",
        `The inputs take ${this.#bytes} bytes; at most ${this.#bytesMax} are allowed`,
      );
    }
    if (this.#memory !== undefined) this.#held = this.#memory.hold(this.#held, this.#bytes);
  }

  /** Gives the memory back: the tensors are no longer used. Idempotent. */
  close(): void {
    this.#memory?.free(this.#held);
    this.#held = 0;
  }
}
