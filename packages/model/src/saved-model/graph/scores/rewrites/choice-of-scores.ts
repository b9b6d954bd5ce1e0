// Scores of which a condition on the query chooses one kind: those of a tower for users that are known, popularity for all
// others. They are a sum in which one of both weights is 0, so one product of longer vectors:
//
//   where(known[:, None], s, popularity)   =   s · known + popularity · (1 - known)
//
// Queries that are not chosen may hold anything, such as the mean of no history (0 / 0): a product with 0 is 0 all the same.

import { numberOfDtype } from "../../../bundle/data-type.ts";
import { constantValue, producerOf } from "../../graph-value.ts";
import type { GraphValue } from "../../graph-value.ts";
import type { Lowering } from "../../lowered-nodes.ts";
import { applied } from "../values/added-operations.ts";

/** Such a choice as a sum; `undefined` for any other value. */
export function choiceAsSum(lowering: Lowering, value: GraphValue): GraphValue | undefined {
  const node = producerOf(value, "SelectV2");
  const [condition, yes, no] = node?.inputs ?? [];
  if (node === undefined || condition === undefined || no === undefined) return undefined;
  const isOfQueries = condition.dtype === "bool" && condition.shape?.join() === "-1,1";
  if (!isOfQueries || value.dtype !== "float32" || value.shape?.length !== 2) return undefined;
  const { name } = node;
  const types = [
    ["SrcT", { kind: "type", value: numberOfDtype("bool") }],
    ["DstT", { kind: "type", value: numberOfDtype("float32") }],
  ] as const;
  const known = applied(lowering, "Cast", { name, of: [condition], attributes: new Map(types) });
  const one = constantValue({ dtype: "float32", shape: [], data: Float32Array.of(1) });
  const unknown = applied(lowering, "Sub", { name, of: [one, known] });
  const terms = [
    applied(lowering, productFor(yes!), { name: `${name}/then`, of: [yes!, known] }),
    applied(lowering, productFor(no), { name: `${name}/else`, of: [no, unknown] }),
  ];
  return applied(lowering, "AddV2", { name, of: terms });
}

/** One value for each item is stored, and finite. */
function productFor({ shape }: GraphValue): "Mul" | "MulNoNan" {
  return shape?.length === 2 && shape[0] === -1 ? "MulNoNan" : "Mul";
}
