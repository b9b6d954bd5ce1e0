// TensorFlow's element types by number, and the TensorProto field that holds the values of each: `float_val`
// for floats, `int_val` for every small integer, and so on.

import type { Dtype } from "@winnow/core";

/** How the values of a field are encoded, except strings. */
type ValueLayout = "varint" | "fixed";

/** A dtype on the wire. */
export interface WireType {
  /** `DataType` of types.proto. */
  readonly number: number;
  /** Number of the field in TensorProto that holds values of this type. */
  readonly field: number;
  readonly layout: ValueLayout | "strings";
  /** Bytes of one value in `tensor_content`; 0 for strings. */
  readonly bytes: number;
}

/** Every dtype Winnow computes with. */
export const WIRE_TYPES: Readonly<Record<Dtype, WireType>> = {
  float32: { number: 1, field: 5, layout: "fixed", bytes: 4 },
  float64: { number: 2, field: 6, layout: "fixed", bytes: 8 },
  int32: { number: 3, field: 7, layout: "varint", bytes: 4 },
  uint8: { number: 4, field: 7, layout: "varint", bytes: 1 },
  int16: { number: 5, field: 7, layout: "varint", bytes: 2 },
  int8: { number: 6, field: 7, layout: "varint", bytes: 1 },
  string: { number: 7, field: 8, layout: "strings", bytes: 0 },
  int64: { number: 9, field: 10, layout: "varint", bytes: 8 },
  bool: { number: 10, field: 11, layout: "varint", bytes: 1 },
  uint16: { number: 17, field: 7, layout: "varint", bytes: 2 },
  uint32: { number: 22, field: 16, layout: "varint", bytes: 4 },
  uint64: { number: 23, field: 17, layout: "varint", bytes: 8 },
};

/** Names of all types by number, as TensorFlow prints them. */
const NAMES: ReadonlyMap<number, string> = new Map([
  ...Object.entries(WIRE_TYPES).map(([dtype, { number }]) => [number, dtype] as const),
  [0, "of no type"],
  [8, "complex64"],
  [11, "qint8"],
  [12, "quint8"],
  [13, "qint32"],
  [14, "bfloat16"],
  [15, "qint16"],
  [16, "quint16"],
  [18, "complex128"],
  [19, "half"],
  [20, "resource"],
  [21, "variant"],
]);

/** The name of a type number, for messages. */
export function dataTypeName(number: number): string {
  return NAMES.get(number) ?? `of type ${number}`;
}
