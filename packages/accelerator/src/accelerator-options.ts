// What an accelerator can be told. All of it is decided once, when the device is opened.

import { availableParallelism } from "node:os";

/** Instructions the CPU scan may use; each is tried only where the processor has it. */
export type InstructionSet =
  "amx" | "avx512-vnni" | "avx2" | "neon-i8mm" | "neon-dotprod" | "portable";

/** Options of `createAccelerator`. */
export interface AcceleratorOptions {
  /** Bytes the device may use for rows and what belongs to them. */
  readonly capacityBytes: number;
  /** Threads of a scan; default: the processors this process may use. More only helps up to those. */
  readonly threads?: number | undefined;
  /** At most this instruction set; default: the best there is. Answers do not depend on it. */
  readonly instructionSet?: InstructionSet | undefined;
}

/** `AcceleratorOptions` with every default filled in. */
export interface AcceleratorSettings {
  readonly capacityBytes: number;
  readonly threads: number;
  readonly instructionSet: InstructionSet | undefined;
}

const THREADS_MAX = 256;

/** The one place of defaults. @throws RangeError for a capacity or thread count that is none */
export function resolveAcceleratorOptions(options: AcceleratorOptions): AcceleratorSettings {
  const { capacityBytes, threads = availableParallelism(), instructionSet } = options;
  if (!(capacityBytes >= 0)) throw new RangeError(`capacityBytes is ${capacityBytes}`);
  if (!Number.isInteger(threads) || threads < 1 || threads > THREADS_MAX) {
    throw new RangeError(`threads is ${threads}; it must be from 1 to ${THREADS_MAX}`);
  }
  return { capacityBytes, threads, instructionSet };
}
