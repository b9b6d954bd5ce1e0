// Operations drawn at random between a product and a top-k: whether a search is recognised in them or not, the answer is what
// plain float64 arithmetic makes of the same numbers. `npm run fuzz:scores` draws more.

import path from "node:path";
import process from "node:process";
import { WinnowError } from "@winnow/core";
import { openModelVersion } from "@winnow/model";
import fc from "fast-check";
import { expect, test } from "vitest";
import { ProgramMachine } from "./models/program-machine.ts";
import type { RandomScores } from "./models/random-scores.ts";
import { SOURCE_NAMES, writeRandomScores } from "./models/random-scores.ts";
import { temporaryDirectory } from "./temporary-directory.ts";

const GRAPHS = Number(process.env["FUZZ_SCORES"] ?? 200);
const root = temporaryDirectory();

const number = fc.nat(999);
const scores: fc.Arbitrary<RandomScores> = fc.record({
  form: number,
  source: number,
  steps: fc.array(fc.record({ op: number, a: number, b: number }), { maxLength: 6, size: "max" }),
  rank: number,
});

type Outcome = "nothing to say" | "refused" | "cut" | "uncut";

/** What became of some scores. @throws when the answer is wrong */
async function outcomeOf(drawn: RandomScores, directory: string): Promise<Outcome> {
  const expected = writeRandomScores(drawn, directory);
  if (expected === undefined) return "nothing to say";
  let version: ReturnType<typeof openModelVersion>;
  try {
    version = openModelVersion(directory);
  } catch (error) {
    if (error instanceof WinnowError) return "refused";
    throw error;
  }
  try {
    const machine = await ProgramMachine.load(version);
    const signature = machine.signature("serving_default");
    const answer = await machine.run(signature, expected.inputs);
    const fault = expected.faultOf(answer);
    if (fault !== undefined) throw new Error(`${expected.text}: ${fault}`);
    return signature.steps.some(({ kind }) => kind === "topK") ? "cut" : "uncut";
  } finally {
    version.close();
  }
}

/** What no search is made of. */
const UNCUT: ReadonlySet<string> = new Set(["concat of two tables"]);

test.each(SOURCE_NAMES.map((name, source) => ({ name, source })))(
  "$name of several queries, of one and of a vector",
  async ({ name, source }) => {
    for (const form of [0, 1, 2]) {
      const directory = path.join(root, `source ${source}`, String(form), "1");
      const outcome = await outcomeOf({ form, source, steps: [], rank: 0 }, directory);

      expect(outcome).toBe(UNCUT.has(name) ? "uncut" : "cut");
    }
  },
);

test(
  "scores by operations drawn at random are ranked as they are by plain arithmetic",
  async () => {
    const outcomes = new Map<Outcome, number>();
    let graphs = 0;
    await fc.assert(
      fc.asyncProperty(scores, async (drawn) => {
        graphs += 1;
        const outcome = await outcomeOf(drawn, path.join(root, String(graphs), "1"));
        outcomes.set(outcome, (outcomes.get(outcome) ?? 0) + 1);
      }),
      { numRuns: GRAPHS },
    );
    process.stderr.write(
      `${[...outcomes].map(([name, count]) => `${name} ${count}`).join(", ")}\n`,
    );
    expect(outcomes.get("cut") ?? 0).toBeGreaterThan(GRAPHS / 10);
    expect(outcomes.get("uncut") ?? 0).toBeGreaterThan(GRAPHS / 10);
  },
  120_000 + 100 * GRAPHS,
);
