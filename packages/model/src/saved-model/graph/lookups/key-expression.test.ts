// The recognition of a key expression against the obvious: run the expression on the key.

import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { StringColumn, indexVocabularies, tensor } from "@winnow/core";
import type { Tensor, VocabularyIndex } from "@winnow/core";
import { Attributes } from "../definition/attributes.ts";
import type { AttributeValue } from "../definition/attributes.ts";
import { fold } from "../constant-folding.ts";
import { constantValue } from "../graph-value.ts";
import type { GraphValue, OperationNode } from "../graph-value.ts";
import { recogniseKeyExpression } from "./key-expression.ts";
import type { KeyExpression } from "./key-expression.ts";

type KeyDtype = "string" | "int64";

const scalar = (value: bigint): GraphValue =>
  constantValue({ dtype: "int64", shape: [], data: BigInt64Array.of(value) });

/** Writes expressions as a graph would hold them, and runs them. */
class Expressions {
  readonly key: GraphValue;
  readonly nodes: OperationNode[] = [];
  readonly vocabulary: VocabularyIndex;

  constructor(dtype: KeyDtype, vocabulary: VocabularyIndex) {
    this.key = { dtype, shape: [-1] };
    this.vocabulary = vocabulary;
  }

  node(op: string, inputs: readonly GraphValue[], buckets?: number): GraphValue {
    const values: [string, AttributeValue][] =
      buckets === undefined ? [] : [["num_buckets", { kind: "int", value: buckets }]];
    const attributes = new Attributes(op, new Map(values));
    const dtype = op === "Equal" || op === "Less" ? "bool" : "int64";
    const node: OperationNode = {
      kind: "operation",
      op,
      name: op,
      attributes,
      inputs,
      outputs: [],
    };
    const value: GraphValue = { dtype, shape: [-1], producer: node };
    node.outputs = [value];
    this.nodes.push(node);
    return value;
  }

  lookup(missing: bigint): GraphValue {
    const table = { kind: "table", name: "t", keyDtype: "string", valueDtype: "int64" } as const;
    const handle: GraphValue = { dtype: "resource", shape: [], resource: table };
    return this.node("LookupTableFindV2", [handle, this.key, scalar(missing)]);
  }

  /** The expression's value for keys, node by node. */
  run(indices: GraphValue, keys: Tensor): Tensor {
    const values = new Map<GraphValue, Tensor>([[this.key, keys]]);
    for (const node of this.nodes) {
      const isLookup = node.op === "LookupTableFindV2";
      const inputs = node.inputs
        .filter(({ resource }) => resource === undefined)
        .map((input) => values.get(input) ?? input.constant!);
      const call = { ...node, outputCount: 1 };
      const [result] = fold(call, inputs, isLookup ? this.vocabulary : undefined)!;
      values.set(node.outputs[0]!, result!);
    }
    return values.get(indices)!;
  }
}

interface Layer {
  readonly dtype: KeyDtype;
  readonly words: readonly number[];
  readonly buckets: number;
  readonly mask: number | undefined;
  /** Whether negative indices wrap around before the gather, as in Keras 3. */
  readonly wraps: boolean;
}

const layers: fc.Arbitrary<Layer> = fc.record({
  dtype: fc.constantFrom<KeyDtype>("string", "int64"),
  words: fc.uniqueArray(fc.integer({ min: -50, max: 50 }), { minLength: 1, maxLength: 20 }),
  buckets: fc.integer({ min: 1, max: 4 }),
  mask: fc.option(fc.integer({ min: -60, max: 60 }), { nil: undefined }),
  wraps: fc.boolean(),
});

const keysOf = (dtype: KeyDtype, words: readonly number[]): Tensor =>
  dtype === "string"
    ? tensor("string", [words.length], StringColumn.fromText(words.map((word) => `k${word}`)))
    : tensor("int64", [words.length], BigInt64Array.from(words, BigInt));

/** The expression that StringLookup and IntegerLookup export; rows: mask, OOV, then vocabulary. */
function build(layer: Layer): {
  readonly expressions: Expressions;
  readonly indices: GraphValue;
  readonly rows: number;
} {
  const first = (layer.mask === undefined ? 0 : 1) + layer.buckets;
  const rows = first + layer.words.length;
  const values = BigInt64Array.from(layer.words, (_, index) => BigInt(first + index));
  const keys = keysOf(layer.dtype, layer.words);
  const entries = { name: "t", keys, values: tensor("int64", [values.length], values) };
  const expressions = new Expressions(layer.dtype, indexVocabularies([entries])[0]!);
  const { key } = expressions;
  const oov = BigInt(first - layer.buckets);
  let indices = expressions.lookup(layer.buckets === 1 ? oov : -1n);
  if (layer.mask !== undefined) {
    const masked = keysOf(layer.dtype, [layer.mask]);
    const mask = constantValue({ ...masked, shape: [] });
    const isMask = expressions.node("Equal", [key, mask]);
    indices = expressions.node("SelectV2", [isMask, scalar(0n), indices]);
  }
  if (layer.buckets > 1) {
    const hash =
      layer.dtype === "string"
        ? expressions.node("StringToHashBucketFast", [key], layer.buckets)
        : expressions.node("FloorMod", [key, scalar(BigInt(layer.buckets))]);
    const bucket = expressions.node("AddV2", [hash, scalar(oov)]);
    const isMissing = expressions.node("Equal", [indices, scalar(-1n)]);
    indices = expressions.node("SelectV2", [isMissing, bucket, indices]);
  }
  if (layer.wraps) {
    const isNegative = expressions.node("Less", [indices, scalar(0n)]);
    const wrapped = expressions.node("AddV2", [indices, scalar(BigInt(rows))]);
    indices = expressions.node("SelectV2", [isNegative, wrapped, indices]);
  }
  return { expressions, indices, rows };
}

/** The row that a worker would answer for one key. */
function rowOf(found: KeyExpression, keys: Tensor): number | undefined {
  const { fixed, vocabulary, missing } = found;
  const positionIn = (column: Tensor): number => {
    const values = { name: "", keys: column, values: column };
    return indexVocabularies([values])[0]!.positionsOf(keys)[0]!;
  };
  const atFixed = fixed.rows.length === 0 ? -1 : positionIn(fixed.keys);
  if (atFixed >= 0) return fixed.rows[atFixed];
  const at = positionIn(vocabulary.keys);
  if (at >= 0) return Number((vocabulary.values.data as BigInt64Array)[at]);
  if (missing.kind === "row") return missing.row;
  if (missing.kind === "refuse") return undefined;
  return missing.firstRow + bucketOf(keys, missing.buckets);
}

function bucketOf(keys: Tensor, buckets: number): number {
  if (keys.dtype === "string") {
    const attributes = new Attributes(
      "",
      new Map([["num_buckets", { kind: "int", value: buckets }]]),
    );
    const call = { op: "StringToHashBucketFast", name: "hash", attributes, outputCount: 1 };
    const [hash] = fold(call, [keys])!;
    return Number((hash!.data as BigInt64Array)[0]);
  }
  const key = Number((keys.data as BigInt64Array)[0]);
  return ((key % buckets) + buckets) % buckets;
}

describe("recogniseKeyExpression()", () => {
  test("gives every key the row that running the expression gives", () => {
    fc.assert(
      fc.property(layers, fc.integer({ min: -70, max: 70 }), (layer, word) => {
        const { expressions, indices, rows } = build(layer);

        const found = recogniseKeyExpression(indices, {
          rows,
          vocabularyOf: () => expressions.vocabulary,
        });

        const asked = keysOf(layer.dtype, [word]);
        const [expected] = expressions.run(indices, asked).data as BigInt64Array;
        expect(found?.key).toBe(expressions.key);
        expect(rowOf(found!, asked)).toBe(Number(expected));
      }),
    );
  });

  test("leaves alone what depends on a second value", () => {
    const { expressions, indices, rows } = build({
      dtype: "string",
      words: [1, 2],
      buckets: 1,
      mask: undefined,
      wraps: false,
    });
    const other: GraphValue = { dtype: "int64", shape: [-1] };
    const sum = expressions.node("AddV2", [indices, other]);

    const found = recogniseKeyExpression(sum, {
      rows,
      vocabularyOf: () => expressions.vocabulary,
    });

    expect(found).toBeUndefined();
  });

  test("refuses missing keys where their row lies outside the table", () => {
    const { expressions, rows } = build({
      dtype: "string",
      words: [1, 2],
      buckets: 1,
      mask: undefined,
      wraps: false,
    });
    const indices = expressions.lookup(-1n);

    const found = recogniseKeyExpression(indices, {
      rows,
      vocabularyOf: () => expressions.vocabulary,
    });

    expect(found?.missing).toEqual({ kind: "refuse" });
  });

  test("leaves alone a vocabulary that leads outside the table", () => {
    const { expressions, indices, rows } = build({
      dtype: "int64",
      words: [1, 2],
      buckets: 2,
      mask: 0,
      wraps: true,
    });

    const found = recogniseKeyExpression(indices, {
      rows: rows - 1,
      vocabularyOf: () => expressions.vocabulary,
    });

    expect(found).toBeUndefined();
  });
});
