// Runs the dense parts of programs (query towers, ranking layers). One implementation: ONNX Runtime
// on a worker thread, because its `run` blocks the thread it is called on.

import type { Tensor } from "@winnow/core";

/** A loaded ONNX model. */
export interface DenseModel {
  /**
   * Runs the model once. Inputs and outputs go by the names that the model gives them. A run that has
   * not begun when the signal aborts never does. @throws the signal's reason then
   */
  run(
    inputs: ReadonlyMap<string, Tensor>,
    outputs: readonly string[],
    signal?: AbortSignal,
  ): Promise<ReadonlyMap<string, Tensor>>;
  /** Frees the model's memory, once the runs under way have finished. */
  release(): Promise<void>;
}

/** Loads and runs ONNX models off the event loop. */
export interface DenseEngine {
  /** @throws WinnowError INVALID_ARGUMENT when the bytes are not a model the engine can run. */
  load(onnx: Uint8Array): Promise<DenseModel>;
  close(): Promise<void>;
}
