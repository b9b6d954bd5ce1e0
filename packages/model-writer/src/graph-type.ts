// Element types as the graph names them: those of tensors, and handles of variables and tables.

import type { Dtype } from "@winnow/core";
import { numberOfDtype } from "@winnow/model";

/** A dtype, or a handle of a variable or table. */
export type GraphType = Dtype | "resource";

const RESOURCE = 20;

/** The `DataType` number. */
export function numberOfType(type: GraphType): number {
  return type === "resource" ? RESOURCE : numberOfDtype(type);
}
