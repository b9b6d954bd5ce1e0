// Options of an accelerator. All of them are fixed when the device is opened.

import { availableParallelism } from "node:os";

/** Instructions the CPU scan may use; each is tried only where the processor has it. */
export type InstructionSet =
  | "amx"
  | "avx512-vnni"
  | "avx2"
  | "neon-i8mm"
  | "neon-dotprod"
  | "portable";

/** Options of `createAccelerator`. */
export interface AcceleratorOptions {
  /** Bytes that the device may use for rows and for what is derived from them. */
  readonly capacityBytes: number;
  /** Threads of a scan; default: the processors that this process may use. More do not help. */
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

/** Fills in the defaults. @throws RangeError for an invalid capacity or number of threads */
export function resolveAcceleratorOptions(options: AcceleratorOptions): AcceleratorSettings {
  const { capacityBytes, threads = availableParallelism(), instructionSet } = options;
  if (!(capacityBytes >= 0)) throw new RangeError(`capacityBytes is ${capacityBytes}`);
  if (!Number.isInteger(threads) || threads < 1 || threads > THREADS_MAX) {
    throw new RangeError(`threads is ${threads}; it must be from 1 to ${THREADS_MAX}`);
  }
  return { capacityBytes, threads, instructionSet };
}
