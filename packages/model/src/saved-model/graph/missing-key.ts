// What an expression of a key gives when the vocabulary lacks the key and no comparison knows it:
// symbolic evaluation over constants, "a hash of the key within a range", and "cannot say".

import type { MissingKey, Tensor } from "@winnow/core";
import { fold } from "./constant-folding.ts";
import type { GraphValue, OperationNode } from "./graph-value.ts";
import { integerOf } from "./graph-value.ts";
import type { Expression } from "./key-expression.ts";

/** The outcome for a missing key, and the constants that keys are compared with on the way. */
export interface MissingKeyOutcome {
  readonly outcome: MissingKey;
  readonly compared: readonly Tensor[];
}

/** What is known of a value when nothing is known of the key. */
type Symbol =
  | { readonly kind: "constant"; readonly tensor: Tensor }
  | { readonly kind: "key" }
  | { readonly kind: "hash"; readonly first: number; readonly buckets: number }
  | { readonly kind: "unknown" };

const UNKNOWN: Symbol = { kind: "unknown" };
const FALSE: Tensor = { dtype: "bool", shape: [], data: Uint8Array.of(0) };
const TRUE: Tensor = { dtype: "bool", shape: [], data: Uint8Array.of(1) };

/** Evaluates for a missing key; `undefined` if the result is no row and no hash over rows. */
export function outcomeForMissingKey(
  { nodes, indices, key }: Expression,
  rows: number,
): MissingKeyOutcome | undefined {
  const symbols = new Map<GraphValue, Symbol>([[key, { kind: "key" }]]);
  const compared: Tensor[] = [];
  const symbolOf = (value: GraphValue): Symbol =>
    symbols.get(value) ??
    (value.constant === undefined ? UNKNOWN : { kind: "constant", tensor: value.constant });
  for (const node of nodes) {
    const result = symbolically(node, node.inputs.map(symbolOf), compared);
    if (node.outputs[0] !== undefined) symbols.set(node.outputs[0], result);
  }
  const outcome = outcomeOf(symbolOf(indices), rows);
  return outcome === undefined ? undefined : { outcome, compared };
}

function outcomeOf(symbol: Symbol, rows: number): MissingKey | undefined {
  if (symbol.kind === "hash") {
    const { first, buckets } = symbol;
    if (first < 0 || first + buckets > rows) return undefined;
    return buckets === 1 ? { kind: "row", row: first } : { kind: "hash", firstRow: first, buckets };
  }
  if (symbol.kind !== "constant") return undefined;
  const { tensor } = symbol;
  if (tensor.dtype !== "int64" && tensor.dtype !== "int32") return undefined;
  const row = Number(tensor.data[0]);
  return row >= 0 && row < rows ? { kind: "row", row } : { kind: "refuse" };
}

function symbolically(node: OperationNode, inputs: readonly Symbol[], compared: Tensor[]): Symbol {
  const [first, second, third] = inputs;
  if (node.op === "LookupTableFindV2") return third ?? UNKNOWN;
  if (node.op === "SelectV2" || node.op === "Select") return selected(inputs);
  if (first?.kind === "key" || second?.kind === "key") return ofKey(node, inputs, compared);
  if (first?.kind === "hash" || second?.kind === "hash") return ofHash(node, inputs);
  const tensors = inputs.flatMap((input) => (input.kind === "constant" ? [input.tensor] : []));
  if (tensors.length < inputs.length) return UNKNOWN;
  const tensor = fold({ ...node, outputCount: 1 }, tensors)?.[0];
  return tensor === undefined ? UNKNOWN : { kind: "constant", tensor };
}

function selected([condition, whenTrue, whenFalse]: readonly Symbol[]): Symbol {
  if (condition?.kind !== "constant" || condition.tensor.dtype !== "bool") return UNKNOWN;
  return (condition.tensor.data[0] === 1 ? whenTrue : whenFalse) ?? UNKNOWN;
}

/** Operations on the key itself: comparisons with fixed keys, and hashes. */
function ofKey(node: OperationNode, inputs: readonly Symbol[], compared: Tensor[]): Symbol {
  const other = inputs.find(({ kind }) => kind === "constant");
  const constant = other?.kind === "constant" ? other.tensor : undefined;
  if ((node.op === "Equal" || node.op === "NotEqual") && constant !== undefined) {
    compared.push(constant);
    return { kind: "constant", tensor: node.op === "Equal" ? FALSE : TRUE };
  }
  if (node.op === "StringToHashBucketFast") {
    return { kind: "hash", first: 0, buckets: node.attributes.int("num_buckets") };
  }
  const buckets = integerOf(node.inputs[1]);
  if (node.op === "FloorMod" && inputs[0]?.kind === "key" && buckets !== undefined && buckets > 0) {
    return { kind: "hash", first: 0, buckets };
  }
  return UNKNOWN;
}

/** Operations on a hash: moving its range, and comparisons that the range decides. */
function ofHash(node: OperationNode, [left, right]: readonly Symbol[]): Symbol {
  if (node.op === "Cast" && left?.kind === "hash") return left;
  const hash = left?.kind === "hash" ? left : right;
  const other = left?.kind === "hash" ? right : left;
  if (hash?.kind !== "hash" || other?.kind !== "constant") return UNKNOWN;
  const by = Number(other.tensor.dtype === "string" ? Number.NaN : other.tensor.data[0]);
  if (!Number.isSafeInteger(by)) return UNKNOWN;
  if (node.op === "AddV2" || node.op === "Add") return { ...hash, first: hash.first + by };
  if (node.op === "Sub" && hash === left) return { ...hash, first: hash.first - by };
  const range = { low: hash.first, high: hash.first + hash.buckets - 1 };
  const isTrue = decided(hash === left ? node.op : mirrored(node.op), range, by);
  if (isTrue === undefined) return UNKNOWN;
  return { kind: "constant", tensor: isTrue ? TRUE : FALSE };
}

function mirrored(op: string): string {
  const pairs: Readonly<Record<string, string>> = {
    Less: "Greater",
    LessEqual: "GreaterEqual",
    Greater: "Less",
    GreaterEqual: "LessEqual",
  };
  return pairs[op] ?? op;
}

/** Whether every number of a range compares alike with `by`. */
function decided(
  op: string,
  { low, high }: { readonly low: number; readonly high: number },
  by: number,
): boolean | undefined {
  switch (op) {
    case "Less":
      return high < by ? true : low >= by ? false : undefined;
    case "LessEqual":
      return high <= by ? true : low > by ? false : undefined;
    case "Greater":
      return low > by ? true : high <= by ? false : undefined;
    case "GreaterEqual":
      return low >= by ? true : high < by ? false : undefined;
    case "Equal":
      return by < low || by > high ? false : undefined;
    case "NotEqual":
      return by < low || by > high ? true : undefined;
    default:
      return undefined;
  }
}
