// Items and their attributes as files bring them: what pyarrow reads of Parquet files written in several ways,
// lines of JSON, and files that are at fault.

import { createHash } from "node:crypto";
import { cpSync, mkdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import path from "node:path";
import { beforeAll, describe, expect, test, vi } from "vitest";
import { WinnowError, valueOfCode } from "@winnow/core";
import type { AttributeColumn, AttributeSpec, StringColumn } from "@winnow/core";
import { temporaryDirectory } from "../../../../test/temporary-directory.ts";
import { identityModel, writeExport } from "../onnx-directory/fixtures/onnx-exports.ts";
import {
  dataPage,
  dictionaryPage,
  levels,
  parquetFile,
  run,
  varint,
  withFooter,
} from "../onnx-directory/fixtures/parquet-files.ts";
import type { WrittenChunk } from "../onnx-directory/fixtures/parquet-files.ts";
import { FuzzSource } from "../saved-model/fixtures/model-fuzz.ts";
import { openModelVersion } from "../model-directory.ts";
import type { ModelVersion } from "../model-version.ts";

const SEED = Number(process.env["FUZZ_SEED"] ?? 1);
const DATA = path.resolve(import.meta.dirname, "../../../../test/data/attributes");
const recordedIn = (name: string): Readonly<Record<string, readonly unknown[]>> =>
  JSON.parse(readFileSync(path.join(DATA, name), "utf8")) as Record<string, unknown[]>;
const recorded = recordedIn("values.json");
const ROWS = recorded["id"]!.length;
const root = temporaryDirectory();
const base = path.join(root, "base");

/** A model of which item r, of all but the last, is named as the recorded one, in reverse order. */
beforeAll(() => {
  const ids = Array.from({ length: ROWS + 1 }, (_, row) => `item ${ROWS - row}`);
  const items = Buffer.from(
    Float32Array.from({ length: (ROWS + 1) * 3 }, (_, at) => at % 7).buffer,
  );
  writeExport(base, {
    "model.onnx": identityModel(3),
    "items.safetensors": safetensors(items, [ROWS + 1, 3]),
    "ids.txt": Buffer.from(`${ids.join("\n")}\n`),
    "winnow.json": {
      retrieval: { items: { file: "items.safetensors" }, ids: { file: "ids.txt" }, k: 1 },
    },
  });
});

function safetensors(bytes: Uint8Array, shape: readonly number[]): Uint8Array {
  const facts = { items: { dtype: "F32", shape, data_offsets: [0, bytes.length] } };
  const header = Buffer.from(JSON.stringify(facts));
  const length = Buffer.alloc(8);
  length.writeBigUInt64LE(BigInt(header.length));
  return Buffer.concat([length, header, bytes]);
}

let versions = 0;

/** Columns of Parquet files that are written by hand. */
const ID = { name: "id", kind: "text" } as const;
const LIST = { name: "list", kind: "list" } as const;
/** The chunk of the first of these, of one row. */
const ONE_ID: WrittenChunk = { pages: dataPage(1, levels(Buffer.from("item 1"))), values: 1 };

/** A copy of the model with a file that describes its items. */
function opened(name: string, content: Uint8Array | string, partitionBytes = 100): ModelVersion {
  versions += 1;
  const directory = path.join(root, `version ${versions % 8}`);
  rmSync(directory, { recursive: true, force: true });
  cpSync(base, directory, { recursive: true });
  mkdirSync(path.join(directory, "assets.extra"));
  writeFileSync(path.join(directory, "assets.extra", name), content);
  return openModelVersion(directory, { partitionBytes });
}

function cellOf(column: AttributeColumn, row: number): unknown {
  const one = (code: number): unknown => {
    const value = valueOfCode(column, code);
    if (column.spec.type === "timestamp") return value === undefined ? null : { us: String(value) };
    const isInteger = column.spec.type === "integer" && value !== undefined;
    return isInteger ? { int: String(value) } : (value ?? null);
  };
  const { offsets, codes } = column;
  if (offsets === undefined) return one(codes[row]!);
  const list = Array.from(codes.subarray(offsets[row], offsets[row + 1]), one);
  return list.length === 1 && list[0] === null ? null : list;
}

/** Values of each attribute by the id of the item, over all partitions. */
function read(version: ModelVersion): Map<string, Map<string, unknown>> {
  const [table] = version.program.tables;
  const items = new Map<string, Map<string, unknown>>();
  for (let partition = 0; partition < table!.partitions; partition += 1) {
    const { ids, rows, attributes = [] } = version.openPartition(0, partition);
    for (let row = 0; row < rows; row += 1) {
      const id = (ids!.data as StringColumn).textAt(row);
      items.set(id, new Map(attributes.map((column) => [column.spec.name, cellOf(column, row)])));
    }
  }
  version.close();
  return items;
}

function specsOf(version: ModelVersion): readonly AttributeSpec[] {
  const [table] = version.program.tables;
  return (table?.kind === "candidate" ? table.attributes : undefined) ?? [];
}

describe.each("plain snappy gzip small_pages row_groups format_1".split(" "))(
  "a Parquet file stored as %s",
  (way) => {
    const content = readFileSync(path.join(DATA, `${way}.parquet`));

    test("gives each item the values that pyarrow reads, and none to an item that it lacks", () => {
      const version = opened("items.parquet", content);
      expect(version.program.tables[0]!.partitions).toBeGreaterThan(3);
      const types = new Map(specsOf(version).map(({ name, ...rest }) => [name, rest]));
      expect(types.get("text")).toEqual({ type: "string", isList: false });
      expect(types.get("unsigned")).toEqual({ type: "integer", isList: false });
      expect(types.get("millis")).toEqual({ type: "timestamp", isList: false });
      expect(types.get("numbers")).toEqual({ type: "integer", isList: true });
      const items = read(version);
      for (const [name, values] of Object.entries(recorded)) {
        // Format 1 has no nanoseconds.
        if (name === "id" || (name === "nanos" && way === "format_1")) continue;
        const found = recorded["id"]!.map((id) => items.get(String(id))!.get(name));
        expect({ name, values: found }).toEqual({ name, values });
      }
      expect(new Set(items.get(`item ${ROWS}`)!.values())).toEqual(new Set([null]));
    });
  },
);

test.each(["warehouse", "warehouse_integers"])(
  "decimals and INT96 of %s are the nearest numbers and times",
  (name) => {
    const version = opened("items.parquet", readFileSync(path.join(DATA, `${name}.parquet`)));

    const types = Object.fromEntries(specsOf(version).map((spec) => [spec.name, spec.type]));
    const floats = { price: "float", total: "float", rate: "float" };
    expect(types).toEqual({ ...floats, whole: "integer", moment: "timestamp" });
    const items = read(version);
    const { id: ids, ...columns } = recordedIn("warehouse.json");
    for (const [column, values] of Object.entries(columns)) {
      const found = ids!.map((id) => items.get(String(id))!.get(column));
      expect({ column, values: found }).toEqual({ column, values });
    }
  },
);

describe("a version with attributes", () => {
  test("is another content than without, and than with others", () => {
    const without = openModelVersion(base).program.fingerprint;
    const line = (year: number) => `{"id":"item 1","year":${year}}\n`;
    const prints = [1990, 1991, 1990].map(
      (year) => opened("items.jsonl", line(year)).program.fingerprint,
    );
    expect(prints[2]).toBe(prints[0]);
    expect(new Set([without, ...prints]).size).toBe(3);
  });

  test("a small file is read once: what replaces it later is another content", () => {
    const version = opened("items.jsonl", '{"id":"item 1","year":1}\n');
    const collected = vi.spyOn(WeakRef.prototype, "deref").mockReturnValue(undefined);
    try {
      writeFileSync(path.join(version.directory, "assets.extra/items.jsonl"), "replaced");
      expect(version.openPartition(0, 0).attributes).toHaveLength(1);
    } finally {
      collected.mockRestore();
    }
  });

  test("a large file is read once for loads that follow; later it is refused where it was replaced", () => {
    vi.useFakeTimers();
    const blankLines = `${" ".repeat(2 ** 20 - 1)}\n`.repeat(8);
    const version = opened("items.jsonl", `${blankLines}{"id":"item 1","year":1}\n`);
    const collected = vi.spyOn(WeakRef.prototype, "deref").mockReturnValue(undefined);
    try {
      const file = path.join(version.directory, "assets.extra/items.jsonl");
      writeFileSync(file, '{"id":"item 1","year":2}\n');
      expect(version.openPartition(0, 0).attributes).toHaveLength(1);
      vi.advanceTimersByTime(60_000);
      expect(vi.getTimerCount()).toBe(0);
      expect(() => version.openPartition(0, 0)).toThrow(
        "not what it was when the version was opened",
      );
    } finally {
      collected.mockRestore();
      vi.useRealTimers();
    }
  });

  test("of several large files, only what was read last is kept", () => {
    vi.useFakeTimers();
    const blankLines = `${" ".repeat(2 ** 20 - 1)}\n`.repeat(8);
    const lines = `${blankLines}{"id":"item 1","year":1}\n`;
    const [first, second] = [opened("items.jsonl", lines), opened("items.jsonl", lines)];
    const collected = vi.spyOn(WeakRef.prototype, "deref").mockReturnValue(undefined);
    try {
      for (const { directory } of [first, second]) {
        writeFileSync(path.join(directory, "assets.extra/items.jsonl"), '{"id":"item 1"}\n');
      }
      expect(second.openPartition(0, 0).attributes).toHaveLength(1);
      expect(() => first.openPartition(0, 0)).toThrow("not what it was");
      second.close();
      expect(vi.getTimerCount()).toBe(0);
    } finally {
      collected.mockRestore();
      vi.useRealTimers();
    }
  });

  test("reads lines of JSON behind a byte order mark", () => {
    const lines = '{"id":"item 1","year":1}\n{"id":"item 2","year":2}\n';
    const version = opened("items.jsonl", `\uFEFF${lines}`);
    expect(specsOf(version)).toEqual([{ name: "year", type: "integer", isList: false }]);
    expect(read(version).get("item 1")).toEqual(new Map([["year", { int: "1" }]]));
  });

  test("reads lines of JSON: types by their values, null and missing alike", () => {
    const lines = [
      '{"id":"item 1","a":1,"b":"x","c":true,"l":["x","y"]}',
      "",
      '{"a":1.5,"id":"item 2","b":null,"l":[],"d":null}',
      '{"id":"item 3","c":false,"l":["z",null],"__proto__":"p"}',
      '{"id":"not of the model","a":7}',
    ];
    const version = opened("items.jsonl", lines.join("\n"));
    expect(specsOf(version)).toEqual([
      { name: "a", type: "float", isList: false },
      { name: "b", type: "string", isList: false },
      { name: "c", type: "boolean", isList: false },
      { name: "l", type: "string", isList: true },
      { name: "d", type: "string", isList: false },
      { name: "__proto__", type: "string", isList: false },
    ]);
    const items = read(version);
    const values = (id: string) => [...items.get(id)!.values()];
    expect(values("item 1")).toEqual([1, "x", true, ["x", "y"], null, null]);
    expect(values("item 2")).toEqual([1.5, null, null, [], null, null]);
    expect(values("item 3")).toEqual([null, null, false, ["z"], null, "p"]);
    expect(values("item 4")).toEqual([null, null, null, null, null, null]);
  });

  test("reads CSV: types by what all fields of a column read as, empty ones as no value", () => {
    const lines = [
      "\uFEFFint,float,text,bool,id,postcode,date,none,large",
      '1,2.5,"a, ""b""\r\nc",true,item 1,01234,2024-01-31,,9223372036854775807',
      "-7,1e3,,FALSE,item 2,9,,,-1",
      "",
      ",0,12x,,item 3,,2023-12-01,,",
      "4,.5,x,True,not of the model,1,,,2",
    ];
    const version = opened("items.csv", lines.join("\r\n"));
    expect(specsOf(version).map(({ name, type, isList }) => `${name} ${type} ${isList}`)).toEqual([
      "int integer false",
      "float float false",
      "text string false",
      "bool boolean false",
      "postcode string false",
      "date string false",
      "none string false",
      "large integer false",
    ]);
    const items = read(version);
    const values = (id: string) => [...items.get(id)!.values()];
    const int = (value: string) => ({ int: value });
    expect(values("item 1")).toEqual([
      int("1"),
      2.5,
      'a, "b"\r\nc',
      true,
      "01234",
      "2024-01-31",
      null,
      int("9223372036854775807"),
    ]);
    expect(values("item 2")).toEqual([int("-7"), 1000, null, false, "9", null, null, int("-1")]);
    expect(values("item 3")).toEqual([null, 0, "12x", null, null, "2023-12-01", null, null]);
    expect(values("item 4")).toEqual([null, null, null, null, null, null, null, null]);
  });

  test("reads lines of JSON whose texts look as if a key stood in them twice", () => {
    const lines = ['{"id":"item 1","x":": \\"x\\":2"}', '{"id":"item 2","x":"\\\\"}'];
    const items = read(opened("items.jsonl", lines.join("\n")));

    const texts = ["item 1", "item 2"].map((id) => items.get(id)!.get("x"));
    expect(texts).toEqual([': "x":2', "\\"]);
  });

  test("reads CSV of megabytes, with line breaks within quotes, as JSON lines of the same values", () => {
    const rows = Array.from({ length: 40_000 }, (_, row) => ({
      id: `item ${row}`,
      n: row * 3,
      text: `${"line\n".repeat(row % 5)}"${row % 97}", end`,
    }));
    const quoted = (text: string) => `"${text.replaceAll('"', '""')}"`;
    const csv = rows.map(({ id, n, text }) => `${id},${n},${quoted(text)}\n`).join("");
    expect(csv.length).toBeGreaterThan(1.2 * 2 ** 20);
    const fromCsv = read(opened("items.csv", `id,n,text\n${csv}`));
    const lines = rows.map((row) => `${JSON.stringify(row)}\n`).join("");
    expect(fromCsv).toEqual(read(opened("items.jsonl", lines)));
  });

  test("lines that are parsed many at a time are those that are parsed one by one, as beside empty ones", () => {
    const lines = Array.from({ length: 4000 }, (_, row) =>
      JSON.stringify({
        ...(row % 7 > 0 && { x: row % 11 }),
        id: `item ${row}`,
        [`y${row % 3}`]: [row % 5, "1073741823"].slice(row % 2, 1 + (row % 2)).map(String),
      }),
    );

    const [together, apart] = ["\n", "\n \n"].map((end) =>
      read(opened("items.jsonl", lines.join(end))),
    );

    expect(lines.join("\n").length).toBeGreaterThan(2 * 2 ** 16);
    expect(together).toEqual(apart);
  });

  test.each([
    ["CSV", "items.csv", "id,x\n0,10\n2,12\n"],
    ["texts in JSON lines", "items.jsonl", '{"id":"0","x":10}\n{"id":"2","x":12}\n'],
  ])("ids of %s name items that the model numbers", (_, name, content) => {
    const { directory } = opened(name, content);
    const facts = { retrieval: { items: { file: "items.safetensors" }, k: 1 } };
    writeFileSync(path.join(directory, "winnow.json"), JSON.stringify(facts));
    const version = openModelVersion(directory, { partitionBytes: 2 ** 20 });
    const [column] = version.openPartition(0, 0).attributes!;
    const values = [0, 1, 2, 3].map((row) => cellOf(column!, row));
    version.close();
    expect(values).toEqual([{ int: "10" }, null, { int: "12" }, null]);
  });

  const refused: readonly (readonly [file: string, content: string | Buffer, message: string])[] = [
    ["items.csv", Buffer.from('id,x\na,"1\n2"\nb,caf\xe9\n', "latin1"), "line 4 is not UTF-8"],
    ["items.csv", Buffer.from("id,x\nb,\xe9", "latin1"), "line 2 is not UTF-8"],
    ["items.jsonl", Buffer.from('{"id":"a"}\n{"id":"\xe9"}\n', "latin1"), "line 2 is not UTF-8"],
    ["items.csv", "", 'has no "id" (or "item_id")'],
    ["items.csv", "id;year\na;1\n", 'its header has ";" where commas belong'],
    ["items.csv", "id,year\na,1\nb\n", "line 3: 1 fields where the header has 2"],
    ["items.csv", "id,year\na,1\n,2\n", "line 3: no id"],
    ["items.csv", 'id,x\na,"1\n2"\nb,"3"4\n', "line 4 is no CSV"],
    ["items.csv", 'id,x\na,"1\n2\n', "line 3 is no CSV"],
    ["items.csv", `id,x\na,"${"y\n".repeat(2 ** 19)}"\n`, "a quoted field of more than"],
    ["items.csv", "id,x\na,1\na,2\n", 'id "a" stands in items 1 and 2'],
    ["items.csv", "id,x,x\na,1,2\n", "stands twice"],
    ["items.csv", "id,$x\na,1\n", "cannot be an attribute"],
    [
      "items.csv",
      ",id,x\n0,a,1\n",
      "a column has no name; name it, or leave it out (pandas: index",
    ],
    ["items.csv", 'id;x\na;"1"\n', 'its header has ";" where commas belong; separate fields by'],
    ["items.csv", "\uFEFFid\tx\na\t1\n", String.raw`its header has "\t" where commas belong`],
    ["items.jsonl", '[{"id":"a"},{"id":"b"}]', "write one object a line, without a list around"],
    ["items.csv", `id,x\na,${"y".repeat(2100)}\n`, 'attribute "x": A value has 2102 bytes'],
    ["items.jsonl", '{"id":"a"', "line 1 is no JSON object"],
    ["items.jsonl", '{"id":"a"}\n[1]', "line 2 is no JSON object"],
    // Joined by commas, the lines of each of these would be objects.
    ["items.jsonl", '{"id":"a","x":[{}\n{}]}', "line 1 is no JSON object"],
    ["items.jsonl", '{"id":"a"},{"id":"b"}', "line 1 is no JSON object"],
    [
      "items.jsonl",
      '{"id":"a"}\n{"id":"b","x":[1\n2]}\n{"id":"c"},0,{"id":"d"}',
      'line 2 is no JSON object: {"id":"b","x":[1',
    ],
    ["items.jsonl", '{"name":"a"}', 'has no "id" (or "item_id")'],
    ["items.jsonl", '{"id":"a"}\n{"x":1}', 'line 2: it has no "id"'],
    ["items.jsonl", '{"id":"a"}\n{"id":null}', "line 2: an id is a text or an integer"],
    [
      "items.jsonl",
      '{"id":"a","x":1}\n{"id":"b","x":"1"}',
      'line 2: attribute "x": it is string here',
    ],
    [
      "items.jsonl",
      '{"id":"a","x":[1]}\n{"id":"b","x":1}',
      "lists for some items and values for others",
    ],
    ["items.jsonl", `{"id":"a","x":"${"é".repeat(1024)}"}`, "A value has 2050 bytes; attributes"],
    ["items.jsonl", `{"id":"a","x":[${"7,".repeat(600)}7]}`, "A value has 4808 bytes; attributes"],
    ["items.jsonl", '{"id":"a","x":{"y":1}}', "attributes are values, or lists of values"],
    ["items.jsonl", '{"id":"a","x":9007199254740993}', "beyond 2^53"],
    [
      "items.jsonl",
      '{"id":"a","x":1}\n{"id":"b","x":1,"x":2}',
      'line 2 has the key "x" twice; leave one of them',
    ],
    ["items.jsonl", '\n{"id":"a", "id" :"b"}', 'line 2 has the key "id" twice'],
    ["items.jsonl", '{"id":"a","\\u0078":1,"x" \t: 2}\n', 'line 1 has the key "x" twice'],
    ["items.jsonl", '{"id":"a","$x":1}', "cannot be an attribute"],
    ["items.jsonl", '{"id":"a"}\n{"id":"b"}\n{"id":"a"}', 'id "a" stands in items 1 and 3'],
    ["items.jsonl", '{"id":1}\n{"id":"b"}', "some ids are texts and some are integers"],
    ["items.jsonl", `{"id":"a","x":"${"y".repeat(2 ** 21)}"}`, "a line of more than"],
    ["items.parquet", "PAR1", "it is no Parquet file"],
  ];
  // A title ends with what is told: contents may have megabytes.
  test.each(refused.map(([name, content, message]) => ({ name, content, message })))(
    "refuses $name: $message",
    ({ name, content, message }) => {
      expect(() => opened(name, content)).toThrow(message);
    },
  );

  test("refuses ids of another type than the model's", () => {
    const integers = '{"id":1,"x":1}';
    expect(() => opened("items.jsonl", integers)).toThrow("its ids are integers, those of table");
  });

  test.each([
    ["bad_struct", "is nested"],
    ["bad_nested", "is nested"],
    ["bad_no_id", 'has no "id"'],
    ["bad_twice", 'id "a" stands in items 1 and 3'],
    // 251 bytes; read, they would be 20 million ids.
    ["bad_rows", `it has 20000000 rows, where the model has ${ROWS + 1} items; at most 16777216`],
  ])("refuses the Parquet file %s", (name, message) => {
    const content = readFileSync(path.join(DATA, `${name}.parquet`));
    expect(() => opened("items.parquet", content)).toThrow(message);
  });

  test("refuses a Parquet file whose footer is encrypted", () => {
    const content = withFooter(Buffer.from("PAR1"), Buffer.alloc(8), { magic: "PARE" });
    expect(() => opened("items.parquet", content)).toThrow("its footer is encrypted");
  });

  describe("of a Parquet file whose few bytes stand for very much", () => {
    const MANY = 2 ** 24;
    const start = Buffer.from("PAR1");
    const zeros = Buffer.concat([Buffer.from([1]), run(MANY, 0)]);
    const dictionary = { encoding: 8 };
    const sevens = dictionaryPage(1, Buffer.from([7, 0, 0, 0, 0, 0, 0, 0]));
    /** A list of one element and fifty pages in which it goes on, of elements at a definition level. */
    const list = (level: number): Buffer => {
      const first = Buffer.concat([levels(run(1, 0)), levels(run(1, 1)), zeros]);
      const rest = Buffer.concat([levels(run(MANY, 1)), levels(run(MANY, level)), zeros]);
      const more = Array<Buffer>(50).fill(dataPage(MANY, rest, dictionary));
      const pages = Buffer.concat([sevens, dataPage(1, first, dictionary), ...more]);
      const chunks = [ONE_ID, { pages, values: 1 + 50 * MANY }];
      return parquetFile([ID, LIST], [{ rows: 1, chunks }]);
    };
    /** A footer of nothing but empty structs, as its schema. */
    const structs = (count: number): Buffer =>
      Buffer.concat([Buffer.from([0x29, 0xfc]), varint(count), Buffer.alloc(count + 1)]);
    const rows = 2n ** 40n;

    test.each([
      {
        what: "rows",
        content: parquetFile([ID], [{ rows, chunks: [{ ...ONE_ID, values: rows }] }]),
        message: "it has 1099511627776 rows, where the model has",
      },
      {
        what: "elements of a list",
        content: list(1),
        message: 'column "list" cannot be an attribute: a list has more than 1024 elements',
      },
      {
        what: "missing elements of a list",
        content: list(0),
        message: 'column "list" cannot be an attribute: a list has more than 1024 elements',
      },
      {
        what: "structs in its footer",
        content: withFooter(start, structs(2 ** 21)),
        message: "more than 1048576 structs, lists and texts in its metadata",
      },
      {
        what: "values in its footer",
        content: withFooter(start, structs(2 ** 25)),
        message: "more than 16777216 values in its metadata",
      },
      {
        what: "bytes of a footer",
        content: withFooter(start, Buffer.alloc(8), { claimed: 2 ** 32 - 1 }),
        message: "a footer of 4294967295 bytes; it may be truncated",
      },
    ])("refuses it for its $what", ({ content, message }) => {
      expect(() => opened("items.parquet", content)).toThrow(message);
    });
  });

  test("a Parquet file may have row groups without rows, as a writer of empty pieces leaves them", () => {
    const none = { rows: 0, chunks: [{ pages: Buffer.alloc(0), values: 0 }] };
    const content = parquetFile([ID], [none, { rows: 1, chunks: [ONE_ID] }, none]);

    expect(opened("items.parquet", content).program.tables).toHaveLength(1);
  });

  describe("of texts in Parquet that are not UTF-8", () => {
    const plain = readFileSync(path.join(DATA, "plain.parquet")).toString("latin1");
    const withBytes = (text: string, bytes: Buffer): Buffer =>
      Buffer.from(plain.replaceAll(latin1(text), latin1(bytes)), "latin1");
    const latin1 = (text: string | Buffer): string => Buffer.from(text).toString("latin1");

    test.each([
      ["item 3", "item \xff", 'column "id" holds "item \uFFFD", not UTF-8'],
      ["drama", "dr\xe9ma", 'column "text" holds "dr\uFFFDma", not UTF-8'],
      ["sea", "s\xe9a", 'column "texts" holds "s\uFFFDa", not UTF-8'],
    ])("refuses %s", (text, other, message) => {
      const content = withBytes(text, Buffer.from(other, "latin1"));

      expect(() => opened("items.parquet", content)).toThrow(message);
    });

    test("takes the character U+FFFD, which stands for such bytes elsewhere", () => {
      const items = read(opened("items.parquet", withBytes("日", Buffer.from("\uFFFD"))));

      expect(items.get("item 2")!.get("text")).toBe("\uFFFD");
    });
  });

  test("refuses a file that SHA256SUMS lists and that differs; one that is not listed is read", () => {
    const content = '{"id":"item 1","x":1}';
    const { directory } = opened("items.jsonl", content);
    const sums = (name: string, listed: string | Buffer): string =>
      `${createHash("sha256").update(listed).digest("hex")}  ./${name}\n`;
    const others = ["ids.txt", "items.safetensors", "model.onnx", "winnow.json"]
      .map((name) => sums(name, readFileSync(path.join(directory, name))))
      .join("");
    const listedIn = (manifest: string): boolean | undefined => {
      writeFileSync(path.join(directory, "SHA256SUMS"), manifest);
      const version = openModelVersion(directory);
      version.close();
      return version.files?.find(({ name }) => name === "assets.extra/items.jsonl")?.isListed;
    };

    expect(listedIn(others + sums("assets.extra/items.jsonl", content))).toBe(true);
    expect(listedIn(others)).toBe(false);
    expect(() => listedIn(others + sums("assets.extra/items.jsonl", "{}"))).toThrow(
      "assets.extra/items.jsonl is not the file that SHA256SUMS lists",
    );
  });

  test("refuses two files, and one beside a model that searches nothing", () => {
    const both = opened("items.jsonl", '{"id":"a"}');
    writeFileSync(path.join(both.directory, "assets.extra/items.parquet"), "");
    expect(() => openModelVersion(both.directory)).toThrow("leave one of them");
  });

  test.each([
    ["items.parquet", readFileSync(path.join(DATA, "row_groups.parquet"))],
    ["items.csv", Buffer.from('id,a,b\r\nitem 1,1,"x, ""y""\r\nz"\r\nitem 2,2.5,true\r\n')],
  ])(
    `survives damage of %s from seed ${SEED}: an error of Winnow's, or values`,
    (name, content) => {
      const others: unknown[] = [];
      const inputs = Math.ceil(Number(process.env["FUZZ_INPUTS"] ?? 300) / 10);
      for (let input = 0; input < inputs; input += 1) {
        const source = new FuzzSource(SEED, input);
        const damaged = Buffer.from(content);
        for (let left = 1 + source.below(4); left > 0; left -= 1) {
          damaged[source.below(damaged.length)] = source.below(256);
        }
        try {
          read(opened(name, damaged));
        } catch (error) {
          if (!(error instanceof WinnowError)) others.push({ input, error });
        }
      }
      expect(others).toEqual([]);
    },
  );
});
