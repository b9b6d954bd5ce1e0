// Loops of recorded models (test/data/record_loops.py) in the dense engine that routers run them in:
// they are bounded, and what cannot be served says why. That they answer as TensorFlow does is shown
// in `oracle.test.ts`.

import path from "node:path";
import { afterAll, describe, expect, test } from "vitest";
import { createDenseEngine } from "@winnow/accelerator";
import { runProgram, tensor, type ProgramExecutors, type Tensor } from "@winnow/core";
import { openModelVersion } from "@winnow/model";
import { differenceOf } from "./models/answer-difference.ts";
import { ProgramMachine } from "./models/program-machine.ts";
import { inputTensors, recordedModels } from "./models/recorded-answers.ts";

const operations = path.resolve(import.meta.dirname, "data/operations");
const engine = createDenseEngine();
afterAll(() => engine.close());

/** What a signature of the model `loops` answers to one input `x`. */
async function answerOf(name: string, x: Tensor): Promise<ReadonlyMap<string, Tensor>> {
  const version = openModelVersion(path.join(operations, "loops/1"));
  const { denseModels, signatures, tables } = version.program;
  version.close();
  const refused = (): never => {
    throw new RangeError("no loop here asks a table");
  };
  const executors: ProgramExecutors = {
    tables,
    vocabularies: [],
    lookup: refused,
    sums: refused,
    topK: refused,
    dense: async (step, inputs) => {
      const model = await engine.load(denseModels[step.model]!, { model: "loops", version: 1 });
      const names = step.outputs.map((output) => output.name);
      return await model.run(inputs, names);
    },
  };
  const signature = signatures.find((candidate) => candidate.name === name)!;
  return await runProgram(signature, { inputs: new Map([["x", x]]) }, executors);
}

describe("a query tower of the tutorials", () => {
  const folder = "../shared/savedmodels-more";
  const towers = recordedModels(folder).filter(({ name }) => /^sequence_(gru|lstm)/.test(name));

  test.skipIf(towers.length === 0)(
    "answers as TensorFlow did, and its items are a table",
    async () => {
      for (const model of towers) {
        const version = openModelVersion(model.directory);
        const machine = await ProgramMachine.load(version);
        for (const recorded of model.cases) {
          const signature = machine.signature(recorded.signature_name ?? model.signatureName);
          const answer = await machine.run(signature, inputTensors(signature, recorded.inputs));

          expect(differenceOf(signature, answer, { model, recorded })).toBeUndefined();
        }
        version.close();

        expect(version.program.tables.map(({ kind }) => kind)).toEqual(["keyed", "candidate"]);
      }
    },
  );
});

const floats = (shape: readonly number[], values: readonly number[]): Tensor =>
  tensor("float32", shape, Float32Array.from(values));

describe("a loop", () => {
  test("that would go on for ever is stopped, with its name and the iterations it may take", async () => {
    await expect(answerOf("endless", floats([1], [1]))).rejects.toMatchObject({
      code: "INVALID_ARGUMENT",
      message: expect.stringContaining("loop while takes more than 100000 iterations") as string,
    });
  });

  test("counts its iterations together with those of the loops inside of it", async () => {
    const [few, many] = [floats([1], [90]), floats([1], [101])];

    const answer = await answerOf("endless_nest", few);
    expect(answer.get("y")).toEqual(floats([1], [90 + 90 * 1000]));
    await expect(answerOf("endless_nest", many)).rejects.toMatchObject({
      code: "INVALID_ARGUMENT",
      message: expect.stringMatching(/loop \S+ takes more than 100000 iterations/) as string,
    });
  });

  test("without an iteration gives lists without elements", async () => {
    const nothing = await answerOf("map_fn", floats([0, 4], []));

    expect(nothing.get("weighted")).toEqual(floats([0, 4], []));
    expect(nothing.get("numbers")).toEqual(tensor("int32", [0], new Int32Array()));
  });

  test("over sequences without a step gives what it began with", async () => {
    const answer = await answerOf("nested", floats([2, 0, 4], []));

    expect(answer.get("y")).toEqual(
      floats(
        [2, 4],
        Array.from({ length: 8 }, () => 0),
      ),
    );
  });

  test("without an iteration is refused, as by TensorFlow, where no shape of its elements is known", async () => {
    await expect(answerOf("autograph", floats([2, 0, 4], []))).rejects.toMatchObject({
      code: "INVALID_ARGUMENT",
      message: expect.stringContaining(
        "takes no iteration, so that its list has no element",
      ) as string,
    });
  });
});

test("an embedding table that map_fn reads row by row is a table of the version, not part of a loop", () => {
  const version = openModelVersion(path.join(operations, "loops/1"));
  const { signatures, tables } = version.program;
  version.close();
  const { steps } = signatures.find(({ name }) => name === "map_lookup")!;

  expect(tables.map(({ kind, rows, dim }) => [kind, rows, dim])).toEqual([["keyed", 13, 4]]);
  expect(steps.filter(({ kind }) => kind !== "host").map(({ kind }) => kind)).toEqual([
    "lookup",
    "dense",
  ]);
});

test("a layer that keeps its state between requests is refused: the second answer would be wrong", () => {
  expect(() => openModelVersion(path.join(operations, "stateful_layer/1"))).toThrow(
    /changes the variable \S+, which answers depend on: no state is kept between requests/,
  );
});
