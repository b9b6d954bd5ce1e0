// Which matrices of items end up in a dense part: those with one row or column for each score of a
// top-k that became no search.

import { elementCount } from "@winnow/core";
import type { UncutTable } from "@winnow/core";
import { integerOf, producerOf } from "../graph-value.ts";
import type { GraphValue, LoweredNode, OperationNode } from "../graph-value.ts";
import type { StoredTensor } from "../../partitions/stored-table.ts";
import { ROUNDING } from "../narrow-values.ts";
import { nameOf } from "../tables/table-registry.ts";

const VALUES_MAX = 10_000;
/** Values of which scores are put together. */
const PARTS_MAX = 16;
/** Of the types that weights have. */
const VALUE_BYTES: ReadonlyMap<string, number> = new Map([
  ["float32", 4],
  ["float64", 8],
  ["int8", 1],
  ["uint8", 1],
]);

/**
 * The matrices of items that the top-k operations among these nodes rank. `obstacles` names the
 * operation that kept the scores of some of them from being searched.
 */
export function uncutTablesOf(
  nodes: readonly LoweredNode[],
  obstacles: ReadonlyMap<GraphValue, OperationNode>,
): UncutTable[] {
  const withLoops = nodes.flatMap((node): readonly LoweredNode[] => {
    return node.kind === "operation" ? [node, ...(node.loop?.nodes ?? [])] : [node];
  });
  return withLoops.flatMap((node) => {
    const scored = node.inputs[0];
    if (!ranksItems(node, nodes) || scored === undefined) return [];
    const { name, op } = obstacles.get(scored) ?? node;
    return matricesOf(scored).map(({ dtype, stored, shape }) => ({
      tensor: stored === undefined ? "" : nameOf(stored),
      bytes: elementCount(shape ?? []) * (VALUE_BYTES.get(dtype) ?? 0),
      ranking: node.name,
      // What a graph writes as a cast rounds where that matters.
      obstacle: { node: name, op: op === ROUNDING ? "Cast" : op },
    }));
  });
}

/**
 * The top-k operations among these nodes whose scores, `[queries, items]` for a known number of items, need a matrix of
 * items: what a router may rank itself, for a `k` and ids of a request, once a dense part has computed the scores.
 */
export function uncutRankingsOf(nodes: readonly LoweredNode[]): ReadonlySet<OperationNode> {
  const found = nodes.filter((node): node is OperationNode => {
    if (!ranksItems(node, nodes)) return false;
    const [scored, wanted] = node.inputs;
    const items = scored?.shape?.length === 2 ? scored.shape[1]! : 0;
    const k = (wanted && integerOf(wanted)) ?? 0;
    const isRankable = scored?.dtype === "float32" && k > 0 && k <= items;
    return isRankable && matricesOf(scored).length > 0;
  });
  return new Set(found);
}

/** Whether a node is a top-k that nobody would call a sort. */
function ranksItems(node: LoweredNode, nodes: readonly LoweredNode[]): node is OperationNode {
  return node.kind === "operation" && node.op === "TopKV2" && !sortsAll(node, nodes);
}

/**
 * Tables that are searched, and that an operation reads whole as well: what is added to the scores of a search may need
 * those of all items, such as their maximum.
 */
export function tablesReadWhole(
  nodes: readonly LoweredNode[],
  isSearched: (stored: StoredTensor) => boolean,
): UncutTable[] {
  return nodes.flatMap((node) => {
    if (node.kind !== "operation") return [];
    const { name, op } = node;
    return node.inputs.flatMap(({ stored, dtype, shape }) => {
      const bytes = elementCount(shape ?? []) * (VALUE_BYTES.get(dtype) ?? 0);
      if (stored === undefined || bytes === 0 || !isSearched(stored)) return [];
      return [{ tensor: nameOf(stored), bytes, ranking: undefined, obstacle: { node: name, op } }];
    });
  });
}

/**
 * Whether a top-k is a sort, as of the few candidates that a request brings: nobody wants all items in order, but the
 * first of them.
 */
function sortsAll({ inputs, outputs }: OperationNode, nodes: readonly LoweredNode[]): boolean {
  const isCut = nodes.some((node) => {
    const isSlice =
      node.kind === "operation" && (node.op === "StridedSlice" || node.op === "Slice");
    return isSlice && outputs.includes(node.inputs[0]!);
  });
  if (isCut) return false;
  const [scored, wanted] = inputs;
  const items = scored?.shape?.at(-1) ?? -1;
  const k = (wanted && integerOf(wanted)) ?? 0;
  return items > 0 && k >= items;
}

/**
 * The stored matrices behind scores, of which one side, or a slice of it, is as long as the scores of a query. Where the
 * graph does not tell how many these are, the largest one is named.
 */
function matricesOf(scored: GraphValue): GraphValue[] {
  const lengths = lengthsOf(scored).filter((items) => items > 1);
  const values = valuesBehind(scored);
  if (lengths.length === 0) {
    const stored = values.filter((value) => isStoredMatrix(value));
    const sizes = stored.map(({ shape }) => elementCount(shape ?? []));
    return stored.slice(sizes.indexOf(Math.max(...sizes))).slice(0, 1);
  }
  const ofItems = values.filter((value) => lengths.some((items) => isMatrixOf(value, items)));
  return [...new Set(ofItems.flatMap(wholesOf))].filter((value) => isStoredMatrix(value));
}

function isStoredMatrix({ stored, shape, dtype }: GraphValue): boolean {
  return stored !== undefined && VALUE_BYTES.has(dtype) && shape?.length === 2;
}

/** The matrices that one is a part of, or is put together of. */
function wholesOf(value: GraphValue): readonly GraphValue[] {
  const part = producerOf(value, "StridedSlice", "Slice", "GatherV2");
  if (part !== undefined) return part.inputs.slice(0, 1);
  return producerOf(value, "ConcatV2")?.inputs ?? [value];
}

/** How many scores a query has, and had before some of them were taken away or others put beside them. */
function lengthsOf(scored: GraphValue): readonly number[] {
  const parts = new Set([scored]);
  for (const part of parts) {
    const node = producerOf(part, "StridedSlice", "Slice", "ConcatV2", "PadV2", "Pad");
    const isOfScores = (input: GraphValue): boolean => input.shape?.length === part.shape?.length;
    for (const input of node?.inputs.filter(isOfScores) ?? []) {
      if (parts.size < PARTS_MAX) parts.add(input);
    }
  }
  return Array.from(parts, ({ shape }) => shape?.at(-1) ?? -1);
}

function isMatrixOf({ shape }: GraphValue, items: number): boolean {
  return shape?.length === 2 && shape.includes(items) && Math.min(...shape) > 1;
}

/** The values that a value depends on, and itself. */
function valuesBehind(value: GraphValue): GraphValue[] {
  const seen = new Set([value]);
  for (const { producer } of seen) {
    for (const input of producer?.inputs ?? []) if (seen.size < VALUES_MAX) seen.add(input);
  }
  return [...seen];
}
