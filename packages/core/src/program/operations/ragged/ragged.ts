// Ragged and sparse values made dense. A ragged tensor is flat values and, per level, a row
// partition that assigns values to rows (tensorflow/core/kernels/ragged_tensor_to_tensor_op.cc).

import {
  broadcastShape,
  broadcastValues,
  joined,
  reshaped,
  stridesOf,
  takeValues,
} from "../element-positions.ts";
import {
  dtypeAttribute,
  inputAt,
  integersAt,
  numberAttribute,
  numbersOf,
  numericAt,
  scalarAt,
  textsAttribute,
} from "../host-call.ts";
import type { HostCall, HostOperations } from "../host-call.ts";
import { invalid } from "../../node-error.ts";
import { WinnowError } from "../../../errors/errors.ts";
import { elementCount } from "../../../tensor/tensor.ts";
import type { Tensor } from "../../../tensor/tensor.ts";
import { outputCount, tensorOf } from "../tensor-memory.ts";

/** Ragged and sparse values made dense, by TensorFlow's name. */
export const raggedOperations: HostOperations = {
  RaggedGather: raggedGather,
  RaggedRange: raggedRange,
  RaggedTensorToTensor: (call) => [raggedToTensor(call)],
  RaggedTensorToSparse: raggedToSparse,
  SparseToDense: (call) => [sparseToDense(call)],
};

/** Row splits of the type that `like` has. */
function splitsAs(like: Tensor, splits: readonly number[]): Tensor {
  return like.dtype === "int32"
    ? tensorOf("int32", [splits.length], Int32Array.from(splits))
    : tensorOf("int64", [splits.length], BigInt64Array.from(splits, BigInt));
}

/** Inputs: row splits of each level, values, indices of rows. Outputs: splits of each level, values. */
function raggedGather(call: HostCall): Tensor[] {
  const levels = numberAttribute(call, "PARAMS_RAGGED_RANK", call.inputs.length - 2);
  const values = inputAt(call, levels);
  const wanted = inputAt(call, levels + 1);
  const like = inputAt(call, 0);
  let rows = integersAt(call, levels + 1);
  const count = like.data.length - 1;
  const outside = rows.find((row) => row < 0 || row >= count);
  if (outside !== undefined) throw invalid(`indices = ${outside} is not in [0, ${count})`);
  const outputs: Tensor[] = [];
  let before = 1;
  // Indices of several axes are levels of one length each.
  for (const [axis, size] of wanted.shape.slice(1).entries()) {
    before *= wanted.shape[axis]!;
    outputs.push(
      splitsAs(
        like,
        Array.from({ length: before + 1 }, (_, row) => row * size),
      ),
    );
  }
  for (let level = 0; level < levels; level += 1) {
    const splits = integersAt(call, level);
    const found: number[] = [];
    const ends = [0];
    for (const row of rows) {
      const [start, end] = [splits[row] ?? 0, splits[row + 1] ?? 0];
      outputCount([found.length + Math.max(0, end - start)]);
      for (let at = start; at < end; at += 1) found.push(at);
      ends.push(found.length);
    }
    outputs.push(splitsAs(like, ends));
    rows = found;
  }
  const inner = values.shape.slice(1);
  const block = elementCount(inner);
  const shape = [rows.length, ...inner];
  const positions = new Int32Array(outputCount(shape));
  for (const [place, row] of rows.entries()) {
    if (row >= (values.shape[0] ?? 0)) throw invalid(`The row partition has no value ${row}`);
    for (let at = 0; at < block; at += 1) positions[place * block + at] = row * block + at;
  }
  return [...outputs, takeValues(values, positions, shape)];
}

/** Inputs: starts, limits and deltas, vectors or scalars. Outputs: row splits, values. */
function raggedRange(call: HostCall): Tensor[] {
  const like = numericAt(call, 0);
  const lists = [0, 1, 2].map((position) => {
    const { data, shape } = numericAt(call, position);
    return { values: numbersOf(data), shape };
  });
  const lengths = lists.flatMap(({ values, shape }) => (shape.length === 0 ? [] : [values.length]));
  const rows = lengths[0] ?? 1;
  if (!lengths.every((length) => length === rows)) {
    throw invalid("starts, limits, and deltas must have the same shape");
  }
  const [starts, limits, deltas] = lists.map(({ values, shape }) => (row: number): number => {
    return values[shape.length === 0 ? 0 : row]!;
  });
  const found: number[] = [];
  const splits = [0];
  for (let row = 0; row < rows; row += 1) {
    const [start, limit, delta] = [starts!(row), limits!(row), deltas!(row)];
    if (delta === 0) throw invalid("Requires delta != 0");
    const length = Math.max(0, Math.ceil((limit - start) / delta));
    outputCount([found.length + length]);
    for (let at = 0; at < length; at += 1) found.push(start + at * delta);
    splits.push(found.length);
  }
  const isNarrow = dtypeAttribute(call, "Tsplits", "int64") === "int32";
  const rowSplits = isNarrow
    ? tensorOf("int32", [splits.length], Int32Array.from(splits))
    : tensorOf("int64", [splits.length], BigInt64Array.from(splits, BigInt));
  return [rowSplits, numbersAs(like.dtype, found)];
}

function numbersAs(dtype: Tensor["dtype"], values: readonly number[]): Tensor {
  const shape = [values.length];
  if (dtype === "int64") return tensorOf(dtype, shape, BigInt64Array.from(values, BigInt));
  if (dtype === "int32") return tensorOf(dtype, shape, Int32Array.from(values));
  if (dtype === "float32") return tensorOf(dtype, shape, Float32Array.from(values));
  return tensorOf("float64", shape, Float64Array.from(values));
}

/** Number of rows, then per level the length of each row. */
interface RowLengths {
  readonly rows: number;
  readonly levels: readonly (readonly number[])[];
}

function raggedToTensor(call: HostCall): Tensor {
  const values = inputAt(call, 1);
  const { rows, levels } = rowLengthsOf(call);
  const inner = values.shape.slice(1);
  const longest = levels.map((lengths) => lengths.reduce((a, b) => Math.max(a, b), 0));
  const shape = wantedShape(call, [rows, ...longest, ...inner]);
  const block = elementCount(inner);
  if (shape.slice(levels.length + 1).join() !== inner.join()) {
    throw invalid(`Cannot put values [${values.shape.join(",")}] into shape [${shape.join(",")}]`);
  }
  const fallback = inputAt(call, 2);
  if (broadcastShape(fallback.shape, inner).join() !== inner.join()) {
    throw invalid(`default_value [${fallback.shape.join(",")}] does not fit [${inner.join(",")}]`);
  }
  const fill = reshaped(broadcastValues(fallback, inner), [block]);
  const source = joined([values, fill]);
  const positions = new Int32Array(outputCount(shape));
  for (let at = 0; at < positions.length; at += 1)
    positions[at] = values.data.length + (at % block);
  const places = placesOf({ rows, levels }, shape);
  if (places.length * block !== values.data.length) {
    throw invalid(`The row partition holds ${places.length} values, not ${values.shape[0]}`);
  }
  for (const [value, place] of places.entries()) {
    if (place < 0) continue;
    for (let offset = 0; offset < block; offset += 1)
      positions[place + offset] = value * block + offset;
  }
  return takeValues(source, positions, shape);
}

/** The requested shape; a size of -1 (a scalar -1: every size) becomes the needed size. */
function wantedShape(call: HostCall, needed: readonly number[]): number[] {
  const wished = integersAt(call, 0);
  if (inputAt(call, 0).shape.length === 0) return [...needed];
  if (wished.length !== needed.length) {
    throw invalid(`Shape [${wished.join(",")}] has another rank than the values, ${needed.length}`);
  }
  return needed.map((size, axis) => (wished[axis]! < 0 ? size : wished[axis]!));
}

function rowLengthsOf(call: HostCall): RowLengths {
  const kinds = textsAttribute(call, "row_partition_types");
  const parts = kinds.map((_, at) => integersAt(call, 3 + at));
  const hasSize = kinds[0] === "FIRST_DIM_SIZE";
  const levels: number[][] = [];
  let rows = hasSize ? parts[0]![0]! : -1;
  for (let at = hasSize ? 1 : 0; at < kinds.length; at += 1) {
    const parents = levels.at(-1)?.reduce((sum, length) => sum + length, 0) ?? rows;
    const lengths = lengthsOf(kinds[at]!, parts[at]!, parents);
    if (parents >= 0 && lengths.length !== parents) {
      throw invalid(`Row partition ${at} has ${lengths.length} rows, not ${parents}`);
    }
    if (levels.length === 0) rows = lengths.length;
    levels.push(lengths);
  }
  return { rows: Math.max(0, rows), levels };
}

function lengthsOf(kind: string, part: readonly number[], rows: number): number[] {
  if (kind === "ROW_SPLITS") {
    const lengths = part.slice(1).map((end, at) => end - part[at]!);
    if (part[0] !== 0 || lengths.some((length) => length < 0)) throw invalid("Invalid row splits");
    return lengths;
  }
  if (kind !== "VALUE_ROWIDS" || rows < 0) throw invalid(`Unsupported row partition type ${kind}`);
  const lengths = Array<number>(outputCount([rows])).fill(0);
  for (const row of part) {
    if (row < 0 || row >= rows) throw invalid(`Row id ${row} is not in [0, ${rows})`);
    lengths[row]! += 1;
  }
  return lengths;
}

/** Output position of each value; -1 for a value that is cut off. */
function placesOf({ rows, levels }: RowLengths, shape: readonly number[]): Int32Array {
  const strides = stridesOf(shape);
  let places = Int32Array.from({ length: rows }, (_, row) =>
    row < shape[0]! ? row * strides[0]! : -1,
  );
  for (const [level, lengths] of levels.entries()) {
    const parents = places;
    const stride = strides[level + 1] ?? 1;
    const room = shape[level + 1]!;
    places = new Int32Array(outputCount([lengths.reduce((sum, length) => sum + length, 0)]));
    let to = 0;
    for (const [row, length] of lengths.entries()) {
      for (let column = 0; column < length; column += 1) {
        places[to] = parents[row]! < 0 || column >= room ? -1 : parents[row]! + column * stride;
        to += 1;
      }
    }
  }
  return places;
}

/** For ragged rank 1 (splits, values): the row and column of each value. */
function raggedToSparse(call: HostCall): Tensor[] {
  if (call.inputs.length !== 2) {
    throw new WinnowError("UNIMPLEMENTED", `${call.op} of ragged rank ${call.inputs.length - 1}`);
  }
  const values = inputAt(call, 1);
  const lengths = lengthsOf("ROW_SPLITS", integersAt(call, 0), 0);
  const total = lengths.reduce((sum, length) => sum + length, 0);
  if (values.shape.length !== 1 || total !== values.data.length) {
    throw invalid(`The row splits hold ${total} values, not [${values.shape.join(",")}]`);
  }
  const indices = lengths.flatMap((length, row) =>
    Array.from({ length }, (_, column) => [BigInt(row), BigInt(column)]).flat(),
  );
  const longest = lengths.reduce((a, b) => Math.max(a, b), 0);
  return [
    tensorOf("int64", [total, 2], BigInt64Array.from(indices)),
    values,
    tensorOf("int64", [2], BigInt64Array.of(BigInt(lengths.length), BigInt(longest))),
  ];
}

function sparseToDense(call: HostCall): Tensor {
  const { shape: indexShape } = numericAt(call, 0);
  const indices = integersAt(call, 0);
  const shape = integersAt(call, 1);
  const values = inputAt(call, 2);
  const count = indexShape.length === 0 ? 1 : indexShape[0]!;
  const depth = indexShape.length === 2 ? indexShape[1]! : 1;
  if (depth !== shape.length) {
    throw invalid(
      `output_shape has incorrect number of elements: ${shape.length} should be: ${depth}`,
    );
  }
  const positions = new Int32Array(outputCount(shape)).fill(values.data.length);
  const strides = stridesOf(shape);
  for (let at = 0; at < count; at += 1) {
    const place = indices.slice(at * depth, (at + 1) * depth);
    if (place.some((index, axis) => index < 0 || index >= shape[axis]!)) {
      throw invalid(
        `indices[${at}] = [${place.join(",")}] is out of bounds: need 0 <= index < [${shape.join(",")}]`,
      );
    }
    const to = place.reduce((sum, index, axis) => sum + index * strides[axis]!, 0);
    positions[to] = values.data.length === 1 ? 0 : at;
  }
  return takeValues(joined([values, scalarAt(call, 3)]), positions, shape);
}
