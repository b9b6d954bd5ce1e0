// Operations of one operand, as functions of each of its values, of scores as of the values of items.

import type { ScoreOperationName } from "@winnow/core";
import { numberOfDtype } from "../../../bundle/data-type.ts";
import { constantValue } from "../../graph-value.ts";
import type { GraphValue, NodeFunction, OperationNode } from "../../graph-value.ts";
import { ROUNDING } from "../../narrow-values.ts";

/** Operations of one operand, by name. */
const UNARY: ReadonlyMap<string, readonly NodeFunction[]> = new Map<
  string,
  readonly NodeFunction[]
>([
  ["Ceil", [{ op: "Ceil" }]],
  ["Elu", [{ op: "Elu" }]],
  ["Exp", [{ op: "Exp" }]],
  ["Expm1", [{ op: "Expm1" }]],
  ["Floor", [{ op: "Floor" }]],
  ["Log", [{ op: "Log" }]],
  ["Log1p", [{ op: "Log1p" }]],
  ["Relu", [{ op: "Maximum", operand: scalarValue(0) }]],
  [
    "Relu6",
    [
      { op: "Maximum", operand: scalarValue(0) },
      { op: "Minimum", operand: scalarValue(6) },
    ],
  ],
  ["Rint", [{ op: "Round" }]],
  ["Round", [{ op: "Round" }]],
  ["Selu", [{ op: "Selu" }]],
  ["Sigmoid", [{ op: "Sigmoid" }]],
  ["Softplus", [{ op: "Softplus" }]],
  ["Softsign", [{ op: "Softsign" }]],
  ["Sqrt", [{ op: "Sqrt" }]],
  ["Tanh", [{ op: "Tanh" }]],
]);
/** An operation of one operand, as functions of each value that keep the order of values. */
export function elementFunctionsOf(node: OperationNode): readonly NodeFunction[] | undefined {
  const rounding = roundingOf(node);
  return rounding === undefined ? (UNARY.get(node.op) ?? leakyRelu(node)) : [{ op: rounding }];
}

/** Functions that round to a narrower type. */
export type RoundingName = Extract<ScoreOperationName, "RoundToBfloat16" | "RoundToHalf">;

/** What rounds float32 values to those of the type in which a graph computes; `undefined` for any other operation. */
export function roundingOf({ op, attributes }: OperationNode): RoundingName | undefined {
  if (op !== ROUNDING) return undefined;
  return attributes.type("DstT") === numberOfDtype("half") ? "RoundToHalf" : "RoundToBfloat16";
}

function leakyRelu({ op, attributes }: OperationNode): readonly NodeFunction[] | undefined {
  if (op !== "LeakyRelu") return undefined;
  const alpha = attributes.float("alpha", 0.2);
  return alpha > 0 ? [{ op: "LeakyRelu", operand: scalarValue(alpha) }] : undefined;
}

/** A float32 number. */
export function scalarValue(value: number): GraphValue {
  return constantValue({ dtype: "float32", shape: [], data: Float32Array.of(value) });
}
