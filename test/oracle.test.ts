// Every answer TensorFlow gave and somebody recorded, asked again of the programs that Winnow makes of
// the same SavedModels. Scores agree to 1e-5 of their size (TensorFlow itself is not exacter), ids in
// order except among scores that close; where every score is an exact sum, to the bit.

import { existsSync, readFileSync } from "node:fs";
import path from "node:path";
import { describe, expect, test } from "vitest";
import { WinnowError, stringTensor, type SignatureProgram, type Tensor } from "@winnow/core";
import { openModelVersion } from "@winnow/model";
import { ProgramMachine } from "./models/program-machine.ts";
import {
  ANSWER_FOLDERS,
  bytesOf,
  inputTensors,
  recordedModels,
  recordedTensor,
  type RecordedCase,
  type RecordedModel,
} from "./models/recorded-answers.ts";

const RELATIVE_ERROR = 1e-5;
const EXACT_MODELS = new Set(["retrieval_ties"]);

describe.each(ANSWER_FOLDERS)("models of %s", (folder) => {
  const models = recordedModels(folder);

  test.skipIf(models.length === 0)("are there", () => {
    expect(models.length).toBeGreaterThan(0);
  });

  test.each(models)("$name answers as TensorFlow did", async (model) => {
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
  return differenceOf(signature, answer, {
    recorded,
    tolerance: EXACT_MODELS.has(model.name) ? 0 : RELATIVE_ERROR,
  });
}

interface Expectation {
  readonly recorded: RecordedCase;
  readonly tolerance: number;
}

function differenceOf(
  signature: SignatureProgram,
  answer: ReadonlyMap<string, Tensor>,
  { recorded, tolerance }: Expectation,
): string | undefined {
  const ranking = rankingOf(signature, answer);
  for (const { name, dtype } of signature.outputs) {
    const got = answer.get(name)!;
    const wanted = recordedTensor(recorded.outputs![name]!, { dtype, rank: got.shape.length });
    if (got.dtype !== wanted.dtype || got.shape.join() !== wanted.shape.join()) {
      const [given, expected] = [got.shape.join(), wanted.shape.join()];
      return `${name} is ${got.dtype} [${given}], not ${wanted.dtype} [${expected}]`;
    }
    for (let at = 0; at < got.data.length; at += 1) {
      const fault = isSameAt(got, wanted, { at, tolerance })
        ? undefined
        : `${name}[${at}] is ${textAt(got, at)}, not ${textAt(wanted, at)}`;
      const isTie =
        ranking !== undefined && isIdOf(got, ranking) && isNearTie(ranking, at, recorded);
      if (fault !== undefined && !isTie) return fault;
    }
  }
  return undefined;
}

/** The scores of a retrieval answer: the one float output beside one output of ids. */
function rankingOf(
  signature: SignatureProgram,
  answer: ReadonlyMap<string, Tensor>,
): Tensor | undefined {
  if (!signature.steps.some(({ kind }) => kind === "topK")) return undefined;
  return [...answer.values()].find(({ dtype, shape }) => dtype === "float32" && shape.length === 2);
}

function isIdOf(tensor: Tensor, ranking: Tensor): boolean {
  return tensor !== ranking && tensor.shape.join() === ranking.shape.join();
}

/** Whether the score at a place is within tolerance of a neighbour's, or of the first left out. */
function isNearTie(ranking: Tensor, at: number, { next_score }: RecordedCase): boolean {
  const k = ranking.shape[1]!;
  const row = Math.floor(at / k);
  const scores = ranking.data as Float32Array;
  const score = scores[at]!;
  const neighbours = [
    at % k > 0 ? scores[at - 1] : undefined,
    at % k < k - 1 ? scores[at + 1] : next_score?.[row],
  ];
  return neighbours.some(
    (other) => other !== undefined && score !== other && isClose(score, other, RELATIVE_ERROR),
  );
}

function isSameAt(
  got: Tensor,
  wanted: Tensor,
  { at, tolerance }: { readonly at: number; readonly tolerance: number },
): boolean {
  if (got.dtype === "string" && wanted.dtype === "string") {
    return Buffer.compare(got.data.at(at), wanted.data.at(at)) === 0;
  }
  const [a, b] = [got.data, wanted.data] as unknown as readonly [number[], number[]];
  if (got.dtype !== "float32") return a[at] === b[at];
  return Object.is(a[at], b[at]) || isClose(a[at]!, b[at]!, tolerance);
}

function isClose(a: number, b: number, tolerance: number): boolean {
  return a === b || Math.abs(a - b) <= tolerance * Math.max(1, Math.abs(b));
}

function textAt(tensor: Tensor, at: number): string {
  return tensor.dtype === "string" ? tensor.data.textAt(at) : String(tensor.data[at]);
}

const floatsOf = (answer: ReadonlyMap<string, Tensor>): number[] => {
  const scores = answer.get("output_1");
  return scores?.dtype === "float32" ? [...scores.data] : [];
};
const numberOf = (text: string): number => Number(text.replace("inf", "Infinity"));

const fixtures = path.resolve(import.meta.dirname, "../../shared/tfserving/fixtures");

describe.skipIf(!existsSync(fixtures))("the fixtures of TensorFlow Serving's cases", () => {
  const golden = JSON.parse(readFileSync(path.join(fixtures, "golden.json"), "utf8")) as {
    readonly retrieval: Readonly<Record<string, Readonly<Record<string, readonly string[]>>>>;
    readonly ranking: readonly (readonly [string, string, string])[];
  };

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
