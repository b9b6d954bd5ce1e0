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

test("others have their turn while the columns of slices of one worker each are joined", () => {
  const table = { kind: "candidate", idDtype: "string" } as CandidateTable;
  const shape = { table, k: K, wantsRows: false, wantsIds: true, wantsAttributes: false };
  const slices = [0, 1, 2].map((first) => gatherTopK([replyFrom(first)] as never, K));
  const steps = joinTopK(slices, shape);
  let turns = 0;
  let step = steps.next();
  for (; step.done !== true; step = steps.next()) turns += 1;

  // Three columns, each of more bytes than are copied in a turn, after their scores.
  expect(turns).toBeGreaterThanOrEqual(3);
  const texts = step.value.ids?.data as StringColumn;
  expect(texts.length).toBe(3 * QUERIES * K);
  expect([0, 1, 2].map((slice) => texts.textAt(slice * QUERIES * K + K))).toEqual([
    "item 0",
    "item 1",
    "item 2",
  ]);
});

/** Columns of an answer, as plain values. */
function columnsOf(replies: readonly unknown[], k: number) {
  return columnsOfSlices([replies], k);
}

/** Columns of an answer whose slices were answered by these replies. */
function columnsOfSlices(slices: readonly (readonly unknown[])[], k: number) {
  const table = { kind: "candidate", idDtype: "string" } as CandidateTable;
  const shape = { table, k, wantsRows: true, wantsIds: true, wantsAttributes: true };
  const gathered = slices.map((replies) => gatherTopK(replies as never, k));
  const steps = joinTopK(gathered, shape);
  let step = steps.next();
  while (step.done !== true) step = steps.next();
  const { ids, attributes } = step.value;
  return [ids, attributes].map((each) => ({
    shape: each?.shape,
    texts: each?.data instanceof StringColumn ? each.data.toText() : [],
    column: each?.data,
  }));
}

/** A reply with so many items for each query, of at most three; ids and attributes name the query and the rank. */
function replyOf(counts: readonly number[], name = "") {
  const k = 3;
  const rows = Uint32Array.from({ length: counts.length * k }, (_, at) => at % k);
  const scores = Float32Array.from(rows, (row) => -row);
  const block = { queries: counts.length, k, counts: Uint32Array.from(counts), scores, rows };
  const names = counts.flatMap((count, query) =>
    Array.from({ length: count }, (_, row) => `${name}${query}.${row}`),
  );
  const data = StringColumn.fromText(names);
  const attributes = StringColumn.fromText(names.map((name) => `{${name}}`));
  const ids = { dtype: "string", shape: [names.length], data };
  return { positions: [], answer: { kind: "topK", block, ids, attributes } };
}

test("an answer of one worker is not copied, unless a query has fewer items or more than are wanted", () => {
  const whole = replyOf([3, 3]);

  const [ids, attributes] = columnsOf([whole], 3);
  expect([ids!.column, attributes!.column]).toEqual([
    whole.answer.ids.data,
    whole.answer.attributes,
  ]);
  expect(ids!.column).toBe(whole.answer.ids.data);
  expect(attributes!.column).toBe(whole.answer.attributes);
  expect(ids!.shape).toEqual([2, 3]);
  expect(columnsOf([whole], 2)[0]!.texts).toEqual(["0.0", "0.1", "1.0", "1.1"]);
  expect(columnsOf([replyOf([1, 3])], 3)[1]!.texts).toEqual([
    "{0.0}",
    "",
    "",
    "{1.0}",
    "{1.1}",
    "{1.2}",
  ]);
  expect(columnsOf([replyOf([2, 2])], 3)[0]).toMatchObject({ shape: [2, 2] });
});

test("slices of one worker each are joined as they are, beside slices of several and short ones too", () => {
  const [first, second] = [replyOf([3, 3]), replyOf([3], "b")];
  const texts = ["0.0", "0.1", "0.2", "1.0", "1.1", "1.2", "b0.0", "b0.1", "b0.2"];

  const [ids, attributes] = columnsOfSlices([[first], [second]], 3);
  expect(ids).toMatchObject({ shape: [3, 3], texts });
  expect(attributes!.texts).toEqual(texts.map((text) => `{${text}}`));
  expect(columnsOfSlices([[first], [second]], 2)[0]!.texts).toEqual(
    texts.filter((_, at) => at % 3 < 2),
  );
  const short = replyOf([2], "b");
  expect(columnsOfSlices([[first], [short]], 3)[0]!.texts).toEqual([...texts.slice(0, -1), ""]);
  const none = replyOf([0], "c");
  expect(columnsOfSlices([[first], [second, none]], 3)[0]!.texts).toEqual(texts);
});
