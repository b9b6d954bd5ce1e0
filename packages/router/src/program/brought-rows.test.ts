// Rows that a ranking looks up, brought by the search that found the items: the same rows, or none.

import type { SignatureProgram, Tensor, WorkerId } from "@winnow/core";
import {
  StringColumn,
  VECTOR_ATTRIBUTE,
  cellPartsAt,
  stringTensor,
  tensor,
  vectorsOfCells,
} from "@winnow/core";
import { describe, expect, test, vi } from "vitest";
import { idOf, version } from "../doubles/fake-cluster.ts";
import type { Behaviour, FakeWorker } from "../doubles/fake-cluster.ts";
import { NO_CONDITIONS } from "../admission/search-cost.ts";
import { QueryBench, rowKeys } from "../fixtures/query-bench.ts";
import type { QueryBenchWords } from "../fixtures/query-bench.ts";
import { benchProgram } from "../fixtures/router-bench.ts";
import { ItemRows } from "../item-rows.ts";
import { RequestContext } from "../request-context.ts";
import type { DescribedTopK } from "./search/gather.ts";
import { runRequest } from "./program-execution.ts";
import { TextThreads } from "./text-threads.ts";
import { RequestRun } from "./request-run.ts";

const wanted = { version, table: 0 };
const all = [0, 1, 2, 3];

interface SearchWords extends QueryBenchWords {
  readonly queries?: number;
  readonly k?: number;
  readonly of?: ItemRows["wanted"];
  readonly exclude?: readonly Tensor[];
  readonly step?: QueryBench["step"];
  /** Of the last worker. */
  readonly behaviour?: Behaviour;
  /** Of the first workers: what comes of the rows after the items. */
  readonly later?: readonly FakeWorker["laterRows"][];
}

/** A search for the best items of each query, after which rows may be kept. */
async function searched({
  queries = 1,
  k = 10,
  of = wanted,
  exclude,
  later = [],
  ...words
}: SearchWords) {
  const bench = new QueryBench(words);
  if (words.step !== undefined) bench.step = words.step;
  const { behaviour } = words;
  if (behaviour !== undefined) bench.workers.at(-1)!.behave = () => behaviour;
  for (const [at, laterRows] of later.entries()) bench.workers[at]!.laterRows = laterRows;
  const onOtherKeys = vi.fn();
  const itemRows = new ItemRows(of, 3, onOtherKeys);
  const ask = { vectors: bench.vectors(queries), k, itemRows, ...(exclude && { exclude }) };
  const answer = await bench.settle(bench.search(ask));
  const { ids, rows } = answer;
  const numbers = rows?.dtype === "int32" ? [...rows.data] : [];
  const asks = bench.workers.flatMap(({ asked }) => asked.map(({ ask }) => ask));
  const asking = asks.filter((ask) => ask.kind === "topK" && ask.itemRows !== undefined);
  return { bench, itemRows, onOtherKeys, ids: ids!, numbers, asking: asking.length };
}

/** What a faulty worker sends where rows of `of` are wanted, and what is told of it. */
interface Forgery {
  readonly forged: (rows: Float32Array) => Float32Array;
  readonly of?: ItemRows["wanted"];
  readonly fault: string;
}

describe("rows that come with a search", () => {
  test.each([
    ["one worker that holds all", [all]],
    ["two workers that each hold all, and each search a part", [all, all]],
  ])("are those of a look-up, from %s", async (_, held) => {
    const { bench, itemRows, ids, numbers, asking } = await searched({ held, queries: 3 });

    const rows = itemRows.rowsOf(wanted, { ...ids, shape: [3, 10, 1] });

    expect(asking).toBe(held.length);
    expect(rows).toEqual(tensor("float32", [3, 10, 1, 3], bench.rowsOf(numbers)));
  });

  const halves = [
    [0, 1],
    [2, 3],
  ];
  const two = [stringTensor([idOf(3)]), stringTensor([])];
  const ofOtherContent = { version: { ...version, version: 8 }, table: 0 };

  test.each<[string, SearchWords, number]>([
    ["asked of workers that hold a part of the table", { held: halves }, 0],
    ["asked where one of the workers that search holds a part", { held: [all, [0, 1]] }, 0],
    ["asked of workers that hold another content", { held: [all], of: ofOtherContent }, 0],
    [
      "asked of the parts of a search",
      { held: [all], queries: 3, settings: { sliceQueriesMax: 1 } },
      0,
    ],
    ["there where a query has fewer items", { held: [all], queries: 2, k: 40, exclude: two }, 1],
    ["there where one of the workers gives none", { held: [all, all], behaviour: "older" }, 2],
  ])("are not %s", async (_, words, asked) => {
    const { itemRows, ids, asking } = await searched(words);

    expect(asking).toBe(asked);
    expect(itemRows.rowsOf(words.of ?? wanted, ids)).toBeUndefined();
  });

  test("are asked of a worker that holds all and searches all alone, in the generation in use", () => {
    const scope = new QueryBench({ held: [all, [0, 1]] }).scope();
    const table = scope.table.models.get(version.model)!.contents[0]!.tables[1]!;
    const itemRows = new ItemRows(wanted, 3, () => undefined);
    const isGiven = (worker: string, partitions: readonly number[], lives = scope.table.workers) =>
      itemRows.isGivenBy(worker as WorkerId, partitions, { scope, table, lives });

    const given = [isGiven("w0", all), isGiven("w0", [2, 3]), isGiven("w1", all)];
    given.push(isGiven("w0", all, new Map(scope.table.workers)));

    expect(given).toEqual([true, false, false, false]);
  });

  test("are not asked of a search that answers no ids", async () => {
    const step = { ...new QueryBench({ held: [all] }).step, ids: undefined };

    const { asking, numbers } = await searched({ held: [all], step });

    expect([asking, numbers.length]).toEqual([0, 10]);
  });

  test("are for the same keys of the same table alone", async () => {
    const { itemRows, ids } = await searched({ held: [all] });
    const texts = ids.dtype === "string" ? ids.data.toText() : [];

    const found = [
      itemRows.rowsOf(ofOtherContent, ids),
      itemRows.rowsOf({ version, table: 1 }, ids),
      itemRows.rowsOf(wanted, stringTensor(texts.slice(1))),
      itemRows.rowsOf(wanted, stringTensor(texts.toReversed())),
      itemRows.rowsOf(wanted, tensor("int64", [10], new BigInt64Array(10))),
    ];

    expect(found).toEqual(found.map(() => undefined));
    expect(itemRows.rowsOf(wanted, stringTensor(texts))).toBeDefined();
  });

  test("are there where the only query has fewer items than asked for", async () => {
    const exclude = [stringTensor([idOf(3)])];
    const { bench, itemRows, ids, numbers } = await searched({ held: [all], k: 40, exclude });

    const rows = itemRows.rowsOf(wanted, ids);

    expect(rows).toEqual(tensor("float32", [1, 39, 3], bench.rowsOf(numbers)));
  });

  const missing = () => Promise.resolve(undefined);
  const narrow = (rows: Float32Array) => Promise.resolve(rows.subarray(1));
  const whole = (rows: Float32Array) => Promise.resolve(rows);
  const never = () => new Promise<undefined>(() => undefined);

  test.each<[string, Pick<SearchWords, "held" | "later">, boolean]>([
    [
      "are those of a look-up where they come after the items",
      { held: [all], later: [whole] },
      true,
    ],
    ["are those of a look-up where some of them do", { held: [all, all], later: [whole] }, true],
    ["are none where they do not come", { held: [all], later: [missing] }, false],
    ["are none where a part does not come", { held: [all, all], later: [whole, missing] }, false],
    ["are none where they have another length", { held: [all], later: [narrow] }, false],
    ["are none after the time of an attempt", { held: [all], later: [never] }, false],
  ])("%s", async (_, words, isBrought) => {
    const { bench, itemRows, ids, numbers } = await searched({ ...words, queries: 3 });

    const rows = itemRows.rowsOf(wanted, ids);
    expect(rows).toBeInstanceOf(Promise);
    const brought = await bench.settle(Promise.resolve(rows));

    const expected = tensor("float32", [3, 10, 3], bench.rowsOf(numbers));
    expect(brought).toEqual(isBrought ? expected : undefined);
  });

  const ofVectors = { attributes: [VECTOR_ATTRIBUTE], vectorBytes: true } as const;

  /** A search whose vectors may follow, from workers of which each gives some vectors later, or with the items. */
  async function following(
    words: QueryBenchWords,
    comes: readonly FakeWorker["laterVectors"][],
    search: Omit<Parameters<QueryBench["search"]>[0], "vectors"> & { readonly queries: number },
  ) {
    const bench = new QueryBench(words);
    for (const [at, laterVectors] of comes.entries()) {
      Object.assign(bench.workers[at]!, { laterRows: whole, laterVectors });
    }
    const itemRows = new ItemRows(wanted, 3, () => undefined);
    itemRows.vectorsMayFollow = true;
    const { queries, ...ask } = search;
    const vectors = bench.vectors(queries);
    const answer = await bench.settle(bench.search({ vectors, itemRows, ...ofVectors, ...ask }));
    const kept = itemRows.takeVectors();
    const found = kept && (await bench.settle(kept));
    const twin = await bench.settle(bench.search({ vectors, ...ofVectors, ...ask }));
    return { bench, itemRows, answer, kept, found, twin };
  }

  /** The vectors in the answer to a search, with zeros where lists are shorter. */
  function vectorsIn({ attributes }: DescribedTopK): Float32Array {
    const cells = attributes?.dtype === "string" ? attributes.data : StringColumn.fromText([]);
    const values = Array.from({ length: cells.length }, (_, at) => {
      const cell = cells.slice(at, at + 1);
      return cellPartsAt(cells, at) === undefined ? [0, 0, 0] : [...vectorsOfCells(cell)];
    });
    return Float32Array.from(values.flat());
  }

  test.each<[string, readonly FakeWorker["laterVectors"][], object]>([
    ["of one worker", [whole], {}],
    ["of two workers that each search a part", [whole, whole], {}],
    ["of one worker, and with the items of another", [whole, undefined], {}],
    ["of queries that have different numbers of items", [whole], { exclude: two }],
    ["of such queries, of two workers", [whole, whole], { exclude: two }],
  ])("may be followed by vectors %s", async (_, comes, more) => {
    const words = { held: comes.map(() => all) };
    const search = { queries: 2, k: 40, ...more };

    const { itemRows, answer, found, twin } = await following(words, comes, search);

    expect(found).toEqual(vectorsIn(twin));
    expect(found?.some((value) => value !== 0)).toBe(true);
    expect(answer).toEqual({ ...twin, attributes: undefined });
    expect(itemRows.takeVectors()).toBeUndefined();
  });

  test.each<[string, readonly FakeWorker["laterVectors"][]]>([
    ["do not come", [missing]],
    ["do not come from one of the workers", [whole, missing]],
    ["have another length", [narrow]],
    ["have a value less for each item", [(rows) => whole(rows.subarray(20))]],
    ["have no values", [() => whole(new Float32Array())]],
    [
      "have another length than those of another worker",
      [(rows) => whole(rows.subarray(20)), whole],
    ],
    ["do not come in the time of an attempt", [never]],
  ])("are there, and no vectors, where these %s", async (_, comes) => {
    const { itemRows, answer, kept, found } = await following(
      { held: comes.map(() => all) },
      comes,
      { queries: 1, k: 20 },
    );

    expect(kept).toBeInstanceOf(Promise);
    expect(found).toBeUndefined();
    expect(itemRows.rowsOf(wanted, answer.ids!)).toBeDefined();
  });

  test.each<[string, Pick<FakeWorker, "laterRows" | "laterVectors">, string]>([
    [
      "vectors that are a value shorter",
      { laterRows: whole, laterVectors: (rows) => whole(rows.subarray(10)) },
      "20 values later, of 3 for each of 10 candidates",
    ],
    [
      "vectors without values",
      { laterRows: whole, laterVectors: () => whole(new Float32Array()) },
      "0 values later, of 3 for each of 10 candidates",
    ],
    [
      "rows of another length",
      { laterRows: narrow, laterVectors: whole },
      "29 values later, of 3 for each of 10 candidates",
    ],
  ])("are the worker's fault where it brings %s", async (_, brings, fault) => {
    const bench = new QueryBench({ held: [all] });
    const faults = vi.spyOn(bench.parts.environment.log, "error");
    Object.assign(bench.workers[0]!, brings);
    const itemRows = new ItemRows(wanted, 3, () => undefined);
    itemRows.vectorsMayFollow = true;
    const vectors = bench.vectors(1);

    await bench.settle(bench.search({ vectors, k: 10, itemRows, ...ofVectors }));
    await bench.settle(Promise.resolve(itemRows.takeVectors()));
    const told = faults.mock.calls.map(([, fields]) => fields);
    faults.mockRestore();

    expect(told).toEqual([{ worker: "w0", fault }]);
  });

  test("come behind vectors where another attribute is wanted", async () => {
    const attributes = [VECTOR_ATTRIBUTE, "year"];
    const { answer, kept } = await following({ held: [all] }, [whole], {
      queries: 1,
      k: 10,
      attributes,
    });

    expect([kept, answer.attributes?.data.length]).toEqual([undefined, 10]);
  });

  test("that vectors follow without being asked for are the worker's fault", async () => {
    const bench = new QueryBench({ held: [all, all] });
    const faults = vi.spyOn(bench.parts.environment.log, "error");
    const [forger] = bench.workers;
    const forged = { vectorsLater: true, laterVectors: whole(new Float32Array(30)) } as const;
    forger!.alter = (answer) => ({ ...answer, attributes: undefined, ...forged });
    const itemRows = new ItemRows(wanted, 3, () => undefined);
    const vectors = bench.vectors(1);

    const answer = await bench.settle(bench.search({ vectors, k: 10, itemRows, ...ofVectors }));
    const told = faults.mock.calls.map(([, fields]) => fields);
    faults.mockRestore();

    expect(answer.attributes?.data.length).toBe(10);
    const fault = "attributes of 0 candidates instead of";
    expect(told).toEqual([{ worker: "w0", fault: expect.stringContaining(fault) as unknown }]);
  });

  const keys = rowKeys([2, 5]);
  const forged = Float32Array.of(9, 9, 9, 8, 8, 8);

  test.each<[string, Float32Array | Promise<Float32Array | undefined>, number]>([
    ["that are kept are used", forged, 0],
    ["that come later are used", Promise.resolve(forged), 0],
    ["that do not come are looked up", Promise.resolve(undefined), 1],
  ])("%s", async (_, rows, asked) => {
    const bench = new QueryBench({ held: [all] });
    const itemRows = new ItemRows(wanted, 3, () => undefined);
    itemRows.keep(keys, rows);
    const context = new RequestContext(bench.clock, { timeoutMs: 1000 });
    const program = benchProgram(bench.data, 1);
    const [{ inputs, steps, ...more }] = program.signatures as [SignatureProgram];
    const outputs = [{ ...inputs[0]!, name: "rows", dtype: "float32" as const, value: 1 }];
    const signature = { ...more, inputs, outputs, steps: steps.slice(0, 1) };
    const loaded = {
      program,
      vocabularies: [],
      denseModels: [],
      localTables: new Map(),
      warmUp: [],
    };
    const admitted = { dueMs: 0, answered: () => undefined };
    const texts = new TextThreads(bench.clock, { textThreadsMax: 1, textQueueMax: 1 });
    const run = new RequestRun(
      { loaded, version, table: bench.scope().table },
      { signature, inputs: new Map([["user", keys]]), context, itemRows },
      { conditions: NO_CONDITIONS, admitted },
    );

    const answer = await bench.settle(runRequest({ ...bench.parts, texts }, run));
    context.finish();

    const expected = asked === 0 ? forged : bench.rowsOf([2, 5]);
    expect(answer.outputs.get("rows")).toEqual(tensor("float32", [2, 3], expected));
    expect(bench.workers[0]!.asked).toHaveLength(asked);
  });

  test("tell after the ranking that it looked up as many keys, but only others", async () => {
    const told: number[] = [];
    for (const look of [[0], [1], [1, 0], [0, 1], []]) {
      const { itemRows, ids, onOtherKeys } = await searched({ held: [all] });
      const keys = [ids, stringTensor(Array.from({ length: ids.data.length }, () => "other"))];
      for (const each of look) void itemRows.rowsOf(wanted, keys[each]!);
      itemRows.end();
      told.push(onOtherKeys.mock.calls.length);
      expect(itemRows.rowsOf(wanted, ids)).toBeUndefined();
    }

    expect(told).toEqual([0, 1, 0, 0, 0]);
  });

  const zeros = (rows: Float32Array) => rows.map(() => 0);

  test.each<[string, Forgery]>([
    ["a row too many", { forged: (rows) => Float32Array.of(...rows, 0, 0, 0), fault: "33 values" }],
    ["narrower rows", { forged: (rows) => rows.subarray(0, 20), fault: "20 values of rows of 3" }],
    ["a value more", { forged: (rows) => Float32Array.of(...rows, 0), fault: "31 values" }],
    ["a value less", { forged: (rows) => rows.subarray(1), fault: "29 values" }],
    ["no value", { forged: () => new Float32Array(), fault: "0 values" }],
    ["rows without being asked", { forged: zeros, of: ofOtherContent, fault: "nobody asked" }],
  ])("are the fault of a worker that sends %s, and another is asked", async (_, forgery) => {
    const { forged, of = wanted, fault } = forgery;
    const bench = new QueryBench({ held: [all, all] });
    const faults = vi.spyOn(bench.parts.environment.log, "error");
    const [forger] = bench.workers;
    forger!.forgedRows = forged;
    const itemRows = new ItemRows(of, 3, () => undefined);
    const vectors = bench.vectors(1);

    const { ids, rows } = await bench.settle(bench.search({ vectors, k: 10, itemRows }));
    const told = faults.mock.calls.map(([, fields]) => fields);
    faults.mockRestore();

    const numbers = rows?.dtype === "int32" ? [...rows.data] : [];
    expect(numbers).toEqual(bench.expected(vectors, 10).rows);
    expect(told).toEqual([{ worker: "w0", fault: expect.stringContaining(fault) as unknown }]);
    const isWanted = of === wanted;
    const brought = tensor("float32", [1, 10, 3], bench.rowsOf(numbers));
    expect(itemRows.rowsOf(of, ids!)).toEqual(isWanted ? brought : undefined);
  });

  test("of a single worker that nobody asked for them are no answer", async () => {
    const bench = new QueryBench({ held: [all] });
    bench.workers[0]!.forgedRows = zeros;
    const itemRows = new ItemRows(ofOtherContent, 3, () => undefined);

    const search = bench.settle(bench.search({ vectors: bench.vectors(1), k: 10, itemRows }));

    await expect(search).rejects.toMatchObject({ code: "UNAVAILABLE" });
    const ids = stringTensor(bench.expected(bench.vectors(1), 10).ids);
    expect(itemRows.rowsOf(ofOtherContent, ids)).toBeUndefined();
  });

  test("of another length are the worker's fault, and another worker is asked", async () => {
    const bench = new QueryBench({ held: [all, all] });
    const itemRows = new ItemRows(wanted, 4, () => undefined);

    const search = bench.settle(bench.search({ vectors: bench.vectors(1), k: 10, itemRows }));

    await expect(search).rejects.toMatchObject({ code: "UNAVAILABLE" });
    expect(bench.workers.flatMap(({ asked }) => asked).length).toBeGreaterThan(2);
  });
});
