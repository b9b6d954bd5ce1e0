// Tensors as messages of protobufjs, value by value: TensorProto's `*_val` fields, as TensorFlow Serving's clients
// fill and read them.

import { type Dtype, StringColumn, type Tensor, WinnowError, excerpt, tensor } from "@winnow/core";
import { type ScalarValue, scalarAt, tensorOfScalars } from "../oracle/scalars.ts";

/** A TensorProto as proto-loader decodes it. */
export type TensorMessage = Readonly<Record<string, unknown>> & {
  readonly dtype: string;
  readonly tensor_shape: { readonly dim: readonly { readonly size: string | number }[] } | null;
};

/** A dtype's name in TensorFlow, and the field that holds its values. */
const KINDS: Readonly<Record<Dtype, readonly [name: string, field: string]>> = {
  float32: ["DT_FLOAT", "float_val"],
  float64: ["DT_DOUBLE", "double_val"],
  int8: ["DT_INT8", "int_val"],
  int16: ["DT_INT16", "int_val"],
  int32: ["DT_INT32", "int_val"],
  uint8: ["DT_UINT8", "int_val"],
  uint16: ["DT_UINT16", "int_val"],
  uint32: ["DT_UINT32", "uint32_val"],
  uint64: ["DT_UINT64", "uint64_val"],
  int64: ["DT_INT64", "int64_val"],
  bool: ["DT_BOOL", "bool_val"],
  string: ["DT_STRING", "string_val"],
};

/** The message of a tensor. */
export function messageOfTensor(from: Tensor): TensorMessage {
  const [dtype, field] = KINDS[from.dtype];
  const values = Array.from({ length: from.data.length }, (_, at) =>
    from.dtype === "string"
      ? Buffer.from(from.data.at(at))
      : wireValue(scalarAt(from, at), from.dtype),
  );
  const dim = from.shape.map((size) => ({ size: String(size) }));
  return { dtype, tensor_shape: { dim }, [field]: values };
}

/** Integers of 64 bits as text, as proto-loader expects them. */
function wireValue(value: ScalarValue, dtype: Dtype): unknown {
  if (dtype === "bool") return value !== 0;
  return typeof value === "bigint" ? String(value) : value;
}

/** The tensor of a message. @throws WinnowError DATA_LOSS if it is none */
export function tensorOfMessage(message: TensorMessage): Tensor {
  const found = Object.entries(KINDS).find(([, [name]]) => name === message.dtype);
  const shape = (message.tensor_shape?.dim ?? []).map(({ size }) => Number(size));
  const count = shape.reduce((product, size) => product * size, 1);
  const values = found === undefined ? undefined : message[found[1][1]];
  if (found === undefined || !Array.isArray(values) || values.length !== count) {
    const told = `${excerpt(message.dtype)} [${shape.join(",")}]`;
    throw new WinnowError("DATA_LOSS", `An output is not a complete tensor: ${told}`);
  }
  const dtype = found[0] as Dtype;
  if (dtype === "string") {
    return tensor("string", shape, StringColumn.fromBytes(values as readonly Buffer[]));
  }
  const isBig = dtype === "int64" || dtype === "uint64";
  return tensorOfScalars(
    dtype,
    shape,
    (values as readonly (string | number | boolean)[]).map((value) =>
      isBig ? BigInt(value) : Number(value),
    ),
  );
}
