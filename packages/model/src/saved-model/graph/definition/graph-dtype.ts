// The element types of values in a graph: those of tensors, and handles that never leave the graph.

import { WinnowError, isDtype } from "@winnow/core";
import type { Dtype } from "@winnow/core";
import { dtypeOfNumber, isNarrowFloat, typeName } from "../../bundle/data-type.ts";
import type { NarrowFloat } from "../../bundle/data-type.ts";

/** Element types of graph values; those that are no `Dtype` never leave the graph. */
export type GraphDtype = Dtype | NarrowFloat | "resource" | "variant" | "invalid";

/** The element type of a DataType number; `invalid` for types that Winnow does not compute with. */
export function graphDtypeOf(type: number): GraphDtype {
  const name = typeName(type);
  if (name === "resource" || name === "variant" || isNarrowFloat(name)) return name;
  return isDtype(name) ? name : "invalid";
}

/** The element type of data. @throws WinnowError UNIMPLEMENTED for types not computed with */
export function dataDtypeOf(type: number, what: string): Dtype {
  const dtype = dtypeOfNumber(type);
  if (dtype !== undefined) return dtype;
  throw new WinnowError("UNIMPLEMENTED", `Cannot compute with ${typeName(type)} values of ${what}`);
}
