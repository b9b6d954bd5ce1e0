// Runs the dense parts of programs (query towers, ranking layers). One implementation: ONNX Runtime
// in processes of its own, because its `run` blocks the thread it is called on, and a fault of its C++
// ends the process it is in.

import type { Tensor } from "@winnow/core";

/** Whose dense part it is: the name goes into errors, and models take turns. */
export interface DenseOwner {
  readonly model: string;
  readonly version: number;
}

/** A loaded ONNX model. */
export interface DenseModel {
  /**
   * Runs the model once. Inputs and outputs go by the names that the model gives them. A run that has
   * not begun when the signal aborts never does. @throws the signal's reason then; WinnowError
   * INVALID_ARGUMENT as ONNX Runtime says, INTERNAL where the run ended the process it was in,
   * RESOURCE_EXHAUSTED where too many runs of the owner wait
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
  /**
   * @throws WinnowError INVALID_ARGUMENT when the bytes are not a model the engine can run, which no
   * repetition will change; RESOURCE_EXHAUSTED or UNAVAILABLE where a later try may succeed
   */
  load(onnx: Uint8Array, owner: DenseOwner): Promise<DenseModel>;
  close(): Promise<void>;
}
