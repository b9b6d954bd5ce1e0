// What docs/pytorch.md says of PyTorch exports, beyond the recorded answers that `oracle.test.ts` asks for: the
// same bits however items are cut, loops that end.

import path from "node:path";
import { expect, test } from "vitest";
import type { Tensor } from "@winnow/core";
import { openModelVersion } from "@winnow/model";
import { ProgramMachine } from "./models/program-machine.ts";
import { inputTensors, recordedModels } from "./models/recorded-answers.ts";

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
