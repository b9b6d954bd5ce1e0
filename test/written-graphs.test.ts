// Scores of recommenders that nobody has recorded, as small graphs: each is cut, and answers what plain float64
// arithmetic gives for the same numbers.

import path from "node:path";
import type { ModelProgram, SignatureProgram, TopKStep } from "@winnow/core";
import { openModelVersion } from "@winnow/model";
import { describe, expect, test } from "vitest";
import { ProgramMachine } from "./models/program-machine.ts";
import { ITEM_BYTES, K, SHAPES, faultOf, inputsOf, writeScores } from "./models/written-scores.ts";
import type { Shape } from "./models/written-scores.ts";
import { temporaryDirectory } from "./temporary-directory.ts";

const root = temporaryDirectory();

/** What inspect, the log and the status warn of, and `--worker-uncut-bytes-max` refuses. */
const bytesTold = ({ uncutTables = [] }: ModelProgram): readonly number[] =>
  uncutTables.map(({ bytes }) => bytes);

/** Bytes of the items that routers hold. */
const heldBytes = ({ isDense, isReadWhole }: Shape): readonly number[] =>
  isDense === true || isReadWhole === true ? [ITEM_BYTES] : [];

/** The k of what a router may rank itself, for a request with a k or lists of ids. */
const depthsRanked = ({ steps }: SignatureProgram): readonly number[] =>
  steps.flatMap((step) => (step.kind === "dense" ? (step.rankings ?? []) : [])).map(({ k }) => k);

/** A graph that cuts its order of all items itself leaves nothing to rank. */
const rankableDepths = ({ isDense, rank }: Shape): readonly number[] =>
  isDense === true && rank === undefined ? [K] : [];

describe("a written graph", () => {
  test.each(SHAPES)("$name", async (shape) => {
    const directory = path.join(root, shape.name);
    writeScores(shape, directory);
    const version = openModelVersion(directory);
    try {
      const machine = await ProgramMachine.load(version);
      const signature = machine.signature("serving_default");
      const search = signature.steps.find((step): step is TopKStep => step.kind === "topK");
      const answer = await machine.run(signature, inputsOf(shape));

      const kind = version.program.tables[search?.table ?? -1]?.kind;
      expect(kind).toBe(shape.isDense === true ? undefined : "candidate");
      expect(search?.k).toBe(shape.isDense === true ? undefined : K);
      expect(bytesTold(version.program)).toEqual(heldBytes(shape));
      expect(depthsRanked(signature)).toEqual(rankableDepths(shape));
      const lookups = version.program.tables.filter((table) => table.kind === "keyed");
      expect(lookups).toHaveLength(shape.lookups ?? 0);
      const functions = search?.functions?.map(({ op }) => op) ?? [];
      expect(functions).toEqual(shape.functions ?? []);
      expect(faultOf(shape, answer)).toBeUndefined();
    } finally {
      version.close();
    }
  });
});
