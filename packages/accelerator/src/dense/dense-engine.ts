// Runs the dense parts of programs (query towers, ranking layers). One implementation: ONNX Runtime
// in processes of its own, because its `run` blocks the thread it is called on, and a fault of its C++
// ends the process it is in.

import type { Signal, Tensor } from "@winnow/core";
import type { DenseShapes } from "./dense-frames.ts";

/** The model that a dense part belongs to: errors name it, and models take turns. */
export interface DenseOwner {
  readonly model: string;
  readonly version: number;
}

/** A loaded ONNX model. */
export interface DenseModel {
  /** What is known of inputs and outputs; absent where the engine cannot tell. */
  readonly shapes?: DenseShapes | undefined;
  /**
   * Runs the model once. Inputs and outputs have the names that the model gives them. A run that has not
   * begun when the signal aborts never begins. @throws the signal's reason in that case; WinnowError
   * INVALID_ARGUMENT as ONNX Runtime says, INTERNAL if the run ended its process, RESOURCE_EXHAUSTED if too
   * many runs of the owner wait
   */
  run(
    inputs: ReadonlyMap<string, Tensor>,
    outputs: readonly string[],
    signal?: Signal,
  ): Promise<ReadonlyMap<string, Tensor>>;
  /** Frees the model's memory, once the runs under way have finished. */
  release(): Promise<void>;
}

/** Loads and runs ONNX models off the event loop. */
export interface DenseEngine {
  /**
   * Loads a model, whose bytes are kept and must not be changed. @throws WinnowError INVALID_ARGUMENT if the engine
   * cannot run these bytes, which no repetition will change; RESOURCE_EXHAUSTED or UNAVAILABLE if a later attempt may
   * succeed
   */
  load(onnx: Uint8Array, owner: DenseOwner): Promise<DenseModel>;
  close(): Promise<void>;
}
