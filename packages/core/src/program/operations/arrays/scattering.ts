// Slices written to the places that indices name: into zeros, or into a copy of a tensor. TensorFlow
// on the CPU refuses an index outside of the tensor. Slices for one place add up in their order, or
// the last one stays.

import { numbersOf, stridesOf } from "../element-positions.ts";
import { inputAt, integersAt, numericAt } from "../host-call.ts";
import type { HostCall, HostOperations } from "../host-call.ts";
import { invalid } from "../../node-error.ts";
import { elementCount } from "../../../tensor/tensor.ts";
import type { Tensor } from "../../../tensor/tensor.ts";
import { tensorOf, zeros } from "../tensor-memory.ts";

/** What becomes of a value when a slice is written over it; integers wrap as their array does. */
interface Writing {
  readonly ofNumbers: (old: number, update: number) => number;
  readonly ofBigInts: (old: bigint, update: bigint) => bigint;
}

const replace: Writing = {
  ofNumbers: (_, update) => update,
  ofBigInts: (_, update) => update,
};
const add: Writing = {
  ofNumbers: (old, update) => old + update,
  ofBigInts: (old, update) => old + update,
};
const subtract: Writing = {
  ofNumbers: (old, update) => old - update,
  ofBigInts: (old, update) => old - update,
};
const larger: Writing = {
  ofNumbers: (old, update) => (update > old ? update : old),
  ofBigInts: (old, update) => (update > old ? update : old),
};
const smaller: Writing = {
  ofNumbers: (old, update) => (update < old ? update : old),
  ofBigInts: (old, update) => (update < old ? update : old),
};

/** Operations that write slices to places, by TensorFlow's name. */
export const scatteringOperations: HostOperations = {
  ScatterNd: (call) => {
    const updates = numericAt(call, 1);
    const shape = integersAt(call, 2);
    const empty = tensorOf(updates.dtype, shape, zeros(updates.dtype, shape));
    return [written(call, [empty, inputAt(call, 0), updates], add)];
  },
  TensorScatterAdd: (call) => [ofTensor(call, add)],
  TensorScatterMax: (call) => [ofTensor(call, larger)],
  TensorScatterMin: (call) => [ofTensor(call, smaller)],
  TensorScatterSub: (call) => [ofTensor(call, subtract)],
  TensorScatterUpdate: (call) => [ofTensor(call, replace)],
};

function ofTensor(call: HostCall, writing: Writing): Tensor {
  const [tensor, updates] = [numericAt(call, 0), numericAt(call, 2)];
  const copy = tensorOf(tensor.dtype, tensor.shape, numbersOf(tensor).slice());
  return written(call, [copy, inputAt(call, 1), updates], writing);
}

type Operands = readonly [into: Tensor, indices: Tensor, updates: Tensor];

/** Writes into the first tensor, which the caller has made for this. */
function written(call: HostCall, [into, indices, updates]: Operands, writing: Writing): Tensor {
  const depth = indices.shape.at(-1) ?? 1;
  const outer = indices.shape.slice(0, -1);
  const shape = [...outer, ...into.shape.slice(depth)];
  if (depth > into.shape.length || updates.shape.join() !== shape.join()) {
    const shapes = [indices, updates, into].map((each) => `[${each.shape.join(",")}]`);
    throw invalid(
      `Dimensions [0,${outer.length}) of indices[shape=${shapes[0]}] must match dimensions of updates[shape=${shapes[1]}] and output[shape=${shapes[2]}]`,
    );
  }
  if (updates.dtype !== into.dtype) {
    throw invalid(`${call.op} cannot write ${updates.dtype} into ${into.dtype} values`);
  }
  const places = integersAt(call, call.op === "ScatterNd" ? 0 : 1);
  const strides = stridesOf(into.shape);
  const inner = elementCount(into.shape.slice(depth));
  const target = numbersOf(into) as { [at: number]: number | bigint };
  const source = numbersOf(updates);
  const slices = inner === 0 ? 0 : elementCount(outer);
  for (let slice = 0; slice < slices; slice += 1) {
    const place = places.slice(slice * depth, (slice + 1) * depth);
    if (place.some((row, axis) => row < 0 || row >= into.shape[axis]!)) {
      throw invalid(
        `indices[${slice}] = [${place.join(", ")}] does not index into shape [${into.shape.join(",")}]`,
      );
    }
    const first = place.reduce((sum, row, axis) => sum + row * strides[axis]!, 0);
    for (let offset = 0; offset < inner; offset += 1) {
      const old = target[first + offset]!;
      const update = source[slice * inner + offset]!;
      target[first + offset] =
        typeof old === "bigint"
          ? writing.ofBigInts(old, update as bigint)
          : writing.ofNumbers(old, update as number);
    }
  }
  return into;
}
