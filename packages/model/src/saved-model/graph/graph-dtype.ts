// TensorFlow's element types by number (tensorflow/core/framework/types.proto). Those that hold data
// Winnow computes with have a Dtype; the others can be named in a message, no more.

import { WinnowError } from "@winnow/core";
import type { Dtype } from "@winnow/core";

const NAMES: ReadonlyMap<number, string> = new Map([
  [1, "float32"],
  [2, "float64"],
  [3, "int32"],
  [4, "uint8"],
  [5, "int16"],
  [6, "int8"],
  [7, "string"],
  [8, "complex64"],
  [9, "int64"],
  [10, "bool"],
  [14, "bfloat16"],
  [17, "uint16"],
  [18, "complex128"],
  [19, "half"],
  [20, "resource"],
  [21, "variant"],
  [22, "uint32"],
  [23, "uint64"],
]);

const COMPUTABLE: ReadonlySet<string> = new Set<Dtype>([
  "float32",
  "float64",
  "int8",
  "uint8",
  "int16",
  "uint16",
  "int32",
  "uint32",
  "int64",
  "uint64",
  "bool",
  "string",
]);

/** Element types of graph values; the last three never leave the graph. */
export type GraphDtype = Dtype | "resource" | "variant" | "invalid";

/** The name of a DataType number: `float32`, `resource`, or `DT_130` for one without a name. */
export function dtypeNameOf(type: number): string {
  return NAMES.get(type) ?? `DT_${type}`;
}

/** The element type a DataType number stands for; `invalid` for those nothing is computed with. */
export function graphDtypeOf(type: number): GraphDtype {
  const name = dtypeNameOf(type);
  if (name === "resource" || name === "variant") return name;
  return isDtype(name) ? name : "invalid";
}

/** Narrows a name to an element type that tensors can have. */
export function isDtype(name: string): name is Dtype {
  return COMPUTABLE.has(name);
}

/** The element type of data. @throws WinnowError UNIMPLEMENTED for one nothing is computed with. */
export function dataDtypeOf(type: number, what: string): Dtype {
  const name = dtypeNameOf(type);
  if (isDtype(name)) return name;
  throw new WinnowError("UNIMPLEMENTED", `Cannot compute with ${name} values of ${what}`);
}
