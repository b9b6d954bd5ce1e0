// Operations on sparse features that take rows of a stored matrix by themselves, as what they are: a lookup in a table,
// and a sum of what was found. So no router holds the matrix.
//
//   sparse [b, n] · weights [n, d]          segment sum over rows of (weights[column] · value)
//   SparseSegmentMean(table, ids, segments) SparseSegmentMean(table[ids], 0, 1, 2, …, segments)

import { Attributes } from "../definition/attributes.ts";
import type { AttributeValue } from "../definition/attributes.ts";
import { constantValue } from "../graph-value.ts";
import type { GraphDtype } from "../definition/graph-dtype.ts";
import type { GraphValue } from "../graph-value.ts";
import type { Visit } from "../lowered-nodes.ts";

/** Visits an operation that stands in the place of another one. */
type VisitPlain = (visit: Visit) => readonly GraphValue[];

/** An operation, the part of the replaced node's name that stands for it, and its inputs. */
interface Part {
  readonly op: string;
  readonly part: string;
  readonly of: readonly GraphValue[];
  readonly dtype: GraphDtype;
  readonly attributes?: Attributes;
}

function partsOf({ node, walk }: Visit, visitPlain: VisitPlain): (part: Part) => GraphValue {
  return ({ op, part, of, dtype, attributes }) => {
    const name = `${node.name}/${part}`;
    const own = attributes ?? new Attributes(name, new Map<string, AttributeValue>());
    const plain = { op, name, attributes: own, outputDtypes: [dtype] };
    return visitPlain({ node: plain, inputs: of, walk })[0]!;
  };
}

/** Handles SparseTensorDenseMatMul; `visitPlain` visits the operations that it becomes. */
export function visitSparseProduct(
  visit: Visit,
  visitPlain: VisitPlain,
): readonly GraphValue[] | undefined {
  const { attributes } = visit.node;
  const [indices, values, size, dense] = visit.inputs;
  const isTurned = attributes.flag("adjoint_a") || attributes.flag("adjoint_b");
  if (indices === undefined || values === undefined || size === undefined) return undefined;
  if (dense?.shape?.length !== 2 || dense.dtype !== "float32" || isTurned) return undefined;
  const apply = partsOf(visit, visitPlain);
  const ofEntries = (axis: 0 | 1, part: string): GraphValue =>
    apply({ op: "GatherV2", part, of: [indices, integer(axis), integer(1)], dtype: "int64" });
  const [rows, columns] = [ofEntries(0, "rows"), ofEntries(1, "columns")];
  const taken = rowsOf(apply, dense, columns);
  const factors = apply({
    op: "ExpandDims",
    part: "values",
    of: [values, integer(1)],
    dtype: "float32",
  });
  const products = apply({ op: "Mul", part: "products", of: [taken, factors], dtype: "float32" });
  const first = [size, integer(0), integer(0)];
  const count = apply({ op: "GatherV2", part: "count", of: first, dtype: "int64" });
  const of = [products, rows, count];
  return [apply({ op: "UnsortedSegmentSum", part: "sum", of, dtype: "float32" })];
}

/** Handles SparseSegmentSum, SparseSegmentMean and SparseSegmentSqrtN of the rows of a stored matrix. */
export function visitSparseSegments(
  visit: Visit,
  visitPlain: VisitPlain,
): readonly GraphValue[] | undefined {
  const { node, inputs } = visit;
  const [data, indices, segments] = inputs;
  const isStored = data?.stored !== undefined && data.shape?.length === 2;
  if (!isStored || data.dtype !== "float32") return undefined;
  if (indices === undefined || indices.constant !== undefined || segments === undefined)
    return undefined;
  const apply = partsOf(visit, visitPlain);
  const taken = rowsOf(apply, data, indices);
  const count = apply({ op: "Size", part: "count", of: [indices], dtype: "int32" });
  const bounds = [integer(0), count, integer(1)];
  const places = apply({ op: "Range", part: "places", of: bounds, dtype: "int32" });
  const { op, attributes } = node;
  const of = [taken, places, segments];
  return [apply({ op, part: "sum", of, dtype: "float32", attributes })];
}

function rowsOf(
  apply: (part: Part) => GraphValue,
  matrix: GraphValue,
  rows: GraphValue,
): GraphValue {
  const of = [matrix, rows, integer(0)];
  return apply({ op: "GatherV2", part: "rows_taken", of, dtype: "float32" });
}

function integer(value: number): GraphValue {
  return constantValue({ dtype: "int32", shape: [], data: Int32Array.of(value) });
}
