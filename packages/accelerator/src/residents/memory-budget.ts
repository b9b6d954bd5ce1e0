// The account of a device's memory. The bytes of a load are reserved before its first row arrives,
// so that a load that cannot fit fails at once and never half way.

import { WinnowError } from "@winnow/core";
import type { AcceleratorMemory } from "../accelerator.ts";

/** Counts bytes against a fixed capacity. */
export class MemoryBudget {
  readonly #capacityBytes: number;
  #usedBytes = 0;

  constructor(capacityBytes: number) {
    this.#capacityBytes = capacityBytes;
  }

  /** Takes `bytes`. @throws WinnowError RESOURCE_EXHAUSTED when they do not fit; nothing is taken. */
  reserve(bytes: number): void {
    const freeBytes = this.#capacityBytes - this.#usedBytes;
    if (bytes > freeBytes) {
      throw new WinnowError(
        "RESOURCE_EXHAUSTED",
        `Cannot load ${bytes} bytes: ${freeBytes} of ${this.#capacityBytes} are free`,
      );
    }
    this.#usedBytes += bytes;
  }

  /** Gives back what `reserve` took. */
  giveBack(bytes: number): void {
    this.#usedBytes -= bytes;
  }

  /** Used bytes and capacity. */
  memory(): AcceleratorMemory {
    return { usedBytes: this.#usedBytes, capacityBytes: this.#capacityBytes };
  }
}
