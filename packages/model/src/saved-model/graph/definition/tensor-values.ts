// The keys that an expression compares its key with (key-expression.ts), as one tensor.

import { StringColumn, tensor } from "@winnow/core";
import type { Tensor } from "@winnow/core";

/** The distinct values of some scalars as one `[values]` tensor; scalars of other types are left out. */
export function distinctValues(scalars: readonly Tensor[], dtype: "string" | "int64"): Tensor {
  if (dtype === "int64") {
    const integers = scalars.flatMap((scalar) =>
      scalar.dtype === "int64" ? [scalar.data[0]!] : [],
    );
    const distinct = BigInt64Array.from(new Set(integers));
    return tensor("int64", [distinct.length], distinct);
  }
  const strings = new Map<string, Uint8Array>();
  for (const scalar of scalars) {
    if (scalar.dtype !== "string") continue;
    const bytes = scalar.data.at(0);
    strings.set(Buffer.from(bytes).toString("hex"), bytes);
  }
  return tensor("string", [strings.size], StringColumn.fromBytes([...strings.values()]));
}
