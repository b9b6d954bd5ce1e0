// What the dense engine and its thread say to each other. The memory of tensors is transferred, so
// the sender loses it.

import type { Tensor } from "@winnow/core";

/** A tensor, and its name in the model. */
export type NamedTensor = readonly [name: string, tensor: Tensor];

/** A request to the thread; a run is answered with its outputs, others with none. */
export type DenseRequest =
  | { readonly kind: "load"; readonly model: number; readonly onnx: Uint8Array }
  | {
      readonly kind: "run";
      readonly model: number;
      readonly inputs: readonly NamedTensor[];
      readonly outputs: readonly string[];
      /** Its place in `DenseThreadSettings.dropped`. */
      readonly place: number;
    }
  | { readonly kind: "release"; readonly model: number };

/** How the thread is set up. */
export interface DenseThreadSettings {
  readonly threads: number;
  /**
   * Shared memory: 1 at the place of a run that nobody waits for. The thread reads no message while
   * runs wait for it, so a message could not tell it in time.
   */
  readonly dropped: Int32Array;
}

/**
 * A copy of a tensor that owns its memory alone, so that it can be transferred whole.
 * @throws RangeError for strings: ONNX Runtime computes with numbers only
 */
export function detachedCopy(tensor: Tensor): Tensor {
  if (tensor.dtype === "string") throw new RangeError("a string tensor cannot be run");
  return { ...tensor, data: tensor.data.slice() } as Tensor;
}

/** The memory of tensors, to transfer with the message that holds them. */
export function buffersOf(tensors: readonly NamedTensor[]): ArrayBuffer[] {
  return tensors.flatMap(([, { dtype, data }]) =>
    dtype === "string" ? [] : [data.buffer as ArrayBuffer],
  );
}
