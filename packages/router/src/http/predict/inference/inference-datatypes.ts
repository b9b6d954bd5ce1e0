// The Open Inference Protocol's names of element types. FP16 and BF16 are missing, because no input or output
// of a program has such values.

import type { Dtype } from "@winnow/core";

/** The protocol's name of each dtype. */
export const DATATYPES: Readonly<Record<Dtype, string>> = {
  float32: "FP32",
  float64: "FP64",
  int8: "INT8",
  uint8: "UINT8",
  int16: "INT16",
  uint16: "UINT16",
  int32: "INT32",
  uint32: "UINT32",
  int64: "INT64",
  uint64: "UINT64",
  bool: "BOOL",
  string: "BYTES",
};
