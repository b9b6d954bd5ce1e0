// What the event loop hands to a new compute thread, and what the thread says when it is ready.

import type { AcceleratorKind } from "@winnow/accelerator";
import type { ThreadProblem } from "@winnow/core";
import type { CacheSettings } from "@winnow/model";

import type { ComputeDevice, ComputeMemory } from "./compute.ts";

/** Which device the thread uses, and how much of its memory. */
export interface DeviceSettings {
  readonly kind: AcceleratorKind;
  /** Bytes that rows, ids and keys may occupy together. */
  readonly capacityBytes: number;
  /** Threads that share a scan; `undefined`: the accelerator chooses. */
  readonly threads: number | undefined;
}

/** How model directories are read. */
export interface ReaderSettings {
  /** Bytes of float32 values up to which a partition of a table may grow; equal on all workers. */
  readonly partitionBytes: number;
  /** Bytes of tables that are not cut, in one version at most. */
  readonly uncutBytesMax: number;
  /** Where data read from an object store is cached; `undefined`: nowhere. */
  readonly modelCache: CacheSettings | undefined;
}

/** The data that a new compute thread is started with. */
export interface ComputeThreadData {
  readonly device: DeviceSettings;
  readonly reader: ReaderSettings;
  readonly exclusionBytesMax: number;
  readonly filterBytesMax: number;
  /** Memory of the shared progress counter. */
  readonly progress: SharedArrayBuffer;
}

/** The first message of a thread: its device, or why it has none. */
export type ComputeHello =
  | {
      readonly device: ComputeDevice;
      readonly memory: ComputeMemory;
      /** Why the device is not of the kind that was asked for. */
      readonly fallbackReason: string | undefined;
    }
  | { readonly problem: ThreadProblem };
