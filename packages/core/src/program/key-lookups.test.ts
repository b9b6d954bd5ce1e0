// In which vocabularies an input is looked up, and the part of a signature that makes its keys.

import { describe, expect, test } from "vitest";
import { stringTensor } from "../tensor/tensor.ts";
import type { Tensor } from "../tensor/tensor.ts";
import { keyLookupsOf } from "./key-lookups.ts";
import type { HostStep, KeyedTable, SignatureProgram, Step, TableKeys } from "./program.ts";
import { runProgram } from "./program-run.ts";

const none = stringTensor([]);
const vocabulary: TableKeys = {
  kind: "vocabulary",
  keyDtype: "string",
  missing: { kind: "row", row: 0 },
  fixed: { keys: none, rows: [] },
};
const tableOf = (keys: TableKeys): KeyedTable => {
  return { kind: "keyed", name: "users", rows: 5, dim: 2, partitions: 1, sources: [], keys };
};
/** 0: users by name; 1: by number of row. */
const program = { tables: [tableOf(vocabulary), tableOf({ kind: "row" })] };

const host = (op: string, inputs: readonly number[], output: number): HostStep => {
  return { kind: "host", op, node: op, attributes: {}, inputs, outputs: [output] };
};
const find = (keys: number, output: number): Step => {
  return { ...host("LookupTableFindV2", [keys, 20], output), vocabulary: 3 };
};
const lookup = (table: number, keys: number, output: number): Step => {
  return { kind: "lookup", table, node: "gather", keys, output };
};

/** Inputs: `user`, value 0, and `city`, value 1. Value 20 is a constant. */
function signatureOf(...steps: readonly Step[]): SignatureProgram {
  return {
    name: "serving_default",
    methodName: "",
    inputs: ["user", "city"].map((name, value) => {
      return { name, graphTensor: "", value, dtype: "string", shape: [-1] };
    }),
    outputs: [],
    constants: [{ value: 20, tensor: stringTensor(["!"], []) }],
    steps,
  };
}

const refuse = (): never => {
  throw new Error("nobody is asked");
};
const executors = {
  tables: program.tables,
  vocabularies: [],
  lookup: refuse,
  dense: refuse,
  topK: refuse,
  sums: refuse,
};

async function keysOf(signature: SignatureProgram, input: string, values: readonly string[]) {
  const { part } = keyLookupsOf(program, signature, input);
  const inputs = new Map<string, Tensor>([[input, stringTensor(values)]]);
  const keys = await runProgram(part, { inputs }, executors);
  return [...keys.values()].map(({ data }) =>
    (data as ReturnType<typeof stringTensor>["data"]).toText(),
  );
}

describe("an input", () => {
  test("is looked up as the graph makes keys of it, in tables and vocabularies", async () => {
    const signature = signatureOf(
      host("StringLower", [0], 2),
      lookup(0, 2, 3),
      find(0, 4),
      host("StringUpper", [1], 5),
      lookup(0, 5, 6),
    );

    const { vocabularies, part } = keyLookupsOf(program, signature, "user");

    expect(vocabularies).toEqual([
      { kind: "table", table: 0 },
      { kind: "vocabulary", vocabulary: 3 },
    ]);
    expect(part.steps).toHaveLength(1);
    expect(await keysOf(signature, "user", ["Ann", "BO"])).toEqual([
      ["ann", "bo"],
      ["Ann", "BO"],
    ]);
    expect(await keysOf(signature, "city", ["Ulm"])).toEqual([["ULM"]]);
    expect(keyLookupsOf(program, signature, "user")).toBe(keyLookupsOf(program, signature, "user"));
  });

  test.each<[string, readonly Step[]]>([
    ["is a number of a row", [lookup(1, 0, 2)]],
    ["is hashed", [host("StringToHashBucketFast", [0], 2), lookup(1, 2, 3)]],
    ["makes a key with another input", [host("StringJoin", [0, 1], 2), lookup(0, 2, 3)]],
    [
      "is looked up in one branch alone",
      [{ ...lookup(0, 0, 2), when: { predicate: 20, isTrue: true } }],
    ],
    ["is not looked up", [host("StringLower", [0], 2), lookup(0, 1, 3)]],
  ])("has no unknown values where it %s", (_, steps) => {
    expect(keyLookupsOf(program, signatureOf(...steps), "user").vocabularies).toEqual([]);
  });

  test("is not followed behind a vocabulary: what that leads to is known, whatever is looked up next", () => {
    const signature = signatureOf(find(0, 2), lookup(0, 2, 3));

    expect(keyLookupsOf(program, signature, "user").vocabularies).toEqual([
      { kind: "vocabulary", vocabulary: 3 },
    ]);
  });
});
