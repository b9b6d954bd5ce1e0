// Items that a graph computes of a stored matrix, where the product with a query says the same of the stored rows:
//
//   q · (A W)ᵀ        = (q Wᵀ) · A            a projection is done to the query
//   q · (A + b)ᵀ      = q · A + q · b         what all items have is added to the scores of a query
//   q · (A ∘ v)ᵀ      = (q ∘ v) · A           a factor of each dimension is done to the query
//   q · (A · s)ᵀ      = (q · A) · s           a factor of each item: rows that are multiplied as they are read
//
// So the stored rows are what is cut, and no other matrix is made of them.

import type { AttributeValue } from "../../definition/attributes.ts";
import { integersOf, producerOf } from "../../graph-value.ts";
import type { GraphValue, OperationNode } from "../../graph-value.ts";
import type { Lowering } from "../../lowered-nodes.ts";
import { isSet, itemsOf, matrixSidesOf, operandsOf, queryOf } from "../products/score-product.ts";
import type { ItemChange, ScoreProduct, Side } from "../products/score-product.ts";
import { factorOfItems } from "../steps/score-steps.ts";
import type { ScoreStep } from "../steps/score-steps.ts";
import { applied, reshaped } from "../values/added-operations.ts";
import { withoutRearrangement } from "../values/rearrangement.ts";
import type { ScalarReader } from "../values/scalar-value.ts";

const CHANGES_MAX = 4;

/** Recognises a product of queries and items that are computed of stored ones; `undefined` for any other value. */
export function computedProductOf(
  value: GraphValue,
  scalars: ScalarReader,
): ScoreProduct | undefined {
  const [queries, items] = value.dtype === "float32" ? (matrixSidesOf(value) ?? []) : [];
  const query = queries && queryOf(queries);
  if (query?.dtype !== "float32" || items === undefined) return undefined;
  const node = value.producer?.kind === "operation" ? value.producer : undefined;
  const changes: ItemChange[] = [];
  let side: Side = items;
  for (let step = 0; step < CHANGES_MAX; step += 1) {
    const found = changeOf(upright(side), scalars);
    if (found === undefined) return undefined;
    changes.push(found.change);
    side = found.below;
    const searched = itemsOf(side, scalars);
    if (searched !== undefined) return { query, ...searched, node, changes };
  }
  return undefined;
}

interface FoundChange {
  readonly change: ItemChange;
  readonly below: Side;
}

/** A side before it was transposed. */
function upright({ matrix, kept }: Side): Side {
  const plain = withoutRearrangement(matrix);
  const [turned, order] = producerOf(plain, "Transpose")?.inputs ?? [];
  if (turned === undefined || integersOf(order)?.join() !== "1,0") return { matrix: plain, kept };
  return { matrix: withoutRearrangement(turned), kept: kept === 0 ? 1 : 0 };
}

function changeOf(side: Side, scalars: ScalarReader): FoundChange | undefined {
  return projectionOf(side) ?? elementwiseOf(side, scalars);
}

function projectionOf({ matrix, kept }: Side): FoundChange | undefined {
  const node = producerOf(matrix, "MatMul");
  const [left, right] = operandsOf(node) ?? [];
  if (node === undefined || left === undefined || right === undefined) return undefined;
  const isLeftTurned = isSet(node, "transpose_a");
  const isRightTurned = isSet(node, "transpose_b");
  if (kept === 0) {
    const below: Side = { matrix: left, kept: isLeftTurned ? 1 : 0 };
    return { change: { kind: "projected", by: right, isTurned: !isRightTurned }, below };
  }
  const below: Side = { matrix: right, kept: isRightTurned ? 0 : 1 };
  return { change: { kind: "projected", by: left, isTurned: isLeftTurned }, below };
}

/** Names of the operations of two matrices, element by element, that may be done to scores or queries. */
const ELEMENTWISE: readonly string[] = ["Add", "AddV2", "BiasAdd", "Mul", "RealDiv"];

function elementwiseOf({ matrix, kept }: Side, scalars: ScalarReader): FoundChange | undefined {
  const node = producerOf(matrix, ...ELEMENTWISE);
  const operands = operandsOf(node);
  const at = operands?.findIndex(({ shape }) => shape?.join() === matrix.shape?.join()) ?? -1;
  const sizes = sizesOf(matrix, kept);
  if (node === undefined || operands === undefined || sizes === undefined || at < 0)
    return undefined;
  if (node.op === "RealDiv" && at > 0) return undefined;
  const change = changeBy(node, operands[1 - at]!, { ...sizes, kept, scalars });
  return change && { change, below: { matrix: operands[at]!, kept } };
}

/** How many items a matrix has and how many values each; `undefined` where the graph does not tell. */
function sizesOf({ shape }: GraphValue, kept: 0 | 1): Pick<Sizes, "items" | "dim"> | undefined {
  if (shape?.length !== 2 || shape.includes(-1)) return undefined;
  return { items: shape[kept]!, dim: shape[1 - kept]! };
}

interface Sizes {
  readonly items: number;
  readonly dim: number;
  readonly kept: 0 | 1;
  readonly scalars: ScalarReader;
}

function changeBy(
  { op }: OperationNode,
  by: GraphValue,
  { items, dim, kept, scalars }: Sizes,
): ItemChange | undefined {
  const { dtype, shape = [-1, -1, -1] } = by;
  if (dtype !== "float32" || shape.length > 2) return undefined;
  const axes = [1, 1, ...shape].slice(-2);
  const sizes = `${axes[kept]},${axes[1 - kept]}`;
  const isDivisor = op === "RealDiv";
  if (op !== "Mul" && !isDivisor) {
    return sizes === `1,${dim}` ? { kind: "moved", by, dim } : undefined;
  }
  if (sizes === `1,${dim}`) return { kind: "weighted", by, dim, isDivisor };
  if (sizes === "1,1") return { kind: "weighted", by, dim: 1, isDivisor };
  if (sizes !== `${items},1`) return undefined;
  const factor = factorOfItems(by, items, { isDivisor, scalars });
  return factor && { kind: "multiplied", factor, by };
}

/** A product of stored items, and the steps that its changes become, first step first. */
export function withoutChanges(
  lowering: Lowering,
  { changes = [], ...product }: ScoreProduct,
): { readonly product: ScoreProduct; readonly steps: readonly ScoreStep[] } {
  const steps: ScoreStep[] = [];
  let { query } = product;
  const name = product.node?.name ?? "scores";
  for (const change of changes) {
    if (change.kind === "projected") {
      query = productWith(lowering, name, { query, ...change });
    } else if (change.kind === "weighted") {
      const by = reshaped(lowering, change.by, { name, sizes: [1, change.dim] });
      query = applied(lowering, change.isDivisor ? "RealDiv" : "Mul", { name, of: [query, by] });
    } else if (change.kind === "moved") {
      const by = reshaped(lowering, change.by, { name, sizes: [change.dim, 1] });
      const operand = productWith(lowering, name, { query, by, isTurned: false });
      const node = operand.producer as OperationNode;
      const functions = [{ op: "Add", operand }] as const;
      steps.unshift({ kind: "added", operation: { node, position: 0 }, functions });
    } else {
      const node = change.by.producer?.kind === "operation" ? change.by.producer : product.node!;
      steps.unshift({
        kind: "itemFactor",
        operation: { node, position: 0 },
        factor: change.factor,
      });
    }
  }
  return { product: { ...product, query }, steps };
}

function productWith(
  lowering: Lowering,
  name: string,
  {
    query,
    by,
    isTurned,
  }: { readonly query: GraphValue; readonly by: GraphValue; readonly isTurned: boolean },
): GraphValue {
  const flag: AttributeValue = { kind: "bool", value: isTurned };
  const attributes = new Map([["transpose_b", flag]]);
  return applied(lowering, "MatMul", { name, of: [query, by], attributes });
}
