// What the event loop hands to a new compute thread, and what the thread says when it is ready.

import type { AcceleratorKind } from "@winnow/accelerator";
import type { ThreadProblem } from "@winnow/core";
import type { CacheSettings } from "@winnow/model";

import type { ComputeDevice, ComputeMemory } from "./compute.ts";

/** Which device to use and how much of it. */
export interface DeviceSettings {
  readonly kind: AcceleratorKind;
  /** Bytes that rows, ids and keys may occupy. */
  readonly capacityBytes: number;
  /** Threads of a scan; `undefined`: chosen by the accelerator. */
  readonly threads: number | undefined;
}

/** How model directories are read. */
export interface ReaderSettings {
  /** Bytes of values that a partition of a table has at most; equal on all workers. */
  readonly partitionBytes: number;
  /** What was read from an object store is kept there. */
  readonly modelCache: CacheSettings | undefined;
}

/** Given to a new compute thread. */
export interface ComputeThreadData {
  readonly device: DeviceSettings;
  readonly reader: ReaderSettings;
  readonly exclusionBytesMax: number;
  readonly filterBytesMax: number;
  /** Memory of the shared progress counter. */
  readonly progress: SharedArrayBuffer;
}

/** A thread's first message: its device, or why it has none. */
export type ComputeHello =
  | {
      readonly device: ComputeDevice;
      readonly memory: ComputeMemory;
      /** Why the device is not of the kind that was asked for. */
      readonly fallbackReason: string | undefined;
    }
  | { readonly problem: ThreadProblem };
