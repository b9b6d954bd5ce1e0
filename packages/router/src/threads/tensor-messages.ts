// Tensors as they cross between the event loop and a thread: their memory is transferred, and columns of strings
// cross as plain arrays.

import { StringColumn } from "@winnow/core";
import type { Tensor } from "@winnow/core";

/** The memory of tensors, which is transferred with them: each part of it once. */
export function tensorBuffers(tensors: readonly Tensor[]): ArrayBuffer[] {
  const buffers = tensors.flatMap(({ dtype, data }) => {
    const arrays = dtype === "string" ? [data.offsets, data.bytes] : [data];
    return arrays.map((array) => array.buffer as ArrayBuffer);
  });
  return [...new Set(buffers)];
}

/** A tensor that has crossed, with its strings as a column again. */
export function revivedTensor(given: Tensor): Tensor {
  if (given.dtype !== "string") return given;
  return { ...given, data: new StringColumn(given.data.offsets, given.data.bytes) };
}

/** The same tensor in memory of its own, without what its column is a slice of. */
export function copiedTensor(given: Tensor): Tensor {
  if (given.dtype !== "string") return { ...given, data: given.data.slice() } as Tensor;
  return { ...given, data: StringColumn.joined([given.data]) };
}
