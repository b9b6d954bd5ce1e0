// The value of a key's expression where the vocabulary lacks the key and no comparison matches it:
// symbolic evaluation over constants, "a hash of the key within a range", and "cannot say".

import type { MissingKey, Tensor } from "@winnow/core";
import { fold } from "../constant-folding.ts";
import type { GraphValue, OperationNode } from "../graph-value.ts";
import { integerOf } from "../graph-value.ts";

/** A function of one key as nodes in order. */
export interface Expression {
  readonly nodes: readonly OperationNode[];
  readonly indices: GraphValue;
  readonly key: GraphValue;
}

/** The outcome for a missing key, and the constants that keys are compared with on the way. */
export interface MissingKeyOutcome {
  readonly outcome: MissingKey;
  readonly compared: readonly Tensor[];
}

interface Hash {
  readonly kind: "hash";
  readonly first: number;
  readonly buckets: number;
}

/** What is known of a value when nothing is known of the key. */
type Symbol =
  | { readonly kind: "constant"; readonly tensor: Tensor }
  | { readonly kind: "key" }
  | Hash
  | { readonly kind: "unknown" };

interface SymbolicCall {
  readonly node: OperationNode;
  readonly inputs: readonly Symbol[];
  /** Collects the constants that the key is compared with. */
  readonly compared: Tensor[];
}

const UNKNOWN: Symbol = { kind: "unknown" };

/**
 * Evaluates for a missing key; `undefined` if the result is neither a constant nor a hash over
 * rows.
 */
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
    const result = evaluated({ node, inputs: node.inputs.map(symbolOf), compared });
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

function evaluated(call: SymbolicCall): Symbol {
  const { node, inputs } = call;
  switch (node.op) {
    case "LookupTableFindV2":
      return inputs[2] ?? UNKNOWN;
    case "SelectV2":
    case "Select":
      return selected(inputs);
  }
  if (inputs.some(({ kind }) => kind === "key")) return ofKey(call);
  if (inputs.some(({ kind }) => kind === "hash")) return ofHash(call);
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
function ofKey({ node, inputs, compared }: SymbolicCall): Symbol {
  switch (node.op) {
    case "Equal":
    case "NotEqual": {
      const other = inputs.find(({ kind }) => kind === "constant");
      if (other?.kind !== "constant") return UNKNOWN;
      compared.push(other.tensor);
      return truth(node.op === "NotEqual");
    }
    case "StringToHashBucketFast":
      return { kind: "hash", first: 0, buckets: node.attributes.int("num_buckets") };
    case "FloorMod": {
      const buckets = integerOf(node.inputs[1]) ?? 0;
      const isHash = inputs[0]?.kind === "key" && buckets > 0;
      return isHash ? { kind: "hash", first: 0, buckets } : UNKNOWN;
    }
    default:
      return UNKNOWN;
  }
}

/** Operations on a hash: moving its range, and comparisons that the range decides. */
function ofHash({ node, inputs }: SymbolicCall): Symbol {
  const position = inputs.findIndex(({ kind }) => kind === "hash");
  const hash = inputs[position];
  if (hash?.kind !== "hash") return UNKNOWN;
  if (node.op === "Cast") return hash;
  const by = numberOf(inputs[1 - position]);
  if (by === undefined) return UNKNOWN;
  switch (node.op) {
    case "Add":
    case "AddV2":
      return { ...hash, first: hash.first + by };
    case "Sub":
      return position === 0 ? { ...hash, first: hash.first - by } : UNKNOWN;
    default:
      return compared(position === 0 ? node.op : (MIRRORED[node.op] ?? node.op), hash, by);
  }
}

function numberOf(symbol: Symbol | undefined): number | undefined {
  if (symbol?.kind !== "constant" || symbol.tensor.dtype === "string") return undefined;
  const number = Number(symbol.tensor.data[0]);
  return Number.isSafeInteger(number) ? number : undefined;
}

/** The comparison of b with a that says the same as this comparison of a with b. */
const MIRRORED: Readonly<Record<string, string>> = {
  Less: "Greater",
  LessEqual: "GreaterEqual",
  Greater: "Less",
  GreaterEqual: "LessEqual",
};

/** Whether all numbers from low to high, or none of them, stand in a relation to `by`. */
interface Relation {
  all(low: number, high: number, by: number): boolean;
  none(low: number, high: number, by: number): boolean;
}

const RELATIONS: Readonly<Record<string, Relation>> = {
  Less: { all: (_, high, by) => high < by, none: (low, _, by) => low >= by },
  LessEqual: { all: (_, high, by) => high <= by, none: (low, _, by) => low > by },
  Greater: { all: (low, _, by) => low > by, none: (_, high, by) => high <= by },
  GreaterEqual: { all: (low, _, by) => low >= by, none: (_, high, by) => high < by },
  Equal: { all: () => false, none: (low, high, by) => by < low || by > high },
  NotEqual: { all: (low, high, by) => by < low || by > high, none: () => false },
};

function compared(op: string, { first, buckets }: Hash, by: number): Symbol {
  const relation = RELATIONS[op];
  const last = first + buckets - 1;
  if (relation?.all(first, last, by) === true) return truth(true);
  return relation?.none(first, last, by) === true ? truth(false) : UNKNOWN;
}

function truth(isTrue: boolean): Symbol {
  const tensor: Tensor = { dtype: "bool", shape: [], data: Uint8Array.of(Number(isTrue)) };
  return { kind: "constant", tensor };
}
