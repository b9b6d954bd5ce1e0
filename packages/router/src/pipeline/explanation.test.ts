// What is told of stages.

import { StringColumn, tensor } from "@winnow/core";
import type { PipelineStage } from "@winnow/core";
import { expect, test } from "vitest";
import type { Candidates } from "./candidates.ts";
import { StageNotes, explanationOf } from "./explanation.ts";
import type { PipelineRun } from "./pipeline-run.ts";

const limit: PipelineStage = { kind: "limit", count: 3 };

function notes(explain: boolean | undefined): StageNotes {
  return new StageNotes({ request: { explain }, pinned: new Map() } as unknown as PipelineRun);
}

function candidates(...counts: readonly number[]): Candidates {
  const length = counts.reduce((sum, count) => sum + count, 0);
  const ids = tensor(
    "int64",
    [length],
    BigInt64Array.from({ length }, (_, at) => BigInt(at) + 2n ** 60n),
  );
  let next = 0;
  const lists = counts.map((count) => {
    const positions = Array.from({ length: count }, () => next++);
    return { positions, scores: positions.map((at) => at / 4) };
  });
  return { ids, lists, named: new Map() };
}

test("each instance is told its own candidates, with all digits of their ids", () => {
  const taken = notes(true);
  taken.add(limit, candidates(1, 2), { elapsedMs: 1.23456 });

  const { data } = explanationOf(taken.finish()!);

  if (!(data instanceof StringColumn)) throw new Error("no texts");
  const head = '{"stages":[{"stage":"limit","ms":1.235,"candidates"';
  expect(data.toText()).toEqual([
    `${head}:1,"ids":[1152921504606846976],"scores":[0]}]}`,
    `${head}:2,"ids":[1152921504606846977,1152921504606846978],"scores":[0.25,0.5]}]}`,
  ]);
});

test("nothing is kept where the request does not want it", () => {
  const taken = notes(undefined);
  for (let stage = 0; stage < 20; stage += 1)
    taken.add(limit, candidates(60_000), { elapsedMs: 1 });

  expect(taken.finish()).toBeUndefined();
});
