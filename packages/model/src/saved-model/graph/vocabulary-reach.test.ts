// Which rows keys can reach, on graphs of a few nodes; whole models in ../vocabulary-files.test.ts.

import { indexVocabularies, stringTensor } from "@winnow/core";
import type { Tensor } from "@winnow/core";
import { describe, expect, test } from "vitest";
import type { StoredTable, TextVocabulary } from "../partitions/stored-table.ts";
import { Attributes } from "./definition/attributes.ts";
import type { AttributeValue } from "./definition/attributes.ts";
import { constantValue } from "./graph-value.ts";
import type { GraphValue, LookupNode, LoweredNode, OperationNode } from "./graph-value.ts";
import type { SignatureGraph } from "./signature-graph.ts";
import { checkVocabularies } from "./vocabulary-reach.ts";

const ENTRIES = 10;
const ROWS = 12;

const asked: GraphValue = { dtype: "int64", shape: [-1] };
const key: GraphValue = { dtype: "string", shape: [-1] };

const number = (value: number): GraphValue =>
  constantValue({ dtype: "int64", shape: [], data: BigInt64Array.of(BigInt(value)) });

function operation(
  op: string,
  inputs: readonly GraphValue[],
  attributes: readonly (readonly [string, AttributeValue])[] = [],
): GraphValue {
  const node: OperationNode = {
    kind: "operation",
    op,
    name: op,
    attributes: new Attributes(op, new Map(attributes)),
    inputs,
    outputs: [],
  };
  const value: GraphValue = { dtype: "int64", shape: [-1], producer: node };
  node.outputs = [value];
  return value;
}

const handle = (name: string): GraphValue => ({
  dtype: "resource",
  shape: [],
  resource: { kind: "table", name, keyDtype: "string", valueDtype: "int64" },
});

/** A lookup in the table that `file` fills, or in a constant table; -1 for a missing key. */
const found = (name = "file", missing = -1): GraphValue =>
  operation("LookupTableFindV2", [handle(name), key, number(missing)]);

const hash = (buckets: number): GraphValue =>
  operation("StringToHashBucketFast", [key], [["num_buckets", { kind: "int", value: buckets }]]);

const entries = (count: number): { keys: Tensor; values: Tensor } => ({
  keys: stringTensor(Array.from({ length: count }, (_, line) => `key ${line}`)),
  values: {
    dtype: "int64",
    shape: [count],
    data: BigInt64Array.from({ length: count }, (_, line) => BigInt(line)),
  },
});

const TEXT: TextVocabulary = {
  file: "words.txt",
  keyDtype: "string",
  valueDtype: "int64",
  keyIndex: -2,
  valueIndex: -1,
  vocabularySize: -1,
  delimiter: "\t",
  offset: 0,
};

const TABLES: readonly StoredTable[] = ["a", "a", "b"].map((name): StoredTable => ({
  spec: {
    kind: "keyed",
    name,
    rows: ROWS,
    dim: 1,
    partitions: 1,
    sources: [],
    keys: { kind: "row" },
  },
  rows: { kind: "bundle", key: name },
  ids: undefined,
  vocabulary: undefined,
}));

function faultOf(nodes: readonly LoweredNode[], isVouchedFor = false): string | undefined {
  const graph: SignatureGraph = {
    signature: { name: "s", methodName: "", inputs: [], outputs: [] },
    inputs: [],
    outputs: [],
    nodes,
  };
  const contents = {
    get: (name: string) => {
      const { keys, values } = entries(ENTRIES);
      const lines = name === "ids" ? values : keys;
      return indexVocabularies([{ name, keys: lines, values }])[0]!;
    },
    textOf: (name: string) => {
      if (name === "constants") return undefined;
      return name === "ids" ? { ...TEXT, file: "ids.txt", keyIndex: -1 } : TEXT;
    },
  };
  try {
    checkVocabularies([graph], { tables: TABLES, contents, isVouchedFor: () => isVouchedFor });
    return undefined;
  } catch (error) {
    return (error as Error).message;
  }
}

/** A lookup of rows of a table of twelve. */
const lookup = (rows: GraphValue, table = 0): LookupNode => ({
  kind: "lookup",
  name: "lookup",
  table,
  rows,
  inputs: [],
  outputs: [],
});

const plus = (value: GraphValue, by: number): GraphValue => operation("AddV2", [value, number(by)]);
const either = (a: GraphValue, b: GraphValue): GraphValue =>
  operation("SelectV2", [operation("Equal", [a, b]), a, b]);

describe("the rows that keys lead to", () => {
  const whole: readonly (readonly [string, GraphValue])[] = [
    ["an offset", plus(found(), 2)],
    ["a hash behind the vocabulary", either(plus(hash(2), 10), found())],
    ["a row for unknown keys at the end", either(number(11), found())],
    ["padding", operation("PadV2", [found(), number(0), number(11)])],
    [
      "a ragged list made dense",
      operation("RaggedTensorToTensor", [number(3), plus(found(), 2), number(0), number(5)]),
    ],
    ["several columns", operation("ConcatV2", [found(), plus(found(), 2), number(100)])],
    ["a limit that is not reached", operation("Minimum", [plus(found(), 2), number(50)])],
    ["rows of the request", either(found(), asked)],
    ["an operation that is not known", operation("Bucketize", [found()])],
    ["a product", operation("Mul", [plus(found(), -3), number(2)])],
    ["a rest", operation("FloorMod", [asked, number(12)])],
  ];
  test.each(whole)("%s: nothing is refused", (_, rows) => {
    expect(faultOf([lookup(rows)])).toBeUndefined();
  });

  const short: readonly (readonly [string, GraphValue, number])[] = [
    ["an offset", plus(found(), 1), 11],
    ["a hash", either(plus(hash(1), 10), found()), 11],
    ["padding", operation("Pad", [found(), number(0)]), 10],
    ["casts and shapes", operation("Cast", [operation("Reshape", [found(), number(9)])]), 10],
    ["a limit", operation("Minimum", [asked, operation("Minimum", [found(), asked])]), 10],
    ["a difference", operation("Sub", [plus(found(), 2), number(1)]), 11],
    ["the greater one", operation("Maximum", [found(), number(3)]), 10],
  ];
  test.each(short)("%s: the file is refused", (_, rows, used) => {
    const entriesWanted = ENTRIES + ROWS - used;
    expect(faultOf([lookup(rows)])).toMatch(
      new RegExp(
        `assets/words.txt has 10 entries where ${entriesWanted} belong: table "a" has 12 rows, and keys lead to the first ${used} alone`,
      ),
    );
    expect(faultOf([lookup(rows)], true)).toBeUndefined();
  });

  test.each([
    ["the last row", found("file", 11)],
    ["a row before others", operation("ConcatV2", [found("file", 11), number(4), number(0)])],
  ])("unknown keys lead to %s: rows before it without a key count", (_, rows) => {
    expect(faultOf([lookup(rows)])).toContain(
      'words.txt has 10 entries where 11 belong: table "a" has 12 rows, and keys lead to the first 10 and the last alone',
    );
    expect(faultOf([lookup(rows)], true)).toBeUndefined();
  });

  test("unknown keys lead to the row behind the vocabulary, or others need those between", () => {
    expect(faultOf([lookup(plus(found("file", 10), 1))])).toBeUndefined();
    expect(faultOf([lookup(either(found("file", 11), plus(found(), 1)))])).toBeUndefined();
  });

  test("tables that no file fills may be as short as they like: they have checksums", () => {
    expect(faultOf([lookup(found("constants"))])).toBeUndefined();
  });

  test("all lookups of one variable count together, and each variable by itself", () => {
    const [low, high] = [lookup(found(), 0), lookup(plus(found("constants"), 2), 1)];

    expect(faultOf([low, high])).toBeUndefined();
    expect(faultOf([low, lookup(asked, 1)])).toBeUndefined();
    expect(faultOf([low, { ...high, table: 2 }])).toContain('table "a"');
  });

  test("one-hot and multi-hot vectors are as wide as the vocabulary is long", () => {
    const hot = (op: string, width: number): LoweredNode =>
      operation(op, [found(), number(width), number(1)]).producer!;

    expect(faultOf([hot("OneHot", 10), hot("DenseBincount", 10)])).toBeUndefined();
    expect(faultOf([hot("OneHot", 11)])).toContain("one-hot vectors (node OneHot) has 11 rows");
    expect(faultOf([hot("DenseBincount", 11)])).toContain("10 entries where 11 belong");
  });

  test("identifiers from a file: one line for each item that a search may find", () => {
    const search: LoweredNode = {
      kind: "topK",
      name: "search",
      table: 0,
      inputs: [],
      k: 3,
      masks: [],
      functions: [],
      capped: false,
      outputs: [asked, { dtype: "int32", shape: [-1, 3] }],
    };
    const rows: GraphValue = { dtype: "int32", shape: [-1, 3], producer: search };
    search.outputs = [asked, rows];
    const named = operation("LookupTableFindV2", [handle("ids"), rows, number(-1)]).producer!;

    expect(faultOf([search, named])).toContain(
      "assets/ids.txt has 10 entries where 12 belong: the items of node search",
    );
  });

  test("a deep graph is followed without recursion, and not for ever", () => {
    let rows = found();
    for (let depth = 0; depth < 100_000; depth += 1) rows = operation("Cast", [rows]);

    expect(faultOf([lookup(rows)])).toBeUndefined();
  });
});
