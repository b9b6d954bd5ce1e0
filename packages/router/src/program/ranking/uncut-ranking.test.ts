// What a router ranks itself, against a sort of all items, with a cut.

import {
  ColumnBuilder,
  WinnowError,
  compareCandidates,
  nextLoopTurn,
  stringTensor,
  tensor,
} from "@winnow/core";
import type {
  AttributeColumn,
  AttributeValue,
  DenseRanking,
  DenseStep,
  Filter,
  RankedItems,
  SignatureProgram,
  StringColumn,
  Tensor,
} from "@winnow/core";
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { boundFilter } from "../../admission/search-cost.ts";
import type { BoundFilter } from "../../admission/search-cost.ts";
import { RankedAttributes } from "./ranked-attributes.ts";
import { inTurns } from "../../turns/turns.ts";
import { describedItems, namesWithScores, rankingsOutside, withRankings } from "./uncut-ranking.ts";
import type { RankingAsked } from "./uncut-ranking.ts";

const ITEMS = 40;
const K = 5;
/** Every id has two rows, beside those of the last one. */
const idOf = (row: number): string => `item ${row >> 1}`;

function stepOf(rankings: readonly DenseRanking[]): DenseStep {
  return {
    kind: "dense",
    model: 0,
    inputs: [],
    outputs: [
      { name: "other", value: 7, dtype: "float32" },
      { name: "best", value: 0, dtype: "float32" },
      { name: "rows", value: 1, dtype: "int32" },
    ],
    rankings,
  };
}

const asRanked = (items = ITEMS): DenseRanking => {
  const outputs = { best: "best", rows: "rows" };
  return { node: "top_k", scores: "scores", items, k: K, ...outputs, described: 0 };
};

/** Every fifth item has no year, every seventh no genres at all, and every third an empty list of them. */
const yearOf = (row: number): number | undefined => (row % 5 === 4 ? undefined : 1990 + (row % 7));
const genresOf = (row: number): readonly string[] | undefined => {
  if (row % 7 === 6) return undefined;
  return ["crime", "drama", "noir"].filter((_, at) => row % 3 !== 0 && ((row >> at) & 1) === 1);
};

function columnOf(
  name: string,
  valueOf: (row: number) => AttributeValue | readonly AttributeValue[] | undefined,
): AttributeColumn {
  const builder = new ColumnBuilder();
  for (let row = 0; row < ITEMS; row += 1) builder.add(valueOf(row));
  const isList = name === "genres";
  return builder.finish({ name, type: isList ? "string" : "integer", isList });
}

const items: RankedItems = { columns: [columnOf("year", yearOf), columnOf("genres", genresOf)] };
const specs = items.columns.map(({ spec }) => spec);
const bound = (filter: Filter): BoundFilter => boundFilter(filter, specs);

/** Answers what a gather by `rows - 1 + 1` finds. */
const signature: SignatureProgram = {
  name: "serving_default",
  methodName: "tensorflow/serving/predict",
  inputs: [],
  outputs: [
    { name: "rows", graphTensor: "r:0", value: 1, dtype: "int32", shape: undefined },
    { name: "ids", graphTensor: "i:0", value: 5, dtype: "string", shape: undefined },
  ],
  constants: [
    { value: 2, tensor: tensor("int32", [], Int32Array.of(1)) },
    {
      value: 3,
      tensor: stringTensor(Array.from({ length: ITEMS + 1 }, (_, row) => idOf(row - 1))),
    },
    { value: 8, tensor: tensor("int32", [], Int32Array.of(0)) },
  ],
  steps: [
    { kind: "host", op: "AddV2", node: "add", attributes: {}, inputs: [1, 2], outputs: [4] },
    {
      kind: "host",
      op: "GatherV2",
      node: "ids",
      attributes: { batch_dims: 0 },
      inputs: [3, 4, 8],
      outputs: [5],
    },
  ],
};

const NONE = { exclude: [], include: [], filters: [] } as const;

interface Found {
  readonly best: readonly (readonly number[])[];
  readonly rows: readonly (readonly number[])[];
  readonly attributes: readonly (readonly unknown[])[];
}

async function ranked(
  scores: readonly (readonly number[])[],
  wishes: Partial<RankingAsked>,
): Promise<Found> {
  const ranking = asRanked();
  const step = stepOf([ranking]);
  const data = Float32Array.from(scores.flat());
  const given = new Map<string, Tensor>([
    ["scores", tensor("float32", [scores.length, scores[0]!.length], data)],
  ]);
  const outputs = await withRankings({ step, rankings: [ranking] }, given, {
    signature,
    vocabularies: [],
    rankedItems: [items],
    k: undefined,
    conditions: NONE,
    signal: new AbortController().signal,
    ...wishes,
  });
  const [best, rows] = [listsOf(outputs.get("best")!), listsOf(outputs.get("rows")!)];
  const names = ["genres", "year"];
  const objects = describedItems(step, outputs, { rankedItems: [items], names })!;
  const texts = objects.data as StringColumn;
  const places = Array.from({ length: texts.length }, (_, at) => at);
  const attributes = listsOf({ ...objects, dtype: "int32", data: Int32Array.from(places) }).map(
    (list) => list.map((at): unknown => JSON.parse(texts.textAt(at))),
  );
  return { best, rows, attributes };
}

function listsOf({ shape, data, rowLengths }: Tensor): number[][] {
  const [queries = 0, columns = 0] = shape;
  return Array.from({ length: queries }, (_, query) => {
    const first = query * columns;
    return Array.from(data as Float32Array).slice(first, first + (rowLengths?.[query] ?? columns));
  });
}

const few = [NaN, -Infinity, Infinity, 0, -0, 1, -1, 1.5].map((score) => fc.constant(score));
const score = fc.oneof(...few, fc.float({ noNaN: false }));
const idList = fc.array(fc.integer({ min: 0, max: ITEMS }).map(idOf), { maxLength: 30 });

const testOfYear: fc.Arbitrary<Filter> = fc.oneof(
  fc.record({
    kind: fc.constant("test" as const),
    attribute: fc.constant("year"),
    is: fc.constantFrom("gt" as const, "gte" as const, "lt" as const, "lte" as const),
    values: fc.tuple(fc.integer({ min: 1988, max: 1999 })),
  }),
  fc.record({
    kind: fc.constant("test" as const),
    attribute: fc.constantFrom("year"),
    is: fc.constant("in" as const),
    values: fc.array(fc.oneof(fc.constant(null), fc.integer({ min: 1988, max: 1999 })), {
      minLength: 1,
      maxLength: 4,
    }),
  }),
);
const testOfGenres: fc.Arbitrary<Filter> = fc.oneof(
  fc.record({
    kind: fc.constant("test" as const),
    attribute: fc.constant("genres"),
    is: fc.constant("in" as const),
    values: fc.subarray(["crime", "drama", "noir", "sea", null], { minLength: 1 }),
  }),
  fc.constant<Filter>({ kind: "test", attribute: "genres", is: "exists", values: [] }),
);
const { filter: anyFilter } = fc.letrec<{ filter: Filter }>((tie) => {
  const of = fc.array(tie("filter"), { maxLength: 3 });
  return {
    filter: fc.oneof(
      { maxDepth: 3, depthSize: "small" },
      testOfYear,
      testOfGenres,
      fc.record({ kind: fc.constantFrom("and" as const, "or" as const), of }),
      fc.record({ kind: fc.constant("not" as const), of: tie("filter") }),
    ),
  };
});

/** Whether a filter admits a row, by its values. */
function admits(filter: Filter, row: number): boolean {
  if (filter.kind === "not") return !admits(filter.of, row);
  if (filter.kind !== "test") {
    const holds = filter.of.map((each) => admits(each, row));
    return filter.kind === "and" ? holds.every(Boolean) : holds.some(Boolean);
  }
  const value = filter.attribute === "year" ? yearOf(row) : genresOf(row);
  const values: readonly unknown[] = Array.isArray(value) ? value : [value ?? null];
  const [limit] = filter.values;
  return filter.is === "exists"
    ? value !== undefined
    : values.some((each) => holds(filter.is, each, filter.is === "in" ? filter.values : limit));
}

function holds(is: string, value: unknown, wanted: unknown): boolean {
  if (is === "in") return (wanted as readonly unknown[]).includes(value);
  if (value === null) return false;
  const [own, limit] = [value as number, wanted as number];
  if (is === "gt") return own > limit;
  if (is === "gte") return own >= limit;
  return is === "lt" ? own < limit : own <= limit;
}

test("is what a sort gives of the admitted rows, ties, NaN and short lists included", async () => {
  const queries = 3;
  const listsFor = <Item>(one: fc.Arbitrary<Item>): fc.Arbitrary<readonly Item[]> =>
    fc.oneof(
      fc.constant([]),
      one.map((list) => [list]),
      fc.array(one, { minLength: queries, maxLength: queries }),
    );
  const scoresFor = fc.array(fc.array(score, { minLength: ITEMS, maxLength: ITEMS }), {
    minLength: queries,
    maxLength: queries,
  });
  const depth = fc.option(fc.integer({ min: 1, max: ITEMS + 3 }), { nil: undefined });
  const asked = fc.record({
    scores: scoresFor,
    exclude: listsFor(idList),
    include: listsFor(idList),
    filters: listsFor(anyFilter),
    k: depth,
  });
  await fc.assert(
    fc.asyncProperty(asked, async ({ scores, exclude, include, filters, k }) => {
      const conditions = {
        exclude: exclude.map((ids) => stringTensor(ids)),
        include: include.map((ids) => stringTensor(ids)),
        filters: filters.map(bound),
      };

      const found = await ranked(scores, { conditions, k });

      const expected = scores.map((ofQuery, query) => {
        const without = exclude[exclude.length > 1 ? query : 0] ?? [];
        const only = include[include.length > 1 ? query : 0];
        const filter = filters[filters.length > 1 ? query : 0] ?? { kind: "and", of: [] };
        const admitted = ofQuery
          .map((each, row) => ({ score: each, row }))
          .filter(({ row }) => !without.includes(idOf(row)) && only?.includes(idOf(row)) !== false)
          .filter(({ row }) => admits(filter, row));
        return admitted.toSorted(compareCandidates).slice(0, k ?? K);
      });
      expect(found.rows).toEqual(expected.map((list) => list.map(({ row }) => row)));
      expect(found.best).toEqual(expected.map((list) => list.map((each) => each.score)));
      expect(found.attributes).toEqual(
        expected.map((list) =>
          list.map(({ row }) => ({ genres: genresOf(row) ?? null, year: yearOf(row) ?? null })),
        ),
      );
    }),
  );
});

/** More than are offered between two looks at the time, and no whole bytes of a bitmap. */
const MANY = 2 ** 15 + 7;

test.each<readonly [string, (row: number) => number]>([
  ["rise", (row) => row],
  ["fall", (row) => -row],
  ["are all equal", () => 1],
  ["are both zeros", (row) => (row % 3 === 0 ? -0 : 0)],
  ["are few values and NaN", (row) => [NaN, 2, -Infinity, 1, NaN, 2, Infinity][(row * row) % 7]!],
  ["are NaN", () => NaN],
  ["are NaN at first", (row) => (row < MANY - 50 ? NaN : row % 4 === 0 ? -Infinity : row % 3)],
])("is what a sort gives of many scores that %s", async (_, scoreOf) => {
  const ranking = asRanked(MANY);
  const scores = Float32Array.from({ length: MANY }, (_each, row) => scoreOf(row));
  const given = new Map<string, Tensor>([["scores", tensor("float32", [1, MANY], scores)]]);
  const sorted = Array.from(scores, (each, row) => ({ score: each, row })).toSorted(
    compareCandidates,
  );

  for (const k of [1, 7, 100]) {
    const of = { step: stepOf([ranking]), rankings: [ranking] };
    const signal = new AbortController().signal;
    const asked = { signature, vocabularies: [], k, conditions: NONE, signal };
    const outputs = await withRankings(of, given, asked);

    const expected = sorted.slice(0, k);
    expect(listsOf(outputs.get("rows")!)).toEqual([expected.map(({ row }) => row)]);
    expect(listsOf(outputs.get("best")!)).toEqual([expected.map((each) => each.score)]);
  }
});

describe("a ranking", () => {
  const rising = [Array.from({ length: ITEMS }, (_, row) => row)];

  test("is done by the dense part, unless a request has a k, lists or filters", () => {
    const ranking = asRanked();
    const step = stepOf([ranking]);
    const none = NONE;

    expect(rankingsOutside(step, { k: undefined, conditions: none })).toEqual([]);
    expect(namesWithScores(step, [])).toEqual(["other", "best", "rows"]);
    expect(rankingsOutside(step, { k: 3, conditions: none })).toEqual([ranking]);
    expect(namesWithScores(step, [ranking])).toEqual(["other", "scores"]);
    const listed = { ...none, exclude: [stringTensor([])] };
    expect(rankingsOutside(step, { k: undefined, conditions: listed })).toEqual([ranking]);
    const filtered = { ...none, filters: [bound({ kind: "and", of: [] })] };
    expect(rankingsOutside(step, { k: undefined, conditions: filtered })).toEqual([ranking]);
  });

  test("refuses lists that fit no query, ids of another type, and scores of other items", async () => {
    const lists = (...ids: readonly Tensor[]) => ({ conditions: { ...NONE, exclude: ids } });
    const numbers = tensor("int64", [1], BigInt64Array.of(7n));

    await expect(ranked(rising, lists(stringTensor([]), stringTensor([])))).rejects.toThrow(
      "Cannot exclude ids: 2 lists for 1 instances",
    );
    await expect(ranked(rising, lists(numbers))).rejects.toThrow(
      'Cannot exclude int64 ids: the ids of table "top_k" are string, in JSON with quotes',
    );
    await expect(ranked([[1, 2]], { k: 1 }).catch(codeOf)).resolves.toBe("INTERNAL");
  });

  test("lets others have their turn while many ids are looked up", async () => {
    const many = stringTensor(Array.from({ length: 40_000 }, (_, at) => `item ${at % 5} ${at}`));
    const lists = { conditions: { ...NONE, include: [many] } };
    // The index of the ids is made by the first request.
    await ranked(rising, lists);
    let turns = 0;
    const over = new AbortController();
    const others = (async () => {
      for (; !over.signal.aborted; turns += 1) await nextLoopTurn();
    })();

    await ranked(rising, lists);
    over.abort();
    await others;

    expect(turns).toBeGreaterThanOrEqual(4);
  });

  test("of many scores ends when its request does", async () => {
    const signal = AbortSignal.abort(new WinnowError("CANCELLED", "the client left"));
    const many = Array.from({ length: 8000 }, () => rising[0]!);

    await expect(ranked(many, { k: 1, signal }).catch(codeOf)).resolves.toBe("CANCELLED");
  });
});

function codeOf(error: unknown): string {
  return error instanceof WinnowError ? error.code : String(error);
}

describe("the attributes of ranked items", () => {
  const of = (year: number): string =>
    bound({ kind: "test", attribute: "year", is: "in", values: [year] }).text;
  const bytesOf = (text: string): number => Math.ceil(ITEMS / 8) + 2 * text.length;
  const admitted = async (attributes: RankedAttributes, text: string): Promise<Uint8Array> =>
    await inTurns(attributes.admitted(text), new AbortController().signal);

  test("keep the rows of the filters that were used last, within a limit of bytes", async () => {
    const attributes = new RankedAttributes(items, ITEMS, 2 * bytesOf(of(1990)));
    const first = await admitted(attributes, of(1990));
    const second = await admitted(attributes, of(1991));

    expect(await admitted(attributes, of(1990))).toBe(first);
    await admitted(attributes, of(1992));

    expect(attributes.bytes).toBe(2 * bytesOf(of(1990)));
    expect(await admitted(attributes, of(1990))).toBe(first);
    expect(await admitted(attributes, of(1991))).not.toBe(second);
  });

  test("keep nothing that is larger than the limit alone", async () => {
    const attributes = new RankedAttributes(items, ITEMS, 8);

    const bits = await admitted(attributes, of(1990));

    expect(attributes.bytes).toBe(0);
    expect(bits.some((byte) => byte > 0)).toBe(true);
  });
});
