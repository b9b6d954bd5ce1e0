// What docs/pytorch.md says of PyTorch exports, beyond the recorded answers that `oracle.test.ts` asks for: the
// same bits however items are cut, loops that end.

import path from "node:path";
import { expect, test } from "vitest";
import type { Tensor } from "@winnow/core";
import { openModelVersion } from "@winnow/model";
import {
  graphOf,
  modelOf,
  writeExport,
} from "../packages/model/src/onnx-directory/fixtures/onnx-exports.ts";
import {
  tensorMessage,
  valueMessage,
} from "../packages/model/src/saved-model/graph/onnx/onnx-message.ts";
import { ProgramMachine } from "./models/program-machine.ts";
import { inputTensors, recordedModels } from "./models/recorded-answers.ts";
import { temporaryDirectory } from "./temporary-directory.ts";

const models = recordedModels("test/data/torch");

test.each(models)("I2: $name gives the same bits however its items are cut", async (model) => {
  const answers: string[] = [];
  const cuts = new Set<number>();
  for (const partitionBytes of [64, 1000, 2 ** 26]) {
    const version = openModelVersion(model.directory, { partitionBytes });
    const machine = await ProgramMachine.load(version);
    const signature = machine.signature(model.signatureName);
    const bits: unknown[] = [];
    for (const { inputs } of model.cases.filter(({ error }) => error === undefined)) {
      const answer = await machine.run(signature, inputTensors(signature, inputs));
      bits.push(
        [...answer].map(([name, { dtype, shape, data }]) => [name, dtype, shape, bitsOf(data)]),
      );
    }
    answers.push(JSON.stringify(bits));
    for (const { partitions } of version.program.tables) cuts.add(partitions);
    version.close();
  }

  expect(new Set(answers).size).toBe(1);
  expect(cuts.size).toBe(answers[0]!.includes("ids") || answers[0]!.includes("output_2") ? 3 : 0);
});

function bitsOf(data: Tensor["data"]): string {
  const bytes =
    "toText" in data ? data.toText().join("\n") : new Uint8Array(data.buffer as ArrayBuffer);
  return Buffer.from(bytes).toString("hex");
}

test("a loop over what a request sends ends with an error that names it", async () => {
  const version = openModelVersion(
    path.join(import.meta.dirname, "data/torch/recurrent_ranking/1"),
  );
  const machine = await ProgramMachine.load(version);
  const signature = machine.signature("serving_default");
  const ask = (steps: number): Promise<unknown> => {
    const data = new BigInt64Array(steps);
    return machine.run(
      signature,
      new Map([["history", { dtype: "int64", shape: [1, steps], data }]]),
    );
  };
  version.close();

  await expect(ask(100_001)).rejects.toThrow(/loop \S+ takes more than 100000 iterations/);
  await expect(ask(100_000)).resolves.toBeDefined();
});

/** A model that counts up to the largest of `steps`, in a loop that ends by a condition alone. */
function countingModel(): Uint8Array {
  const integer = (name: string): ReturnType<typeof valueMessage> =>
    valueMessage(name, "int64", []);
  const constant = (name: string, value: bigint): ReturnType<typeof valueMessage> =>
    tensorMessage(name, { dtype: "int64", shape: [], data: BigInt64Array.of(value) });
  const body = graphOf({
    nodes: [
      { op: "Add", inputs: ["count", "one"], outputs: ["next"] },
      { op: "Less", inputs: ["next", "limit"], outputs: ["goes_on"] },
    ],
    inputs: [integer("iteration"), valueMessage("go", "bool", []), integer("count")],
    outputs: [valueMessage("goes_on", "bool", []), integer("next")],
  });
  const loop = {
    op: "Loop",
    name: "counting",
    inputs: ["", "first", "zero"],
    outputs: ["counted"],
    attributes: { body },
  };
  return modelOf({
    nodes: [
      { op: "ReduceMax", inputs: ["steps"], outputs: ["limit"], attributes: { keepdims: 0 } },
      { op: "Less", inputs: ["zero", "limit"], outputs: ["first"] },
      loop,
      { op: "Add", inputs: ["steps", "counted"], outputs: ["sum"] },
    ],
    initialisers: [constant("zero", 0n), constant("one", 1n)],
    inputs: [valueMessage("steps", "int64", [-1])],
    outputs: [valueMessage("sum", "int64", [-1])],
  });
}

test("a loop that ends by a condition alone ends with an error that names it", async () => {
  const directory = writeExport(temporaryDirectory(), { "model.onnx": countingModel() });
  const version = openModelVersion(directory);
  const machine = await ProgramMachine.load(version);
  const signature = machine.signature("serving_default");
  const counted = async (steps: bigint): Promise<unknown> => {
    const data = BigInt64Array.of(steps);
    const inputs = new Map([["steps", { dtype: "int64", shape: [1], data } as const]]);
    return (await machine.run(signature, inputs)).get("sum")?.data;
  };
  version.close();

  await expect(counted(0n)).resolves.toEqual(BigInt64Array.of(0n));
  await expect(counted(100_000n)).resolves.toEqual(BigInt64Array.of(200_000n));
  await expect(counted(100_001n)).rejects.toThrow(
    /loop counting takes more than 100000 iterations/,
  );
});
