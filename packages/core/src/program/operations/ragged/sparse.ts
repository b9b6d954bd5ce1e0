// Sparse tensors in their three parts: indices [entries, rank], values [entries] and the dense shape
// [rank]. Features of variable length come as such, and tf.nn.safe_embedding_lookup_sparse brings
// them to one row per example. Sources: reshape_util.cc, sparse_slice_op.cc, sparse_tensor.h and
// sparse_fill_empty_rows_op.cc.

import { elementCount } from "../../../tensor/tensor.ts";
import type { Tensor } from "../../../tensor/tensor.ts";
import { joined, takeValues } from "../element-positions.ts";
import { inputAt, integersAt, scalarAt } from "../host-call.ts";
import type { HostCall, HostOperations } from "../host-call.ts";
import { invalid } from "../../node-error.ts";
import { outputCount, tensorOf } from "../tensor-memory.ts";

/** Sparse tensors reshaped and filled, by TensorFlow's name. */
export const sparseOperations: HostOperations = {
  SparseReorder: reorderSparse,
  SparseSlice: sliceSparse,
  SparseReshape: reshapeSparse,
  SparseFillEmptyRows: fillEmptyRows,
};

/** Inputs: indices, dense shape, wanted shape. Outputs: indices, dense shape. */
function reshapeSparse(call: HostCall): Tensor[] {
  const indices = ofRank(
    inputAt(call, 0),
    2,
    "Input indices should be a matrix but received shape",
  );
  ofRank(inputAt(call, 1), 1, "Input shape should be a vector but received shape");
  ofRank(inputAt(call, 2), 1, "Target shape should be a vector but received shape");
  const from = integersAt(call, 1);
  const [entries = 0, rank = 0] = indices.shape;
  if (rank !== from.length) {
    throw invalid(`Input tensor rank must match input shape length: ${rank} vs ${from.length}`);
  }
  const to = wantedShape(from, integersAt(call, 2));
  const moved = movedIndices(integersAt(call, 0), { entries, from, to });
  return [
    tensorOf("int64", [entries, to.length], moved),
    tensorOf("int64", [to.length], BigInt64Array.from(to, BigInt)),
  ];
}

/** Inputs: indices, values, dense shape. Outputs: indices and values, by the indices of the first axis, then the next. */
function reorderSparse(call: HostCall): Tensor[] {
  const indices = ofRank(
    inputAt(call, 0),
    2,
    "Input indices should be a matrix but received shape",
  );
  const values = ofRank(inputAt(call, 1), 1, "Input values should be a vector but received shape");
  const rank = integersAt(call, 2).length;
  const [entries = 0, width = 0] = indices.shape;
  if (width !== rank || values.data.length !== entries) {
    const shapes = `[${indices.shape.join(",")}], [${values.shape.join(",")}] and [${rank}]`;
    throw invalid(`Indices, values and shape do not fit together: ${shapes}`);
  }
  const places = integersAt(call, 0);
  const order = Int32Array.from({ length: entries }, (_, entry) => entry).toSorted((a, b) => {
    for (let axis = 0; axis < rank; axis += 1) {
      const difference = places[a * rank + axis]! - places[b * rank + axis]!;
      if (difference !== 0) return difference;
    }
    return a - b;
  });
  const positions = Int32Array.from({ length: entries * rank }, (_, at) => {
    return order[Math.floor(at / rank)]! * rank + (at % rank);
  });
  return [takeValues(indices, positions, indices.shape), takeValues(values, order, values.shape)];
}

/** Inputs: indices, values, dense shape, start, size. Outputs: the same three of the entries within, from the start on. */
function sliceSparse(call: HostCall): Tensor[] {
  const indices = ofRank(inputAt(call, 0), 2, "Expected indices to be a matrix but got shape");
  const values = ofRank(inputAt(call, 1), 1, "Expected values to be a vector but got shape");
  const [shape, start, size] = [integersAt(call, 2), integersAt(call, 3), integersAt(call, 4)];
  const [entries = 0, rank = 0] = indices.shape;
  const fits = [shape, start, size].every(({ length }) => length === rank);
  if (!fits || values.data.length !== entries) {
    const sizes = `[${entries},${rank}], [${values.shape.join(",")}] and [${shape.length}]`;
    throw invalid(`Indices, values, shape, start and size do not fit together: ${sizes}`);
  }
  sizeOf(shape);
  const widths = shape.map((whole, axis) => sliceWidth(whole, start[axis]!, size[axis]!));
  const places = integersAt(call, 0);
  // An entry beyond the dense shape is one within the slice too, as in TensorFlow.
  const isWithin = (entry: number): boolean =>
    size.every((wanted, axis) => {
      const place = places[entry * rank + axis]! - start[axis]!;
      return place >= 0 && place < wanted;
    });
  const kept = Int32Array.from(
    Array.from({ length: entries }, (_, entry) => entry).filter(isWithin),
  );
  const moved = BigInt64Array.from({ length: kept.length * rank }, (_, at) => {
    const axis = at % rank;
    return BigInt(places[kept[Math.floor(at / rank)]! * rank + axis]! - start[axis]!);
  });
  return [
    tensorOf("int64", [kept.length, rank], moved),
    takeValues(values, kept, [kept.length]),
    tensorOf("int64", [rank], BigInt64Array.from(widths, BigInt)),
  ];
}

/** How much of an axis a slice takes. TensorFlow lets it start before the first place. */
function sliceWidth(whole: number, start: number, size: number): number {
  if (size < 0) throw invalid(`Expected a non-negative size, got ${size}`);
  return Math.max(0, Math.min(size, whole - start));
}

interface Reshape {
  readonly entries: number;
  readonly from: readonly number[];
  readonly to: readonly number[];
}

/**
 * Indices in the other shape. One beyond the dense shape stays one, for the operation behind to refuse: in the
 * first axis of another shape, and wherever it was in the same one.
 */
function movedIndices(
  positions: readonly number[],
  { entries, from, to }: Reshape,
): BigInt64Array<ArrayBuffer> {
  const moved = new BigInt64Array(outputCount([entries, to.length]));
  if (to.join() === from.join()) {
    moved.set(BigInt64Array.from(positions, BigInt));
    return moved;
  }
  for (let entry = 0; entry < entries; entry += 1) {
    let place = 0n;
    for (const [axis, size] of from.entries()) {
      place = place * BigInt(size) + BigInt(positions[entry * from.length + axis]!);
    }
    for (let axis = to.length - 1; axis > 0; axis -= 1) {
      const size = BigInt(to[axis]!);
      moved[entry * to.length + axis] = size === 0n ? 0n : place % size;
      place = size === 0n ? 0n : place / size;
    }
    if (to.length > 0) moved[entry * to.length] = place;
  }
  return moved;
}

/** The wanted shape with its one -1 worked out. */
function wantedShape(from: readonly number[], wanted: readonly number[]): number[] {
  const total = sizeOf(from);
  const open = wanted.indexOf(-1);
  if (open >= 0 && wanted.includes(-1, open + 1)) {
    const places = `${open} and ${wanted.indexOf(-1, open + 1)}`;
    throw invalid(`only one output dimension may be -1, not both ${places}`);
  }
  const negative = wanted.findIndex((size) => size < -1);
  if (negative >= 0) {
    throw invalid(`size ${negative} must be non-negative, not ${wanted[negative]}`);
  }
  const known = sizeOf(wanted.filter((size) => size !== -1));
  const has = `Input to SparseReshape is a SparseTensor with ${total} dense values`;
  if (open >= 0) {
    if (known === 0) {
      const remedy = "unless all specified input sizes are non-zero";
      throw invalid(`reshape cannot infer the missing input size for an empty tensor ${remedy}`);
    }
    if (total % known !== 0) {
      throw invalid(`${has}, but the requested shape requires a multiple of ${known}`);
    }
    return wanted.with(open, total / known);
  }
  if (known !== total) throw invalid(`${has}, but the requested shape has ${known}`);
  return [...wanted];
}

/** Values of a dense shape, which is never allocated. @throws WinnowError INVALID_ARGUMENT */
function sizeOf(shape: readonly number[]): number {
  const count = elementCount(shape);
  if (shape.every((size) => size >= 0) && Number.isSafeInteger(count)) return count;
  throw invalid(`A sparse tensor cannot have the dense shape [${shape.join(",")}]`);
}

/**
 * Inputs: indices, values, dense shape, the value for a row without entries. Outputs: indices and
 * values in the order of rows, whether each row was empty, and where each entry went.
 */
function fillEmptyRows(call: HostCall): Tensor[] {
  const indices = ofRank(inputAt(call, 0), 2, "indices must be a matrix, saw:");
  const values = ofRank(inputAt(call, 1), 1, "values must be a vector, saw:");
  ofRank(inputAt(call, 2), 1, "dense_shape must be a vector, saw:");
  const filling = scalarAt(call, 3);
  const [entries = 0, rank = 0] = indices.shape;
  if (values.shape[0] !== entries) {
    const counts = `(${values.shape[0]}) must match the first dimension of \`indices\` (${entries})`;
    throw invalid(`The length of \`values\` ${counts}.`);
  }
  const rows = rowsOf(call, entries);
  const positions = integersAt(call, 0);
  const sizes = rowSizes(positions, { entries, rank, rows });
  const starts = startsOf(sizes);
  const total = starts.at(-1)!;
  const outIndices = new BigInt64Array(outputCount([total, rank]));
  const sources = new Int32Array(total).fill(entries);
  for (let row = 0; row < rows; row += 1) {
    if (sizes[row] === 0) outIndices[starts[row]! * rank] = BigInt(row);
  }
  const next = starts.slice();
  const moved = new BigInt64Array(entries);
  for (let entry = 0; entry < entries; entry += 1) {
    const row = positions[entry * rank]!;
    const to = next[row]!;
    next[row] = to + 1;
    sources[to] = entry;
    moved[entry] = BigInt(to);
    for (let axis = 0; axis < rank; axis += 1) {
      outIndices[to * rank + axis] = BigInt(positions[entry * rank + axis]!);
    }
  }
  return [
    tensorOf("int64", [total, rank], outIndices),
    takeValues(joined([values, filling]), sources, [total]),
    tensorOf(
      "bool",
      [rows],
      Uint8Array.from(sizes, (size) => Number(size === 0)),
    ),
    tensorOf("int64", [entries], moved),
  ];
}

/** Rows of the dense shape, within the limits of one output. */
function rowsOf(call: HostCall, entries: number): number {
  const [rows] = integersAt(call, 2);
  if (rows === undefined) throw invalid("Dense shape cannot be empty.");
  if (rows === 0 && entries > 0) {
    throw invalid(
      `Received SparseTensor with dense_shape[0] = 0 but indices.shape[0] = ${entries}`,
    );
  }
  return outputCount([rows]);
}

interface Entries {
  readonly entries: number;
  readonly rank: number;
  readonly rows: number;
}

/** Entries of each row. */
function rowSizes(positions: readonly number[], { entries, rank, rows }: Entries): Int32Array {
  const sizes = new Int32Array(rows);
  if (rank === 0 && entries > 0) throw invalid("indices must have a column");
  for (let entry = 0; entry < entries; entry += 1) {
    const row = positions[entry * rank]!;
    if (row < 0 || row >= rows) {
      const fault = row < 0 ? "< 0" : `>= ${rows}`;
      throw invalid(`indices(${entry}, 0) is invalid: ${row} ${fault}`);
    }
    sizes[row]! += 1;
  }
  return sizes;
}

/** Where each row begins in the output, which gives an empty row one entry; last: their number. */
function startsOf(sizes: Int32Array): Int32Array {
  const starts = new Int32Array(sizes.length + 1);
  for (const [row, size] of sizes.entries()) starts[row + 1] = starts[row]! + Math.max(1, size);
  return starts;
}

function ofRank(tensor: Tensor, rank: number, fault: string): Tensor {
  if (tensor.shape.length === rank) return tensor;
  throw invalid(`${fault} [${tensor.shape.join(",")}]`);
}
