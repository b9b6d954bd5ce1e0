// Look-ups of many keys leave the event loop turns in between, and give the same as in one go.

import { describe, expect, test } from "vitest";
import { StringColumn } from "../tensor/string-column.ts";
import { stringTensor, tensor } from "../tensor/tensor.ts";
import type { Tensor } from "../tensor/tensor.ts";
import { AbortableSignal } from "../time/signal.ts";
import { lookedUpInTurns } from "./lookup-turns.ts";
import { runHostStep } from "./operations/host-operations.ts";
import type { HostStep, SignatureProgram } from "./program.ts";
import { runProgram } from "./program-run.ts";
import type { ProgramExecutors } from "./program-run.ts";
import { indexVocabulary } from "./vocabulary-index.ts";

const step: HostStep = {
  kind: "host",
  op: "LookupTableFindV2",
  node: "find",
  attributes: {},
  inputs: [0, 1],
  outputs: [2],
  vocabulary: 0,
};
const names = Array.from({ length: 1000 }, (_, at) => `word-${at}`);
const texts = stringTensor(names);
const places = tensor(
  "int64",
  [1000],
  BigInt64Array.from(names, (_, at) => BigInt(at)),
);
const vocabularies = [
  indexVocabulary({ name: "places", keys: texts, values: places }),
  indexVocabulary({ name: "texts", keys: places, values: texts }),
];
const missing = tensor("int64", [], BigInt64Array.of(-1n));
const COUNT = 100_000;
const words = stringTensor(
  Array.from({ length: COUNT }, (_, at) => `word-${(at * 7) % 1500}`),
  [COUNT / 4, 4],
);
const ids = tensor(
  "int64",
  [COUNT],
  BigInt64Array.from({ length: COUNT }, (_, at) => BigInt((at * 7) % 1500)),
);

/** What a job gives, and the turns that the event loop had meanwhile. */
async function withTurns<Outcome>(job: () => Promise<Outcome> | undefined) {
  let turns = 0;
  let isOver = false;
  const turn = (): void => {
    turns += 1;
    if (!isOver) setImmediate(turn);
  };
  setImmediate(turn);
  const outcome = (await job())!;
  isOver = true;
  return { outcome, turns };
}

/** A tensor in few values, which are compared soon. */
function bytesOf({ dtype, shape, data }: Tensor): readonly unknown[] {
  const arrays = data instanceof StringColumn ? [data.offsets, data.bytes] : [data];
  return [dtype, shape, ...arrays.map((array) => Buffer.from(array.buffer).toString("latin1"))];
}

describe("many keys", () => {
  test.for<[string, number, readonly [Tensor, Tensor]]>([
    ["texts", 0, [words, missing]],
    ["numbers, whose values are texts", 1, [ids, stringTensor(["none"], [])]],
  ])("%s are found as in one go, over several turns", async ([, vocabulary, inputs]) => {
    const asked = { ...step, vocabulary };
    const context = { vocabularies, signal: new AbortableSignal() };

    const { outcome, turns } = await withTurns(() => lookedUpInTurns(asked, inputs, context));

    expect(outcome.map(bytesOf)).toEqual(runHostStep(asked, inputs, vocabularies).map(bytesOf));
    expect(turns).toBeGreaterThan(3);
  });

  test("of a program are found so", async () => {
    const signature: SignatureProgram = {
      name: "serving_default",
      methodName: "tensorflow/serving/predict",
      inputs: [{ name: "words", dtype: "string", shape: [-1, 4], value: 0, graphTensor: "w:0" }],
      outputs: [{ name: "places", dtype: "int64", shape: [-1, 4], value: 2, graphTensor: "p:0" }],
      constants: [{ value: 1, tensor: missing }],
      steps: [step],
    };
    const executors = { tables: [], vocabularies } as unknown as ProgramExecutors;

    const { outcome, turns } = await withTurns(() =>
      runProgram(signature, { inputs: new Map([["words", words]]) }, executors),
    );

    const [whole] = runHostStep(step, [words, missing], vocabularies);
    expect(bytesOf(outcome.get("places")!)).toEqual(bytesOf(whole!));
    expect(turns).toBeGreaterThan(3);
  });

  test("are looked up no further once the request is over", async () => {
    const signal = new AbortableSignal();
    const finding = lookedUpInTurns(step, [words, missing], { vocabularies, signal });
    signal.abort(new Error("the client left"));

    await expect(finding).rejects.toThrow("the client left");
  });

  test("whose values are together too long are refused as in one go", async () => {
    const long = stringTensor(["x".repeat(2 ** 20)]);
    const keys = tensor("int64", [1], BigInt64Array.of(1n));
    const index = indexVocabulary({ name: "long", keys, values: long });
    const data = new BigInt64Array(20_000).fill(1n);
    const inputs = [tensor("int64", [20_000], data), stringTensor([""], [])];
    const context = { vocabularies: [index], signal: new AbortableSignal() };

    await expect(lookedUpInTurns(step, inputs, context)).rejects.toMatchObject({
      code: "RESOURCE_EXHAUSTED",
    });
  });
});

test("few keys, and other steps, are left to be done at once", () => {
  const context = { vocabularies, signal: new AbortableSignal() };
  const few = tensor("string", [1000], StringColumn.fromText(names));

  expect(lookedUpInTurns(step, [few, missing], context)).toBeUndefined();
  expect(lookedUpInTurns({ ...step, op: "AddV2" }, [ids, ids], context)).toBeUndefined();
});
