// What the event loop hands to a new compute thread, and what the thread says when it is ready.

import type { ComputeDevice, ComputeMemory, ComputeProblem } from "./compute.ts";

/** Which device to use and how much of it. */
export interface AcceleratorSettings {
  /** `auto`: the fastest that works here. Default `auto`. */
  readonly kind?: "auto" | "cpu" | "gpu" | "reference" | undefined;
  /** Bytes the rows may occupy. Default: chosen by the accelerator. */
  readonly memoryBytesMax?: number | undefined;
  /** Threads of the CPU scan. Default: chosen by the accelerator. */
  readonly threads?: number | undefined;
}

/** Given to a new compute thread. */
export interface ComputeThreadData {
  readonly accelerator: AcceleratorSettings;
  readonly exclusionBytesMax: number;
  /** Memory of the shared progress counter. */
  readonly progress: SharedArrayBuffer;
}

/** A thread's first message: its device, or why it has none. */
export type ComputeHello =
  | { readonly device: ComputeDevice; readonly memory: ComputeMemory }
  | { readonly problem: ComputeProblem };
