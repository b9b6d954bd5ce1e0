// Answers of some workers joined into one, of as many candidates as a request may ask for.

import type { CandidateTable } from "@winnow/core";
import { StringColumn, tensor } from "@winnow/core";
import { expect, test } from "vitest";
import { gatherTopK, joinTopK } from "./gather.ts";
import type { GatheredTopK } from "./gather.ts";

const QUERIES = 64;
const K = 2048;

/** A reply with every second row from `first` on, in descending order of its scores, and ids that name the rows. */
function replyFrom(first: number) {
  const rows = Uint32Array.from({ length: QUERIES * K }, (_, at) => first + 2 * (at % K));
  const block = {
    queries: QUERIES,
    k: K,
    counts: new Uint32Array(QUERIES).fill(K),
    scores: Float32Array.from(rows, (row) => -row),
    rows,
  };
  const ids = StringColumn.fromText(Array.from(rows, (row) => `item ${row}`));
  return {
    positions: [],
    answer: { kind: "topK", block, ids: tensor("string", [rows.length], ids) },
  } as const;
}

test("others have their turn while the ids of a hundred thousand winners are copied", () => {
  const gathered: GatheredTopK = gatherTopK([replyFrom(0), replyFrom(1)] as never, K);
  const table = { kind: "candidate", idDtype: "string" } as CandidateTable;
  const shape = { table, k: K, wantsRows: true, wantsIds: true, wantsAttributes: false };
  const steps = joinTopK([gathered], shape);
  let turns = 0;
  let step = steps.next();
  for (; step.done !== true; step = steps.next()) turns += 1;
  const { rows, ids } = step.value;

  expect(turns).toBeGreaterThanOrEqual(8);
  expect(rows?.data).toEqual(Int32Array.from({ length: QUERIES * K }, (_, at) => at % K));
  const texts = ids?.data as StringColumn;
  expect(Array.from({ length: K }, (_, at) => texts.textAt((QUERIES - 1) * K + at))).toEqual(
    Array.from({ length: K }, (_, row) => `item ${row}`),
  );
});
