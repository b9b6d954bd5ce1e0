// Values picked by their content: top-k, positions of true values, distinct values.

import type { Dtype } from "../../../tensor/dtype.ts";
import { numbersOf, takeValues } from "../element-positions.ts";
import { dtypeAttribute, inputAt, integerAt, numericAt } from "../host-call.ts";
import type { HostCall, HostOperations } from "../host-call.ts";
import { invalid } from "../../node-error.ts";
import type { Tensor } from "../../../tensor/tensor.ts";
import { tensorOf, zeros } from "../tensor-memory.ts";

/** Operations that pick values by their content, by TensorFlow's name. */
export const selectionOperations: HostOperations = {
  TopKV2: topK,
  Where: (call) => [where(call)],
  Unique: (call) => unique(call).slice(0, 2),
  UniqueWithCounts: unique,
  ListDiff: listDifference,
};

/** The k largest values in descending order, equal values by ascending index. */
function topK(call: HostCall): Tensor[] {
  const input = numericAt(call, 0);
  const k = integerAt(call, 1);
  const columns = input.shape.at(-1);
  if (columns === undefined) throw invalid("input must be >= 1-D, got shape []");
  if (k < 0) throw invalid(`Need k >= 0, got ${k}`);
  if (columns < k) throw invalid(`input must have at least k columns. Had ${columns}, needed ${k}`);
  const shape = [...input.shape.slice(0, -1), k];
  const indices = zeros("int32", shape);
  const values = numbersOf(input);
  const positions = new Int32Array(indices.length);
  const rows = columns === 0 ? 0 : values.length / columns;
  for (let row = 0; row < rows; row += 1) {
    const first = row * columns;
    const order = Int32Array.from({ length: columns }, (_, column) => column);
    order.sort((a, b) => descending(values[first + a]!, values[first + b]!) || a - b);
    indices.set(order.subarray(0, k), row * k);
    for (let place = 0; place < k; place += 1) positions[row * k + place] = first + order[place]!;
  }
  return [
    takeValues(input, positions, shape),
    integersOf(call, "index_type", { values: indices, shape }),
  ];
}

/** Compares for a descending order, with NaN after every number. */
function descending(a: number | bigint, b: number | bigint): number {
  if (a > b) return -1;
  if (a < b) return 1;
  return Number(Number.isNaN(a)) - Number(Number.isNaN(b));
}

/** Indices in the dtype that the attribute names, by default int32. */
function integersOf(
  call: HostCall,
  attribute: string,
  { values, shape }: { readonly values: Int32Array; readonly shape: readonly number[] },
): Tensor {
  const dtype: Dtype = dtypeAttribute(call, attribute, "int32");
  if (dtype === "int64") return tensorOf(dtype, shape, BigInt64Array.from(values, BigInt));
  return tensorOf("int32", shape, values);
}

function where(call: HostCall): Tensor {
  const { data, shape } = numericAt(call, 0);
  const found: bigint[] = [];
  let count = 0;
  for (let at = 0; at < data.length; at += 1) {
    if (!data[at] && !Number.isNaN(data[at])) continue;
    count += 1;
    let rest = at;
    const place = Array<bigint>(shape.length);
    for (let axis = shape.length - 1; axis >= 0; axis -= 1) {
      place[axis] = BigInt(rest % shape[axis]!);
      rest = Math.floor(rest / shape[axis]!);
    }
    found.push(...place);
  }
  return tensorOf("int64", [count, shape.length], BigInt64Array.from(found));
}

/**
 * Distinct values in order of appearance; for each input value, the index of its distinct value;
 * and how often each distinct value occurs.
 */
function unique(call: HostCall): Tensor[] {
  const input = inputAt(call, 0);
  if (input.shape.length !== 1) throw invalid("unique expects a 1D vector.");
  const kinds = new Map<unknown, number>();
  const firsts: number[] = [];
  const counts: number[] = [];
  const kindOf = new Int32Array(input.data.length);
  for (let at = 0; at < kindOf.length; at += 1) {
    const key = keyAt(input, at);
    // No NaN equals another one, which a Map would say.
    const kind = (Number.isNaN(key) ? undefined : kinds.get(key)) ?? firsts.length;
    if (kind === firsts.length) {
      kinds.set(key, kind);
      firsts.push(at);
      counts.push(0);
    }
    kindOf[at] = kind;
    counts[kind]! += 1;
  }
  return [
    takeValues(input, Int32Array.from(firsts), [firsts.length]),
    integersOf(call, "out_idx", { values: kindOf, shape: input.shape }),
    integersOf(call, "out_idx", { values: Int32Array.from(counts), shape: [counts.length] }),
  ];
}

/** The values of a list that another one lacks, in their order, and their places. */
function listDifference(call: HostCall): Tensor[] {
  const [list, others] = [inputAt(call, 0), inputAt(call, 1)];
  for (const [name, { shape }] of Object.entries({ x: list, y: others })) {
    if (shape.length !== 1) throw invalid(`${name} should be a 1D vector.`);
  }
  const known = new Set(Array.from({ length: others.data.length }, (_, at) => keyAt(others, at)));
  const places: number[] = [];
  for (let at = 0; at < list.data.length; at += 1) {
    const key = keyAt(list, at);
    // No NaN equals another one, which a Set would say.
    if (Number.isNaN(key) || !known.has(key)) places.push(at);
  }
  const values = Int32Array.from(places);
  const shape = [places.length];
  return [takeValues(list, values, shape), integersOf(call, "out_idx", { values, shape })];
}

/** A value as a map key. */
function keyAt(tensor: Tensor, at: number): unknown {
  return tensor.dtype === "string" ? latin1(tensor.data.at(at)) : tensor.data[at];
}

/** Bytes as a map key: one character per byte. */
function latin1(bytes: Uint8Array): string {
  return Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength).toString("latin1");
}
