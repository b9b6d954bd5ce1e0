// Operations that read or change shapes; the values stay as they are.

import { broadcastShape, reshaped } from "../element-positions.ts";
import {
  axisOf,
  dtypeAttribute,
  inputAt,
  integerAt,
  integersAt,
  numbersAttribute,
} from "../host-call.ts";
import type { HostCall, HostOperations } from "../host-call.ts";
import { invalid } from "../../node-error.ts";
import { elementCount } from "../../../tensor/tensor.ts";
import type { Tensor } from "../../../tensor/tensor.ts";
import { tensorOf, zeros } from "../tensor-memory.ts";

const pass = (call: HostCall): Tensor[] => [inputAt(call, 0)];

/** The common shape of two, in their integer type. */
function broadcastArguments(call: HostCall): Tensor[] {
  const shape = broadcastShape(integersAt(call, 0), integersAt(call, 1));
  if (inputAt(call, 0).dtype === "int64") {
    return [tensorOf("int64", [shape.length], BigInt64Array.from(shape, BigInt))];
  }
  return [tensorOf("int32", [shape.length], Int32Array.from(shape))];
}

/** Operations that read or change shapes, by TensorFlow's name. */
export const shapeOperations: HostOperations = {
  BroadcastArgs: broadcastArguments,
  Identity: pass,
  IdentityN: (call) => call.inputs,
  StopGradient: pass,
  PreventGradient: pass,
  Snapshot: pass,
  PlaceholderWithDefault: pass,
  NoOp: () => [],
  EnsureShape: ensureShape,
  Reshape: reshape,
  ExpandDims: expandDims,
  Squeeze: squeeze,
  Shape: (call) => [integers(call, inputAt(call, 0).shape)],
  ShapeN: (call) => call.inputs.map(({ shape }) => integers(call, shape)),
  Size: (call) => [{ ...integers(call, [elementCount(inputAt(call, 0).shape)]), shape: [] }],
  Rank: (call) => [tensorOf("int32", [], Int32Array.of(inputAt(call, 0).shape.length))],
};

function integers(call: HostCall, sizes: readonly number[]): Tensor {
  const dtype = dtypeAttribute(call, "out_type", "int32");
  if (dtype === "int64") return tensorOf(dtype, [sizes.length], BigInt64Array.from(sizes, BigInt));
  const data = zeros("int32", [sizes.length]);
  data.set(sizes);
  return tensorOf("int32", [sizes.length], data);
}

function ensureShape(call: HostCall): Tensor[] {
  const input = inputAt(call, 0);
  if (call.attributes["shape"] === undefined) return [input];
  const expected = numbersAttribute(call, "shape");
  const isRight =
    expected.length === input.shape.length &&
    expected.every((size, axis) => size < 0 || size === input.shape[axis]);
  if (isRight) return [input];
  const wanted = expected.map((size) => (size < 0 ? "?" : size)).join(",");
  const given = input.shape.join(",");
  throw invalid(
    `Shape of tensor ${call.node} [${given}] is not compatible with expected shape [${wanted}].`,
  );
}

function reshape(call: HostCall): Tensor[] {
  const input = inputAt(call, 0);
  const wanted = integersAt(call, 1);
  const unknown = wanted.indexOf(-1);
  if (wanted.some((size) => size < -1) || unknown !== wanted.lastIndexOf(-1)) {
    throw invalid(`Only one input size may be -1, and no other negative: [${wanted.join(",")}]`);
  }
  const known = elementCount(wanted.filter((size) => size !== -1));
  const count = input.data.length;
  const shape = [...wanted];
  if (unknown >= 0) {
    if (known === 0 || count % known !== 0) throw wrongReshape(count, wanted, "a multiple of ");
    shape[unknown] = count / known;
  } else if (known !== count) {
    throw wrongReshape(count, wanted, "");
  }
  return [reshaped(input, shape)];
}

function wrongReshape(count: number, wanted: readonly number[], multiple: string): Error {
  const needed = elementCount(wanted.filter((size) => size !== -1));
  const verb = multiple === "" ? "has" : "requires";
  return invalid(
    `Input to reshape is a tensor with ${count} values, but the requested shape ${verb} ${multiple}${needed}`,
  );
}

function expandDims(call: HostCall): Tensor[] {
  const input = inputAt(call, 0);
  const axis = axisOf(integerAt(call, 1), input.shape.length + 1, call.op);
  return [reshaped(input, [...input.shape.slice(0, axis), 1, ...input.shape.slice(axis)])];
}

function squeeze(call: HostCall): Tensor[] {
  const input = inputAt(call, 0);
  const named = [...numbersAttribute(call, "squeeze_dims"), ...numbersAttribute(call, "axis")];
  const axes = new Set(named.map((axis) => axisOf(axis, input.shape.length, call.op)));
  for (const axis of axes) {
    const size = input.shape[axis]!;
    if (size !== 1)
      throw invalid(`Can not squeeze dim[${axis}], expected a dimension of 1, got ${size}`);
  }
  const isKept = (size: number, axis: number): boolean =>
    axes.size > 0 ? !axes.has(axis) : size !== 1;
  return [reshaped(input, input.shape.filter(isKept))];
}
