// Dtypes as TensorFlow writes them, in documents and errors.

import type { Dtype } from "@winnow/core";

/** TensorFlow's names of the dtypes. */
export const DTYPE_NAMES: Readonly<Record<Dtype, string>> = {
  float32: "DT_FLOAT",
  float64: "DT_DOUBLE",
  int8: "DT_INT8",
  uint8: "DT_UINT8",
  int16: "DT_INT16",
  uint16: "DT_UINT16",
  int32: "DT_INT32",
  uint32: "DT_UINT32",
  int64: "DT_INT64",
  uint64: "DT_UINT64",
  bool: "DT_BOOL",
  string: "DT_STRING",
};
