// One call of a host operation: its inputs and attributes, and how operations read them. Sizes,
// axes and indices are int32 or int64 tensors in graphs and numbers here.

import { isDtype } from "../../tensor/dtype.ts";
import type { Dtype } from "../../tensor/dtype.ts";
import { WinnowError } from "../../errors/errors.ts";
import type { Tensor, TensorOf } from "../../tensor/tensor.ts";
import { invalid } from "../node-error.ts";
import type { Attribute } from "../program.ts";
import type { VocabularyIndex } from "../vocabulary-index.ts";

/** The inputs and attributes of an operation. */
export interface HostCall {
  readonly op: string;
  readonly node: string;
  readonly inputs: readonly Tensor[];
  readonly attributes: Readonly<Record<string, Attribute>>;
  /** Number of outputs the step names. */
  readonly outputs: number;
  readonly vocabulary: VocabularyIndex | undefined;
}

/** A pure function of a call. */
export type HostOperation = (call: HostCall) => readonly Tensor[];

/** Operations by TensorFlow's name. */
export type HostOperations = Readonly<Record<string, HostOperation>>;

/** An input. @throws WinnowError INVALID_ARGUMENT where the graph gives fewer */
export function inputAt(call: HostCall, position: number): Tensor {
  const tensor = call.inputs[position];
  if (tensor === undefined) throw invalid(`${call.op} has no input ${position}`);
  return tensor;
}

/** A string input. @throws WinnowError INVALID_ARGUMENT */
export function stringsAt(call: HostCall, position: number): TensorOf<"string"> {
  const tensor = inputAt(call, position);
  if (tensor.dtype !== "string") throw wrongDtype(call, tensor);
  return tensor;
}

/** A numeric or bool input. @throws WinnowError INVALID_ARGUMENT */
export function numericAt(call: HostCall, position: number): Exclude<Tensor, TensorOf<"string">> {
  const tensor = inputAt(call, position);
  if (tensor.dtype === "string") throw wrongDtype(call, tensor);
  return tensor;
}

/** An int32 or int64 input as numbers. @throws WinnowError INVALID_ARGUMENT beyond ±2⁵³ */
export function integersAt(call: HostCall, position: number): number[] {
  const { data } = numericAt(call, position);
  const numbers = numbersOf(data);
  const wrong = numbers.findIndex((number) => !Number.isSafeInteger(number));
  if (wrong >= 0) throw invalid(`${call.op} cannot use ${data[wrong]}`);
  return numbers;
}

/** Values as numbers, those beyond ±2⁵³ rounded. `Array.from` takes ten times as long for many. */
export function numbersOf(values: ArrayLike<number | bigint>): number[] {
  const numbers: number[] = [];
  for (let at = 0; at < values.length; at += 1) numbers.push(Number(values[at]));
  return numbers;
}

/** The one value of an int32 or int64 input. @throws WinnowError INVALID_ARGUMENT */
export function integerAt(call: HostCall, position: number): number {
  const [value, ...others] = integersAt(call, position);
  if (value === undefined || others.length > 0) {
    throw invalid(`${call.op} needs a scalar as input ${position}`);
  }
  return value;
}

/** An input of one value, of any dtype. @throws WinnowError INVALID_ARGUMENT */
export function scalarAt(call: HostCall, position: number): Tensor {
  const tensor = inputAt(call, position);
  if (tensor.data.length === 1) return { ...tensor, shape: [] };
  throw invalid(`${call.op} needs a scalar as input ${position}, not [${tensor.shape.join(",")}]`);
}

/** The bytes of a scalar string input. @throws WinnowError INVALID_ARGUMENT */
export function bytesAt(call: HostCall, position: number): Uint8Array {
  const { data, shape } = stringsAt(call, position);
  if (data.length !== 1) throw invalid(`${call.op} needs a scalar, not [${shape.join(",")}]`);
  return data.at(0);
}

/** The error for an input of a dtype that an operation does not accept. */
export function wrongDtype(call: HostCall, tensor: Tensor): WinnowError {
  return new WinnowError("UNIMPLEMENTED", `${call.op} of ${tensor.dtype} (node ${call.node})`);
}

/** A number attribute. */
export function numberAttribute(call: HostCall, name: string, fallback: number): number {
  const value = call.attributes[name];
  return typeof value === "number" ? value : fallback;
}

/** A text attribute. */
export function textAttribute(call: HostCall, name: string, fallback: string): string {
  const value = call.attributes[name];
  return typeof value === "string" ? value : fallback;
}

/** A boolean attribute. */
export function booleanAttribute(call: HostCall, name: string, fallback: boolean): boolean {
  const value = call.attributes[name];
  return typeof value === "boolean" ? value : fallback;
}

/** A list of numbers; a missing list is empty. */
export function numbersAttribute(call: HostCall, name: string): readonly number[] {
  const value = call.attributes[name];
  return Array.isArray(value) ? value.map(Number) : [];
}

/** A list of texts; a missing list is empty. */
export function textsAttribute(call: HostCall, name: string): readonly string[] {
  const value = call.attributes[name];
  return Array.isArray(value) ? value.map(String) : [];
}

/** A dtype attribute: `int64` or `DT_INT64`. */
export function dtypeAttribute(call: HostCall, name: string, fallback: Dtype): Dtype {
  return dtypeOfName(textAttribute(call, name, fallback));
}

const OTHER_NAMES: Readonly<Record<string, Dtype>> = { float: "float32", double: "float64" };

/** A dtype from its name in a graph. @throws WinnowError UNIMPLEMENTED */
export function dtypeOfName(text: string): Dtype {
  const bare = text.replace(/^DT_/, "").toLowerCase();
  if (Object.hasOwn(OTHER_NAMES, bare)) return OTHER_NAMES[bare]!;
  if (isDtype(bare)) return bare;
  throw new WinnowError("UNIMPLEMENTED", `Element type ${text}`);
}

/**
 * An axis in [0, rank); a negative one counts from the end.
 * @throws WinnowError INVALID_ARGUMENT
 */
export function axisOf(axis: number, rank: number, op: string): number {
  if (!Number.isInteger(axis) || axis < -rank || axis >= rank) {
    throw invalid(`${op}: axis ${axis} is not in [${-rank}, ${rank})`);
  }
  return axis < 0 ? axis + rank : axis;
}
