// Filters: what they mean, against a plain reading of the language row by row; that their canonical text says
// the same; and what is refused in which words.

import fc from "fast-check";
import { describe, expect, test } from "vitest";
import type { AttributeColumn, AttributeSpec, AttributeValue } from "./attribute-column.ts";
import { NO_ROW, takeRows } from "./attribute-column.ts";
import { ColumnBuilder } from "./column-builder.ts";
import { ROW_COLUMN } from "./filter.ts";
import type { Filter } from "./filter.ts";
import { bindFilter } from "./filter-binding.ts";
import { parseFilter } from "./filter-language.ts";
import type { JsonValue } from "./filter-language.ts";
import { admittedRows, admittedRowsInSteps } from "./filter-rows.ts";
import { filterText, parseFilterText } from "./filter-text.ts";
import { parseTimestamp, timeOf, timestampText } from "./timestamp.ts";

type Row = ReadonlyMap<string, AttributeValue | readonly AttributeValue[] | undefined>;

const SPECS: readonly AttributeSpec[] = [
  { name: "genre", type: "string", isList: false },
  { name: "year", type: "integer", isList: false },
  { name: "rating", type: "float", isList: false },
  { name: "kids", type: "boolean", isList: false },
  { name: "tags", type: "string", isList: true },
  { name: "sizes", type: "integer", isList: true },
];

const TEXTS = ["", "a", "b", "é", "日", "\u{1f600}", "ﬀ"];
const NUMBERS = [-1, 0, 1, 2, 1990, 2 ** 53 - 1];
const BIG = [2n ** 53n, 2n ** 53n + 1n, -(2n ** 63n)];

const text = fc.constantFrom(...TEXTS);
const integer = fc.constantFrom<AttributeValue>(...NUMBERS, ...BIG);
const float = fc.constantFrom(-0.5, 0, 0.5, 1, 1990, Number.NaN, Infinity);
const maybe = <Value>(value: fc.Arbitrary<Value>): fc.Arbitrary<Value | undefined> =>
  fc.option(value, { nil: undefined });

const anyRow: fc.Arbitrary<Row> = fc
  .tuple(
    maybe(text),
    maybe(integer),
    maybe(float),
    maybe(fc.boolean()),
    maybe(fc.array(text, { maxLength: 3 })),
    maybe(fc.array(integer, { maxLength: 3 })),
  )
  .map((values) => new Map(values.map((value, at) => [SPECS[at]!.name, value] as const)));

/** Values that an attribute may be compared with. */
const literals: Readonly<Record<string, fc.Arbitrary<JsonValue>>> = {
  genre: fc.constantFrom(...TEXTS, "zz", "0"),
  tags: fc.constantFrom(...TEXTS),
  year: fc.constantFrom<JsonValue>(...NUMBERS, ...BIG, 0.5),
  rating: fc.constantFrom<JsonValue>(-0.5, 0, 0.25, 1, 1990n),
  sizes: fc.constantFrom<JsonValue>(...NUMBERS, ...BIG),
  kids: fc.boolean(),
};

const test1: fc.Arbitrary<JsonValue> = fc.constantFrom(...SPECS).chain(({ name, type, isList }) => {
  const value = literals[name]!;
  const list = fc.array(fc.option(value, { nil: null }), { maxLength: 3 });
  const operators: fc.Arbitrary<readonly [string, JsonValue]>[] = [
    fc.tuple(fc.constantFrom("$eq", "$ne"), fc.option(value, { nil: null })),
    fc.tuple(fc.constantFrom("$in", "$nin"), list),
    fc.tuple(fc.constant("$exists"), fc.boolean()),
  ];
  if (type !== "boolean") {
    operators.push(fc.tuple(fc.constantFrom("$gt", "$gte", "$lt", "$lte"), value));
  }
  if (isList) {
    operators.push(fc.tuple(fc.constant("$contains"), value));
    operators.push(fc.tuple(fc.constant("$all"), fc.array(value, { maxLength: 3 })));
  }
  const conditions = fc
    .uniqueArray(fc.oneof(...operators), { minLength: 1, maxLength: 3, selector: ([op]) => op })
    .map((pairs): JsonValue => new Map(pairs));
  const negated = conditions.map((inner): JsonValue => new Map([["$not", inner]]));
  return fc
    .oneof(value, conditions, negated)
    .map((condition): JsonValue => new Map([[name, condition]]));
});

const anyFilter: fc.Arbitrary<JsonValue> = fc.letrec<{ filter: JsonValue }>((tie) => ({
  filter: fc.oneof(
    { maxDepth: 3 },
    test1,
    fc
      .tuple(
        fc.constantFrom("$and", "$or", "$nor"),
        fc.array(tie("filter"), { minLength: 1, maxLength: 3 }),
      )
      .map(([name, list]): JsonValue => new Map([[name, list]])),
    tie("filter").map((filter): JsonValue => new Map([["$not", filter]])),
  ),
})).filter;

/** The language, read for one row. */
function holds(filter: JsonValue, row: Row): boolean {
  return [...(filter as ReadonlyMap<string, JsonValue>)].every(([name, value]) => {
    const list = value as readonly JsonValue[];
    if (name === "$and") return list.every((each) => holds(each, row));
    if (name === "$or") return list.some((each) => holds(each, row));
    if (name === "$nor") return !list.some((each) => holds(each, row));
    if (name === "$not") return !holds(value, row);
    return holdsFor(value, row.get(name));
  });
}

type Cell = AttributeValue | readonly AttributeValue[] | undefined;

function holdsFor(condition: JsonValue, cell: Cell): boolean {
  if (!(condition instanceof Map)) return isOneOf([condition], cell);
  return [...(condition as ReadonlyMap<string, JsonValue>)].every(([operator, operand]) => {
    const list = operand as readonly JsonValue[];
    switch (operator) {
      case "$eq":
      case "$contains":
        return isOneOf([operand], cell);
      case "$ne":
        return !isOneOf([operand], cell);
      case "$in":
        return isOneOf(list, cell);
      case "$nin":
        return !isOneOf(list, cell);
      case "$all":
        return list.length > 0 && list.every((each) => isOneOf([each], cell));
      case "$exists":
        return (there(cell) !== undefined) === operand;
      case "$not":
        return !holdsFor(operand, cell);
      default:
        return elementsOf(cell).some((value) => {
          const order = compared(value, operand as AttributeValue);
          if (operator === "$gt") return order > 0;
          if (operator === "$gte") return order >= 0;
          return operator === "$lt" ? order < 0 : order <= 0;
        });
    }
  });
}

const there = (cell: Cell): Cell => (Number.isNaN(cell) ? undefined : cell);

function elementsOf(cell: Cell): readonly AttributeValue[] {
  const value = there(cell);
  if (value === undefined) return [];
  return Array.isArray(value) ? (value as readonly AttributeValue[]) : [value as AttributeValue];
}

function isOneOf(list: readonly JsonValue[], cell: Cell): boolean {
  if (there(cell) === undefined) return list.includes(null);
  return elementsOf(cell).some((value) =>
    list.some((each) => each !== null && compared(value, each as AttributeValue) === 0),
  );
}

function compared(a: AttributeValue, b: AttributeValue): number {
  if (typeof a === "string") return Buffer.compare(Buffer.from(a), Buffer.from(b as string));
  const [left, right] = [a, b].map((value) => (typeof value === "boolean" ? Number(value) : value));
  if (left! < right!) return -1;
  return left! > right! ? 1 : 0;
}

function columnsOf(rows: readonly Row[]): Map<string, AttributeColumn> {
  return new Map(
    SPECS.map((spec) => {
      const builder = new ColumnBuilder();
      for (const row of rows) builder.add(row.get(spec.name));
      return [spec.name, builder.finish(spec)] as const;
    }),
  );
}

/** Eight rows of a column that counts to 9, those of 0 as ones. */
function zeroesIn(byte: number): string {
  const bits = Array.from({ length: 8 }, (_, bit) => Number((byte * 8 + bit) % 17 === 0));
  return Number.parseInt(bits.toReversed().join(""), 2).toString(2);
}

const admits = (bits: Uint8Array, row: number): boolean =>
  ((bits[row >> 3]! >> (row & 7)) & 1) === 1;

describe("a filter", () => {
  test("admits the rows for which it holds, also by its canonical text and for some of the rows", () => {
    fc.assert(
      fc.property(fc.array(anyRow, { maxLength: 40 }), anyFilter, (rows, filter) => {
        const columns = columnsOf(rows);
        const expected = rows.map((row) => holds(filter, row));
        const canonical = bindFilter(parseFilter(filter), SPECS);
        const bits = admittedRows(canonical, { columns, rows: rows.length, firstRow: 0 });
        expect(rows.map((_, row) => admits(bits, row))).toEqual(expected);
        const written = parseFilter(filter);
        expect(parseFilterText(filterText(written))).toEqual(written);
        const text = filterText(canonical);
        const again = parseFilterText(text);
        expect(admittedRows(again, { columns, rows: rows.length, firstRow: 0 })).toEqual(bits);
        expect(filterText(bindFilter(again, SPECS))).toBe(text);
        const taken = Uint32Array.from(rows.keys()).filter((row) => row % 3 !== 0);
        const part = new Map(
          [...columns].map(([name, column]) => [name, takeRows(column, taken)] as const),
        );
        const some = admittedRows(canonical, { columns: part, rows: taken.length, firstRow: 0 });
        const expectedOfTaken = Array.from(taken, (row) => expected[row]);
        expect(Array.from(taken, (_, at) => admits(some, at))).toEqual(expectedOfTaken);
        const listed = { columns, rows: rows.length, firstRow: 0, listed: taken };
        const ofListed = admittedRows(canonical, listed);
        expect(Array.from(taken, (_, at) => admits(ofListed, at))).toEqual(expectedOfTaken);
      }),
      { numRuns: 2000 },
    );
  });

  test.each<[string, string, number]>([
    ["lists pauses at each of them", "sizes", 16],
    ["single values of one attribute looks at them once", "year", 1],
  ])("of many conditions on %s", (_, name, pauses) => {
    const rows = 2 ** 20;
    const builder = new ColumnBuilder();
    for (let row = 0; row < rows; row += 1) builder.add(name === "year" ? row % 17 : [row % 17]);
    const column = builder.finish(SPECS.find((spec) => spec.name === name)!);
    const below = (end: number): JsonValue => new Map([[name, new Map([["$lt", end]])]]);
    const all = Array.from({ length: 16 }, (__, end) => below(end + 1));
    const filter = bindFilter(parseFilter(new Map([["$and", all]])), SPECS);

    const steps = admittedRowsInSteps(filter, {
      columns: new Map([[name, column]]),
      rows,
      firstRow: 0,
    });
    let counted = 0;
    let step = steps.next();
    for (; step.done !== true; step = steps.next()) counted += 1;

    expect(counted).toBe(pauses);
    expect([...step.value.subarray(0, 17)].map((byte) => byte.toString(2))).toEqual(
      Array.from({ length: 17 }, (__, byte) => zeroesIn(byte)),
    );
  });

  test("is canonical: order, repetition and double negation make no other text", () => {
    const textOf = (filter: JsonValue) => filterText(bindFilter(parseFilter(filter), SPECS));
    const object = (...entries: [string, JsonValue][]): JsonValue => new Map(entries);
    const genre = object(["genre", object(["$in", ["b", "a", "b"]])]);
    const year = object(["year", object(["$gte", 1990])]);
    const both = textOf(object(["$and", [year, genre]]));
    expect(textOf(object(["$and", [genre, object(["$and", [year, genre]])]]))).toBe(both);
    expect(textOf(object(["$not", object(["$not", object(["$and", [genre, year]])])]))).toBe(both);
    expect(textOf(object(["year", 1990n]))).toBe(textOf(object(["year", 1990])));
  });

  test("of items that have none of the attributes is that of items without values", () => {
    const [row] = [new Map([["genre", "a"]])] as const;
    const columns = columnsOf([row]);
    const taken = new Map(
      [...columns].map(([name, column]) => [name, takeRows(column, Uint32Array.of(NO_ROW, 0))]),
    );
    const filter = bindFilter(parseFilter(new Map([["genre", null]])), SPECS);
    expect([...admittedRows(filter, { columns: taken, rows: 2, firstRow: 0 })]).toEqual([1]);
  });

  const object = (...entries: [string, JsonValue][]): JsonValue => new Map(entries);
  test.each<[string, JsonValue, string]>([
    ["an unknown name", object(["yeer", 1]), 'have no attribute "yeer"; did you mean "year"?'],
    ["an unknown operator", object(["year", object(["$gt2", 1])]), "did you mean $gt?"],
    ["an unknown connective", object(["$andd", []]), "did you mean $and?"],
    ["a text for a number", object(["year", "1990"]), 'cannot be compared with "1990"'],
    ["a number for a text", object(["genre", object(["$lt", 5])]), "its values are of type string"],
    [
      "an order of booleans",
      object(["kids", object(["$gt", true])]),
      "is boolean and has no order",
    ],
    ["$all of a single value", object(["genre", object(["$all", ["a"]])]), "is no list"],
    ["null with an order", object(["year", object(["$gt", null])]), "only $eq, $ne, $in and $nin"],
    ["a list as a value", object(["year", [1, 2]]), 'write {"$in": [1, 2]}'],
    [
      "filters below a name",
      object(["must", [object(["year", 1])]]),
      'filters are joined by "$and", "$or" and "$nor"',
    ],
    [
      "an operator without an attribute",
      object(["$gte", 1990]),
      'holds "$gte" without an attribute; write {"an attribute": {"$gte": …}}',
    ],
    ["$in of no list", object(["year", object(["$in", 1990])]), "must be a list of values"],
    ["an empty $or", object(["$or", []]), "a list of at least one filter"],
    ["an empty $nin of a misspelt name", object(["yaer", object(["$nin", []])]), '"year"?'],
    ["an empty condition", object(["year", object()]), "is an empty object"],
    ["no object", ["year"], "must be an object"],
    ["$exists of no boolean", object(["year", object(["$exists", 1])]), "must be true or false"],
    [
      "too many conditions",
      object(["$or", Array.from({ length: 70 }, () => object(["year", 1]))]),
      "at most 64 names and operators",
    ],
    [
      "too many values",
      object(["year", object(["$in", Array.from({ length: 5000 }, (_, at) => at)])]),
      "at most 4096 values",
    ],
  ])("with %s is refused", (_, filter, message) => {
    expect(() => bindFilter(parseFilter(filter), SPECS)).toThrow(message);
  });

  test("with an integer of more than 64 bits compares as with the nearest float", () => {
    const filter = parseFilter(object(["year", object(["$lt", 2n ** 70n])]));
    const bound = bindFilter(filter, SPECS);

    expect(bound).toMatchObject({ is: "lt", values: [2 ** 70] });
    expect(parseFilterText(filterText(bound))).toEqual(bound);
    expect(parseFilterText(filterText(filter))).toEqual(filter);
    const endless = object(["year", object(["$lt", 10n ** 400n])]);
    expect(() => parseFilter(endless)).toThrow(
      '"filter".year.$lt holds a number that is not finite',
    );
  });

  test("with as many conditions as a request may have is read again from its text", () => {
    const all = (count: number): JsonValue =>
      object(["tags", object(["$all", Array.from({ length: count }, (_, at) => `${at}`)])]);
    const textOf = (count: number): string =>
      filterText(bindFilter(parseFilter(all(count)), SPECS));

    expect(filterText(parseFilterText(textOf(256)))).toBe(textOf(256));
    expect(() => parseFilterText(textOf(600))).toThrow("it has too many conditions");
  });

  test("that nests too deep is refused", () => {
    let filter: JsonValue = object(["year", 1]);
    for (let level = 0; level < 40; level += 1) filter = object(["$not", filter]);
    expect(() => parseFilter(filter)).toThrow("lies deeper than 16 levels");
  });

  test.each([
    "",
    "[",
    "null",
    "[[]]",
    '["in","year",[]]',
    '["gt","year",[1,2]]',
    '["exists","year",[1]]',
    '["in","year",[{}]]',
    '["nor",[]]',
    '["and"]',
    "[".repeat(60_000),
  ])("is not made of the text %j", (malformed) => {
    expect(() => parseFilterText(malformed)).toThrow("Cannot read a filter");
  });

  test("that is too long is refused with its length and the limit", () => {
    const text = filterText({
      kind: "test",
      attribute: "genre",
      is: "in",
      values: ["x".repeat(2 ** 16)],
    });

    expect(() => parseFilterText(text)).toThrow(
      /it has 65555 characters in the form that workers read, .*; at most 65536 are allowed/,
    );
  });
});

describe("times", () => {
  test("are read to the microsecond, and written again", () => {
    expect(parseTimestamp("1970-01-01")).toBe(0);
    expect(parseTimestamp("1970-01-01T01:00:00+01:00")).toBe(0);
    expect(parseTimestamp("2024-02-29T12:34:56.789012Z")).toBe(1_709_210_096_789_012);
    expect(timestampText(1_709_210_096_789_012)).toBe("2024-02-29T12:34:56.789012Z");
    expect(timestampText(-1)).toBe("1969-12-31T23:59:59.999999Z");
    expect(timestampText(parseTimestamp("9999-12-31T23:59:59.999999Z")!)).toBe(
      "9999-12-31T23:59:59.999968Z",
    );
    for (const text of ["0001-01-01T00:00:00Z", "0099-12-31T00:00:00Z", "0100-01-01T00:00:00Z"]) {
      expect(timestampText(parseTimestamp(text)!)).toBe(text);
    }
    for (const time of [253_402_300_799_999_999n, -62_135_596_799_999_999n, 2n ** 63n - 1n]) {
      const found = BigInt(timeOf(time));
      expect(found <= time && found > time - 1024n).toBe(true);
    }
    for (const text of ["2024-01-01T00:00+24:00", "2024-01-01T00:00-01:60"]) {
      expect(parseTimestamp(text)).toBeUndefined();
    }
    for (const text of ["2023-02-29", "2024-13-01", "yesterday", "2024-01-01T25:00Z", "20240101"]) {
      expect(parseTimestamp(text)).toBeUndefined();
    }
    fc.assert(
      fc.property(fc.integer({ min: -(2 ** 51), max: 2 ** 51 }), (time) => {
        expect(parseTimestamp(timestampText(time))).toBe(time);
      }),
    );
  });
});

test("of a column that numbers the rows, listed numbers are found without reading all of them", () => {
  const rows = 1003;
  const builder = new ColumnBuilder();
  for (let row = 0; row < rows; row += 1) builder.add(row + 5000);
  const column = builder.finish(SPECS.find(({ name }) => name === "year")!);
  const reads = { count: 0 };
  const counting = new Proxy(column.codes, {
    get: (codes, at) => {
      if (typeof at === "string" && Number(at) >= 0) reads.count += 1;
      const value: unknown = Reflect.get(codes, at, codes);
      return typeof value === "function" ? value.bind(codes) : value;
    },
  });
  const columns = new Map([["year", { ...column, codes: counting }]]);
  const listed: Filter = {
    kind: "test",
    attribute: "year",
    is: "in",
    values: [5000, 5009, 6002, 6003, 4999, 5000.5, null],
  };
  const rowsOf = (filter: Filter): number[] => {
    const bits = admittedRows(filter, { columns, rows, firstRow: 5000 });
    return Array.from({ length: rows }, (_, row) => row).filter((row) => admits(bits, row));
  };

  expect(rowsOf(listed)).toEqual([0, 9, 1002]);
  expect(rowsOf({ kind: "not", of: listed })).toHaveLength(rows - 3);
  expect(reads.count).toBe(0);
});

test("filters that ask the same of a column read its rows once, and none changes what another finds", () => {
  const rows = 20_011;
  const [years, genres] = [new ColumnBuilder(), new ColumnBuilder()];
  for (let row = 0; row < rows; row += 1) {
    years.add(row % 7);
    genres.add(row % 5 === 0 ? [] : [`g${row % 3}`, `g${row % 2}`]);
  }
  const specOf = (wanted: string): AttributeSpec => SPECS.find(({ name }) => name === wanted)!;
  const column = years.finish(specOf("year"));
  const reads = { count: 0 };
  const counting = new Proxy(column.codes, {
    get: (codes, at) => {
      if (typeof at === "string" && Number(at) >= 0) reads.count += 1;
      return Reflect.get(codes, at, codes) as unknown;
    },
  });
  const columns = new Map([
    ["year", { ...column, codes: counting }],
    ["tags", genres.finish(specOf("tags"))],
  ]);
  const year: Filter = { kind: "test", attribute: "year", is: "lt", values: [3] };
  const tags: Filter = { kind: "test", attribute: "tags", is: "in", values: ["g2"] };
  const neither: Filter = { kind: "not", of: { kind: "or", of: [year, tags] } };
  const isYear = (row: number): boolean => row % 7 < 3;
  const isTag = (row: number): boolean => row % 5 > 0 && row % 3 === 2;
  const cases: readonly (readonly [Filter, (row: number) => boolean])[] = [
    [year, isYear],
    [tags, isTag],
    [{ kind: "not", of: tags }, (row) => !isTag(row)],
    [{ kind: "and", of: [year, tags] }, (row) => isYear(row) && isTag(row)],
    [neither, (row) => !isYear(row) && !isTag(row)],
  ];

  for (const [filter, holds] of [...cases, ...cases]) {
    const bits = admittedRows(filter, { columns, rows, firstRow: 0 });

    expect(
      Array.from({ length: rows }, (_, row) => admits(bits, row) === holds(row)),
    ).not.toContain(false);
    bits.fill(0);
  }
  expect(reads.count).toBe(rows);
});

test("the first rows of a table are found in each of its parts", () => {
  const rowsBefore = (end: number, firstRow: number): number[] => {
    const filter: Filter = { kind: "test", attribute: ROW_COLUMN, is: "lt", values: [end] };
    const bits = admittedRows(filter, { columns: new Map(), rows: 19, firstRow });
    return Array.from({ length: 19 }, (_, row) => row).filter(
      (row) => ((bits[row >> 3]! >> (row & 7)) & 1) === 1,
    );
  };

  for (const end of [0, 1, 8, 15, 19, 100]) {
    expect(rowsBefore(end, 0)).toHaveLength(Math.min(end, 19));
    expect(rowsBefore(end, 12)).toHaveLength(Math.min(Math.max(0, end - 12), 19));
  }
  expect(rowsBefore(15, 12)).toEqual([0, 1, 2]);
  const other: Filter = { kind: "test", attribute: ROW_COLUMN, is: "gt", values: [1] };
  const rows = { columns: new Map(), rows: 19, firstRow: 0 };
  expect(() => admittedRows(other, rows)).toThrow("Rows are only asked for before a number");
});
