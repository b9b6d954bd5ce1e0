// Memory that the tensors of all requests under way may take together. They are read before a request is
// admitted, which needs their number of instances, and ten bytes of a message can declare 64 MiB of them: the
// bytes of the messages do not bound them.

import { WinnowError } from "@winnow/core";
import type { HeldMemory } from "@winnow/core";

/**
 * Tensors of one request up to so many bytes are not counted: the number of calls bounds them (by default 512, so
 * 32 MiB), and large tensors cannot keep them out.
 */
const SMALL_TENSOR_BYTES = 64 * 1024;

/** Counts the bytes of tensors. */
export class TensorMemory {
  readonly #bytesMax: number;
  #bytes = 0;

  constructor(bytesMax: number) {
    this.#bytesMax = bytesMax;
  }

  /**
   * A request that had `held` bytes of this memory needs `bytes` for its tensors: gives how many it has then.
   * @throws WinnowError UNAVAILABLE when others have them; the request keeps what it had
   */
  hold(held: number, bytes: number): number {
    if (bytes <= SMALL_TENSOR_BYTES) return held;
    const after = this.#bytes + bytes - held;
    if (after > this.#bytesMax) {
      throw new WinnowError(
        "UNAVAILABLE",
        `No memory for the inputs of this request, which take ${bytes} bytes: those of all requests under way ` +
          `take ${this.#bytes - held} of ${this.#bytesMax}; try again`,
      );
    }
    this.#bytes = after;
    return bytes;
  }

  /** Gives bytes back that a request had. */
  free(held: number): void {
    this.#bytes -= held;
  }

  /** What is taken. */
  held(): HeldMemory {
    return { kind: "tensors", bytes: this.#bytes, bytesMax: this.#bytesMax };
  }
}
