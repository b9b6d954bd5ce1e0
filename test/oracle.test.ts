// Every answer that TensorFlow or PyTorch gave and somebody recorded, asked again of the programs that Winnow
// makes of the same models.

import { existsSync, readFileSync } from "node:fs";
import path from "node:path";
import { beforeAll, describe, expect, test } from "vitest";
import { WinnowError, stringTensor, type Tensor } from "@winnow/core";
import { openModelVersion } from "@winnow/model";
import { differenceOf } from "./models/answer-difference.ts";
import { ProgramMachine } from "./models/program-machine.ts";
import {
  ANSWER_FOLDERS,
  bytesOf,
  inputTensors,
  recordedModels,
  type RecordedCase,
  type RecordedModel,
} from "./models/recorded-answers.ts";

describe.each(ANSWER_FOLDERS)("models of %s", (folder) => {
  const models = recordedModels(folder);

  test.skipIf(models.length === 0)("are there", () => {
    expect(models.length).toBeGreaterThan(0);
  });

  test.each(models)("$name answers as was recorded", async (model) => {
    const version = openModelVersion(model.directory);
    try {
      const machine = await ProgramMachine.load(version);
      const faults: string[] = [];
      for (const [index, recorded] of model.cases.entries()) {
        const fault = await faultOf(machine, model, recorded);
        if (fault !== undefined) faults.push(`case ${index} (${recorded.kind}): ${fault}`);
      }

      expect(faults).toEqual([]);
    } finally {
      version.close();
    }
  });
});

test.each([
  ["tables that are made of several tensors answer", "score_expressions"],
  ["searches with masks answer", "masked_searches"],
  ["biases that a request weighs answer", "weighed_biases"],
  ["products whose dimensions a layer weighs answer", "weighed_products"],
  ["scores of one query alone answer", "one_query"],
  ["scores of a vector answer", "one_vector"],
  ["items that a tower computes of tokens answer", "item_features"],
  ["items of layers of Keras RS answer", "keras_rs_retrieval"],
  ["spellings of serving functions answer", "served_spellings"],
  ["items that changed after the export answer", "updated_items"],
  // Whole they are asked above.
])("%s as TensorFlow did in any number of parts", async (_, wanted) => {
  const models = recordedModels("test/data/savedmodels");
  const model = models.find(({ name }) => name === wanted)!;
  for (const partitionBytes of [64, 400]) {
    const version = openModelVersion(model.directory, { partitionBytes });
    const machine = await ProgramMachine.load(version);
    const faults: string[] = [];
    for (const recorded of model.cases) {
      const fault = await faultOf(machine, model, recorded);
      if (fault !== undefined) faults.push(`${recorded.signature_name}: ${fault}`);
    }
    const { tables } = version.program;
    version.close();

    expect(faults).toEqual([]);
    const own = tables.map((table) => {
      const { partitions } = (table.kind === "candidate" ? table.original : undefined) ?? table;
      return partitions;
    });
    expect(own.every((partitions) => partitions > 1)).toBe(true);
  }
});

test("an empty batch of queries has empty lists, also where scores go through more operations", async () => {
  const models = recordedModels("test/data/savedmodels");
  const model = models.find(({ name }) => name === "score_expressions")!;
  const version = openModelVersion(model.directory);
  const machine = await ProgramMachine.load(version);
  const query: Tensor = { dtype: "float32", shape: [0, 8], data: new Float32Array() };
  for (const name of ["bias", "user_bias", "bias_before_temperature", "logits_sigmoid", "cosine"]) {
    const answer = await machine.run(machine.signature(name), new Map([["query", query]]));

    expect(answer.get("scores")?.shape).toEqual([0, 6]);
    expect(answer.get("ids")?.shape).toEqual([0, 6]);
  }
  version.close();
});

/** What is wrong with the answer to a case, or `undefined`. */
async function faultOf(
  machine: ProgramMachine,
  model: RecordedModel,
  recorded: RecordedCase,
): Promise<string | undefined> {
  const signature = machine.signature(recorded.signature_name ?? model.signatureName);
  let answer: ReadonlyMap<string, Tensor>;
  try {
    answer = await machine.run(signature, inputTensors(signature, recorded.inputs));
  } catch (error) {
    if (!(error instanceof WinnowError)) throw error;
    const isExpected = error.code === recorded.error?.code;
    return isExpected ? undefined : `refused with ${error.code}: ${error.message}`;
  }
  if (recorded.error !== undefined) return `answered instead of ${recorded.error.code}`;
  return differenceOf(signature, answer, { model, recorded });
}

const floatsOf = (answer: ReadonlyMap<string, Tensor>): number[] => {
  const scores = answer.get("output_1");
  return scores?.dtype === "float32" ? [...scores.data] : [];
};
const numberOf = (text: string): number => Number(text.replace("inf", "Infinity"));

const fixtures = path.resolve(import.meta.dirname, "../../shared/tfserving/fixtures");

interface Golden {
  readonly retrieval: Readonly<Record<string, Readonly<Record<string, readonly string[]>>>>;
  readonly ranking: readonly (readonly [string, string, string])[];
}

describe.skipIf(!existsSync(fixtures))("the fixtures of TensorFlow Serving's cases", () => {
  let golden: Golden;

  // Not in the body, which runs where the tests are skipped as well.
  beforeAll(() => {
    golden = JSON.parse(readFileSync(path.join(fixtures, "golden.json"), "utf8")) as Golden;
  });

  test("retrieval gives the recorded scores and titles", async () => {
    const version = openModelVersion(path.join(fixtures, "retrieval/1"));
    const machine = await ProgramMachine.load(version);
    const signature = machine.signature("serving_default");
    for (const [user, outputs] of Object.entries(golden.retrieval)) {
      const answer = await machine.run(signature, new Map([["input_1", stringTensor([user])]]));

      expect(floatsOf(answer)).toEqual(outputs["output_1"]!.map(numberOf));
      expect(answer.get("output_2")).toEqual(stringTensor(outputs["output_2"]!, [1, 5]));
    }
    version.close();
  });

  test("ranking gives the recorded score of each pair", async () => {
    const version = openModelVersion(path.join(fixtures, "ranking/1"));
    const machine = await ProgramMachine.load(version);
    const inputs = new Map([
      ["user_id", stringTensor(golden.ranking.map(([user]) => user))],
      ["movie_title", stringTensor(golden.ranking.map(([, title]) => title))],
    ]);
    const answer = await machine.run(machine.signature("serving_default"), inputs);
    version.close();

    const scores = floatsOf(answer);
    for (const [index, [, , score]] of golden.ranking.entries()) {
      expect(scores[index]).toBeCloseTo(Number(score), 5);
    }
    expect(scores).toHaveLength(golden.ranking.length);
  });
});

test("recorded strings are bytes", () => {
  expect([...bytesOf({ b64: "/w==" })]).toEqual([255]);
});
