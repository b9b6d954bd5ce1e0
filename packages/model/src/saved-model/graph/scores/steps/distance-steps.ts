// Squared distances (../products/score-distance.ts) as what a search ranks: the product of a query and a row, and the steps behind it.

import { Attributes } from "../../definition/attributes.ts";
import type { AttributeValue } from "../../definition/attributes.ts";
import { constantValue } from "../../graph-value.ts";
import type { GraphValue, NodeFunction, OperationNode } from "../../graph-value.ts";
import type { Lowering } from "../../lowered-nodes.ts";
import type { ScoreProduct } from "../products/score-product.ts";
import type { ScoreStep } from "./score-steps.ts";

/**
 * What makes squared distances of products: 2 q·c, - |c|², - |q|², at most 0, and the opposite. `isBounded` is false
 * where nothing may stand between the products and a bias behind the distances.
 */
export function distanceSteps(
  lowering: Lowering,
  product: ScoreProduct,
  isBounded: boolean,
): readonly ScoreStep[] {
  const { query, candidates, itemAxis, node } = product;
  const made = (op: string, ...others: readonly GraphValue[]): OperationNode => {
    const { name = "distance", outputs = [] } = node ?? {};
    const inputs = [query, ...others];
    return { kind: "operation", op, name, attributes: attributesOf(name), inputs, outputs };
  };
  const items = candidates.shape[itemAxis];
  const squares = { candidates, itemAxis };
  const added: NodeFunction = { op: "Sub", operand: squaresOfQueries(lowering, made) };
  const bound: NodeFunction = { op: "Minimum", operand: scalarValue(0) };
  const [double, opposite] = [scalarValue(2), scalarValue(-1)];
  const twice = { node: made("Mul", double), position: 0 };
  const turned = { node: made("Mul", opposite), position: 0 };
  const within: readonly ScoreStep[] = isBounded
    ? [{ kind: "function", operation: turned, functions: [bound] }]
    : [];
  return [
    { kind: "scaled", operation: twice, functions: [{ op: "Mul", operand: double }], factor: 2 },
    { kind: "bias", operation: twice, bias: { stored: undefined, squares, items, factor: -1 } },
    { kind: "added", operation: turned, functions: [added] },
    ...within,
    {
      kind: "scaled",
      operation: turned,
      functions: [{ op: "Mul", operand: opposite }],
      factor: -1,
    },
  ];
}

/** |q|² as `[queries, 1]`. */
function squaresOfQueries(
  lowering: Lowering,
  made: (op: string, ...others: readonly GraphValue[]) => OperationNode,
): GraphValue {
  const outputDtypes = ["float32"] as const;
  const { attributes, name, inputs } = made("Square");
  const squares = lowering.operation({ op: "Square", name, attributes, outputDtypes }, inputs);
  const axes = constantValue({ dtype: "int32", shape: [1], data: Int32Array.of(1) });
  const sum = { op: "Sum", name, attributes, outputDtypes };
  return lowering.operation(sum, [squares.outputs[0]!, axes]).outputs[0]!;
}

function scalarValue(value: number): GraphValue {
  return constantValue({ dtype: "float32", shape: [], data: Float32Array.of(value) });
}

function attributesOf(name: string): Attributes {
  const values = new Map<string, AttributeValue>([
    ["T", { kind: "type", value: 1 }],
    ["Tidx", { kind: "type", value: 3 }],
    ["keep_dims", { kind: "bool", value: true }],
  ]);
  return new Attributes(name, values);
}
