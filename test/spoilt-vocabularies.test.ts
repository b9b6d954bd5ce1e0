// Vocabulary files that were cut anywhere, against TensorFlow's recorded answers: what is left of a file
// is refused, or it answers every recorded request as the whole file does. One cut cannot be told from a
// file that was meant so, the one within the last line; a manifest tells it.

import { createHash } from "node:crypto";
import { cpSync, mkdtempSync, readFileSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { afterAll, describe, expect, test } from "vitest";
import { WinnowError } from "@winnow/core";
import { openModelVersion } from "@winnow/model";
import { differenceOf } from "./models/answer-difference.ts";
import { ProgramMachine } from "./models/program-machine.ts";
import {
  ANSWER_FOLDERS,
  inputTensors,
  recordedModels,
  type RecordedModel,
} from "./models/recorded-answers.ts";

const work = mkdtempSync(path.join(tmpdir(), "winnow-spoilt-"));
afterAll(() => rmSync(work, { recursive: true, force: true }));

const models = ANSWER_FOLDERS.flatMap(recordedModels).filter(({ directory }) =>
  readdirSync(directory).includes("assets"),
);
const CUTS = 40;

/** Recorded answers that are wrong, or why the version was refused. */
async function outcomeOf(model: RecordedModel, directory: string): Promise<number | string> {
  try {
    const version = openModelVersion(directory);
    try {
      const machine = await ProgramMachine.load(version);
      let wrong = 0;
      for (const recorded of model.cases) {
        if (recorded.error !== undefined) continue;
        const signature = machine.signature(recorded.signature_name ?? model.signatureName);
        const answer = await machine.run(signature, inputTensors(signature, recorded.inputs));
        if (differenceOf(signature, answer, { model, recorded }) !== undefined) wrong += 1;
      }
      return wrong;
    } finally {
      version.close();
    }
  } catch (error) {
    if (error instanceof WinnowError) return error.message;
    throw error;
  }
}

describe.each(models)("S7: the vocabulary file of $name", (model) => {
  const directory = path.join(work, model.name);
  cpSync(model.directory, directory, { recursive: true });
  const [name] = readdirSync(path.join(directory, "assets"));
  const file = path.join(directory, "assets", name!);
  const whole = readFileSync(file);
  const lastLine = whole.lastIndexOf(0x0a, whole.length - 2) + 1;

  async function cutAt(bytes: number): Promise<number | string> {
    writeFileSync(file, whole.subarray(0, bytes));
    return outcomeOf(model, directory);
  }

  test("answers as recorded while it is whole, with or without its last newline", async () => {
    expect(await cutAt(whole.length)).toBe(0);
    expect(await cutAt(whole.length - 1)).toBe(0);
  });

  test("is refused wherever it is cut before its last line", async () => {
    const borders = [lastLine, lastLine - 1, whole.indexOf(0x0a) + 1, 1];
    const anywhere = Array.from({ length: CUTS }, (_, cut) => Math.floor((cut * lastLine) / CUTS));
    for (const bytes of [...anywhere, ...borders]) {
      expect(await cutAt(bytes)).toMatch(
        bytes === 0 ? /holds no line/ : /entries where \d+ belong/,
      );
    }
  });

  test("is refused with a manifest wherever it is cut, and when a key changes", async () => {
    const sum = createHash("sha256").update(whole).digest("hex");
    const files = readdirSync(directory, { recursive: true, encoding: "utf8" });
    const lines = files
      .filter((each) => /\.(pb|index|data-[-of\d]+)$/.test(each))
      .map((each) => {
        const content = readFileSync(path.join(directory, each));
        return `${createHash("sha256").update(content).digest("hex")}  ${each}\n`;
      });
    writeFileSync(path.join(directory, "SHA256SUMS"), `${lines.join("")}${sum}  assets/${name}\n`);
    const changed = Buffer.from(whole);
    changed[lastLine]! ^= 1;

    expect(await cutAt(whole.length)).toBe(0);
    for (const bytes of [0, lastLine, lastLine + 1, whole.length - 1]) {
      expect(await cutAt(bytes)).toMatch(/SHA256SUMS/);
    }
    writeFileSync(file, changed);
    expect(await outcomeOf(model, directory)).toMatch(/SHA256SUMS/);
  });
});
