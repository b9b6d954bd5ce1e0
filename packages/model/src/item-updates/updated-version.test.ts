// Changes to the items of a model, one by one, as a file beside it brings them: which rows there are then, beside those of
// the model, and what is refused. That TensorFlow gives the same answers with all items is in test/oracle.test.ts.

import {
  appendFileSync,
  cpSync,
  mkdirSync,
  readFileSync,
  readdirSync,
  writeFileSync,
} from "node:fs";
import path from "node:path";
import { createHash } from "node:crypto";
import { describe, expect, test } from "vitest";
import { WITHDRAWN, WinnowError, valueOfCode } from "@winnow/core";
import type { CandidateTable, StringColumn } from "@winnow/core";
import { temporaryDirectory } from "../../../../test/temporary-directory.ts";
import { identityModel, npy, writeExport } from "../onnx-directory/fixtures/onnx-exports.ts";
import { openModelVersion } from "../model-directory.ts";
import type { ModelVersion } from "../model-version.ts";
import { StoredDirectory } from "../storage/stored-directory.ts";
import { OpenUpdates } from "./open-updates.ts";
import { readItemUpdates } from "./update-file.ts";

const root = temporaryDirectory();
const RECORDED = path.resolve(import.meta.dirname, "../../../../test/data/savedmodels");
const ROWS = 10;
let versions = 0;

interface Written {
  readonly updates: string | Uint8Array;
  readonly dtype?: "f4" | "f2" | undefined;
  readonly similarity?: string | undefined;
  readonly ids?: "text" | "int64" | "int32" | "none" | undefined;
  /** More files, by name. */
  readonly files?: Readonly<Record<string, string>> | undefined;
}

/** Ten items of two values; item r has [r, 1]. */
function directoryOf({ updates, dtype = "f4", similarity = "dot", ids = "text", files }: Written) {
  versions += 1;
  const values = Array.from({ length: 2 * ROWS }, (_, at) => (at % 2 === 0 ? at / 2 : 1));
  const numbers = Array.from({ length: ROWS }, (_, row) => row);
  const rows =
    dtype === "f4" ? Float32Array.from(values) : Uint16Array.from(values, (value) => halfOf(value));
  const ofIds = {
    none: {},
    text: { "ids.txt": numbers.map((row) => `item ${row}\n`).join("") },
    int64: { "ids.npy": npy(["<i8", [ROWS]], BigInt64Array.from(numbers, BigInt)) },
    int32: { "ids.npy": npy(["<i4", [ROWS]], Int32Array.from(numbers)) },
  }[ids];
  const [file] = Object.keys(ofIds);
  const directory = writeExport(path.join(root, `version ${versions}`), {
    "model.onnx": identityModel(2),
    "items.npy": npy([`<${dtype}`, [ROWS, 2]], rows),
    ...ofIds,
    "winnow.json": {
      retrieval: {
        items: { file: "items.npy" },
        ...(file !== undefined && { ids: { file } }),
        similarity,
        k: 1,
      },
    },
  });
  mkdirSync(path.join(directory, "assets.extra"));
  writeFileSync(path.join(directory, "assets.extra/item-updates.jsonl"), updates);
  for (const [name, content] of Object.entries(files ?? {})) {
    writeFileSync(path.join(directory, name), content);
  }
  return directory;
}

/** Of small integers. */
function halfOf(value: number): number {
  if (value === 0) return 0;
  const exponent = Math.floor(Math.log2(value));
  return ((exponent + 15) << 10) | ((value / 2 ** exponent - 1) * 1024);
}

const opened = (written: Written, partitionBytes = 24): ModelVersion =>
  openModelVersion(directoryOf(written), { partitionBytes });

const tableOf = ({ program }: ModelVersion): CandidateTable => program.tables[0] as CandidateTable;

interface ReadRow {
  readonly id: string;
  readonly row: number;
  readonly values: readonly number[];
  readonly isWithdrawn: boolean;
}

/** All rows of the one table. */
function rowsOf(version: ModelVersion): ReadRow[] {
  const { partitions, dim } = tableOf(version);
  return Array.from({ length: partitions }, (_, partition) => {
    const reader = version.openPartition(0, partition);
    const chunks = [...reader.chunks()].flatMap((chunk) => Array.from(chunk));
    const column = reader.attributes?.find(({ spec }) => spec.name === WITHDRAWN.name);
    return Array.from({ length: reader.rows }, (_row, at) => ({
      id: String(
        reader.ids?.dtype === "string" ? reader.ids.data.textAt(at) : reader.ids?.data[at],
      ),
      row: reader.firstRow + at,
      values: chunks.slice(at * dim, (at + 1) * dim),
      isWithdrawn: column !== undefined && valueOfCode(column, column.codes[at]!) !== undefined,
    }));
  }).flat();
}

/** The id and the values of each item that searches may find. */
const offered = (version: ModelVersion): readonly (readonly unknown[])[] =>
  rowsOf(version)
    .filter(({ isWithdrawn }) => !isWithdrawn)
    .map(({ id, values }) => [id].concat(values.map(String)));

const line = (change: object): string => `${JSON.stringify(change)}\n`;

describe("items that are changed", () => {
  const updates = [
    line({ id: "new", vector: [0.5, -1] }),
    line({ id: "item 3", vector: [1, 1] }),
    line({ id: "item 7", removed: true }),
    "\n",
    line({ id: "item 9", removed: true }),
    line({ id: "unknown", removed: true }),
    line({ id: "item 9", vector: [9, 9] }),
    line({ id: "item 3", vector: [3, 0.25] }).trimEnd(),
  ].join("");

  test("follow those of the model, whose rows keep their numbers, in partitions of their own", () => {
    const version = opened({ updates });
    const plain = openModelVersion(directoryOf({ updates: "" }), { partitionBytes: 24 });
    const own = tableOf(plain).partitions;

    expect(tableOf(version)).toMatchObject({
      rows: 13,
      partitions: own + 1,
      original: { rows: 10, partitions: own },
      masks: [WITHDRAWN],
    });
    const rows = rowsOf(version);
    expect(rows.map(({ row }) => row)).toEqual(Array.from({ length: 13 }, (_, row) => row));
    expect(rows.slice(0, 10).map(({ values }) => values)).toEqual(
      rowsOf(plain).map(({ values }) => values),
    );
    expect(rows.filter(({ isWithdrawn }) => isWithdrawn).map(({ id }) => id)).toEqual([
      "item 3",
      "item 7",
      "item 9",
    ]);
    expect(offered(version).slice(7)).toEqual([
      ["new", "0.5", "-1"],
      ["item 9", "9", "9"],
      ["item 3", "3", "0.25"],
    ]);
    expect(version.changes).toEqual({
      file: "assets.extra/item-updates.jsonl",
      vectors: 3,
      removed: 2,
    });
  });

  test("leave the checksums of the model's tensors as they are", () => {
    const version = opened({ updates });
    const { partitions, sources } = tableOf(version);
    const sums = sources.map(() => 0);
    for (let partition = 0; partition < partitions; partition += 1) {
      const reader = version.openPartition(0, partition);
      expect([...reader.chunks()].length).toBeGreaterThan(0);
      for (const [at, share] of reader.checksumShares().entries()) sums[at]! ^= share;
    }

    expect(sums.map((sum) => sum >>> 0)).toEqual(sources.map(({ checksum }) => checksum));
  });

  test("make another content, of the same rows as every other file makes of the model", () => {
    const plain = openModelVersion(directoryOf({ updates: "" }));
    const version = opened({ updates });
    const other = opened({ updates: line({ id: "new", vector: [1, 2] }) });
    const prints = [plain, version, other].map(({ program }) => program.fingerprint);

    expect(new Set(prints).size).toBe(3);
    expect(version.rowsFingerprint).toBe(plain.rowsFingerprint);
    expect(other.rowsFingerprint).toBe(plain.rowsFingerprint);
  });

  test("may be none", () => {
    const version = opened({ updates: "" });

    expect(tableOf(version)).toMatchObject({ rows: 10, masks: [WITHDRAWN] });
    expect(tableOf(version).original).toBeUndefined();
    expect(offered(version)).toHaveLength(10);
    expect(() => version.openPartition(0, 99)).toThrow(/has partitions 0 to \d+, not 99/);
  });

  test("may be more than one partition of the cluster's size", () => {
    const more = Array.from({ length: 20 }, (_, at) => line({ id: `new ${at}`, vector: [at, 0] }));
    const version = opened({ updates: more.join("") });

    expect(tableOf(version).partitions - tableOf(version).original!.partitions).toBeGreaterThan(4);
    expect(offered(version).slice(10)).toEqual(
      Array.from({ length: 20 }, (_, at) => [`new ${at}`, String(at), "0"]),
    );
  });

  test("are brought to the length of the model's", () => {
    const version = opened({ updates: line({ id: "new", vector: [3, 4] }), similarity: "cosine" });

    const [, ...values] = offered(version).at(-1)!;
    expect(values.map(Number)).toEqual([0.6, 0.8].map(Math.fround));
  });

  test("are rounded to what the model's table stores", () => {
    const version = opened({ updates: line({ id: "new", vector: [0.1, 2049] }), dtype: "f2" });

    expect(offered(version).at(-1)).toEqual(["new", "0.0999755859375", "2048"]);
  });

  test("have ids of the model's type, integers beyond 2^53 as texts", () => {
    const version = opened({
      ids: "int64",
      updates: [
        line({ id: 3, removed: true }),
        line({ id: "9007199254740993", vector: [1, 2] }),
        line({ id: -5, vector: [1, 3] }),
        line({ id: "-5", vector: [1, 4] }),
      ].join(""),
    });

    expect(offered(version).slice(-2)).toEqual([
      ["9007199254740993", "1", "2"],
      ["-5", "1", "4"],
    ]);
    expect(offered(version)).toHaveLength(11);
  });

  test("are described by the file of attributes, as the model's are", () => {
    const version = opened({
      updates: line({ id: "new", vector: [1, 2] }),
      files: { "assets.extra/items.jsonl": line({ id: "new", year: 2026 }) },
    });
    const { partitions } = tableOf(version);

    const { attributes = [] } = version.openPartition(0, partitions - 1);
    expect(attributes.map(({ spec }) => spec.name)).toEqual(["year", WITHDRAWN.name]);
    expect(valueOfCode(attributes[0]!, attributes[0]!.codes[0]!)).toBe(2026);
    expect(version.changes?.vectors).toBe(1);
    expect(version.rowsFingerprint).toBe(
      openModelVersion(directoryOf({ updates: "" })).rowsFingerprint,
    );
  });

  test("are part of the files that determine answers, and as a manifest lists them", () => {
    const name = "assets.extra/item-updates.jsonl";
    const to = path.join(root, "listed");
    cpSync(path.join(RECORDED, "updated_items/1"), to, { recursive: true });
    const files = readdirSync(to, { recursive: true, withFileTypes: true })
      .filter((entry) => entry.isFile())
      .map((entry) => path.relative(to, path.join(entry.parentPath, entry.name)));
    const sumOf = (content: Uint8Array | string): string =>
      createHash("sha256").update(content).digest("hex");
    const lines = files.map((file) => `${sumOf(readFileSync(path.join(to, file)))}  ${file}\n`);
    writeFileSync(path.join(to, "SHA256SUMS"), lines.join(""));

    const { files: bound = [] } = openModelVersion(to);
    const content = readFileSync(path.join(to, name));
    expect(bound.at(-1)).toMatchObject({ name, sha256: sumOf(content), isListed: true });

    appendFileSync(path.join(to, name), line({ id: "item 05", removed: true }));
    expect(() => openModelVersion(to)).toThrow(
      /item-updates\.jsonl is not the file that SHA256SUMS lists/,
    );
  });
});

describe("a file that grows while its version is open", () => {
  const first = line({ id: "item 3", vector: [1, 1] }) + line({ id: "new", vector: [2, 2] });
  const second = line({ id: "item 3", removed: true }) + line({ id: "newer", vector: [3, 3] });
  /** The version of before, the one that the longer file makes of it, and which changes are held. */
  function grown() {
    const openUpdates = new OpenUpdates();
    const directory = directoryOf({ updates: first });
    const options = { partitionBytes: 24, openUpdates };
    const before = openModelVersion(directory, options);
    appendFileSync(path.join(directory, "assets.extra/item-updates.jsonl"), second);
    const after = openModelVersion(directory, options);
    return { directory, openUpdates, before, after };
  }

  test("is the version that it makes when it is read first, and leaves the one before as it was", () => {
    const { directory, before, after } = grown();
    const anew = openModelVersion(directory, { partitionBytes: 24 });

    expect(rowsOf(after)).toEqual(rowsOf(anew));
    expect(after.program).toEqual(anew.program);
    expect([after.files, after.changes]).toEqual([anew.files, anew.changes]);
    expect(rowsOf(before)).toEqual(rowsOf(opened({ updates: first })));
  });

  test("leaves nothing behind when its versions are closed, in whatever order", () => {
    const held = [true, false].map((isOlderFirst) => {
      const { directory, openUpdates, before, after } = grown();
      const [first, second] = isOlderFirst ? [before, after] : [after, before];
      first.close();
      const between = openUpdates.of(directory)?.lines;
      second.close();
      return [between, openUpdates.of(directory)];
    });

    expect(held).toEqual([
      [4, undefined],
      [undefined, undefined],
    ]);
  });
});

describe("a file that is at fault is refused, with its line:", () => {
  const good = line({ id: "a", vector: [1, 2] });
  test.each([
    ["no JSON", `${good}{"id": "b"`, /line 2: it is no JSON object: {"id": "b"/],
    ["a list", "[1]\n", /line 1: it is no JSON object/],
    ["no id", line({ vector: [1, 2] }), /line 1: it has no "id"/],
    [
      "an id that is no text",
      line({ id: 5, vector: [1, 2] }),
      /its "id" is no text, as the ids of table "items.npy/,
    ],
    ["neither", line({ id: "b" }), /its "vector" is no list of numbers where .* stores 2/],
    [
      "both",
      line({ id: "b", vector: [1, 2], removed: true }),
      /"removed" is true, and without a "vector"/,
    ],
    ["not removed", line({ id: "b", removed: false }), /"removed" is true/],
    [
      "a vector of another length",
      `${good}\n${line({ id: "b", vector: [1] })}`,
      /line 3: its "vector" has 1 values where table "items.npy:.*" stores 2/,
    ],
    ["no number", line({ id: "b", vector: [1, "2"] }), /value 1 of its "vector" is no number that/],
    ["an infinity", '{"id":"b","vector":[1e39,2]}', /value 0 of its "vector" is no number that/],
    [
      "an attribute",
      line({ id: "b", vector: [1, 2], year: 5 }),
      /"year" is none of id, vector and removed; attributes of items belong in assets.extra\/items.jsonl/,
    ],
    ["a key twice", '{"id":"b","id":"c","removed":true}', /it has the key "id" twice/],
    ["bytes that are no text", Buffer.from([0x7b, 0xff, 0x7d]), /line 1 is not UTF-8/],
  ])("%s", (_, updates, message) => {
    expect(() => opened({ updates })).toThrow(message);
  });

  test.each([
    [
      "a half that overflows",
      { dtype: "f2", updates: line({ id: "b", vector: [70_000, 1] }) },
      /value 0 of its "vector"/,
    ],
    [
      "an integer that is too large",
      { ids: "int32", updates: line({ id: 2 ** 31, removed: true }) },
      /its "id" is no int32/,
    ],
    [
      "a fraction",
      { ids: "int64", updates: line({ id: 1.5, removed: true }) },
      /its "id" is no int64.*write one of 2\^53 or more as a text/,
    ],
    [
      "half of a character",
      { updates: '{"id":"\\ud83c","removed":true}\n' },
      /line 1: its "id" is no text: it has half of a surrogate pair/,
    ],
    [
      "a text that is no integer",
      { ids: "int64", updates: line({ id: "1e3", removed: true }) },
      /its "id" is no int64/,
    ],
  ] as const)("%s", (_, written, message) => {
    expect(() => opened(written)).toThrow(message);
  });

  test.each([
    [
      { itemsMax: 1, valuesMax: 8 },
      /line 2: 2 items change, .*; up to 1 items and 8 values are read: export/,
    ],
    [
      { itemsMax: 9, valuesMax: 3 },
      /line 2: 2 items change, with 4 values of vectors; up to 9 items and 3/,
    ],
  ])("more than %o", (limits, message) => {
    const updates = good + line({ id: "b", vector: [1, 2] });
    const directory = new StoredDirectory(directoryOf({ updates }));
    const vectors = { dim: 2, round: Math.fround };
    const items = { table: "t", idDtype: "string", vectors } as const;

    expect(() => readItemUpdates(directory, items, { limits })).toThrow(message);
    expect(
      readItemUpdates(directory, items, { limits: { itemsMax: 2, valuesMax: 4 } }).values,
    ).toHaveLength(4);
  });
});

describe("a model whose items cannot be changed says why:", () => {
  const recorded = (name: string, updates: string): ModelVersion => {
    const directory = path.join(root, `recorded ${(versions += 1)}`);
    cpSync(path.join(RECORDED, name, "1"), directory, { recursive: true });
    mkdirSync(path.join(directory, "assets.extra"), { recursive: true });
    writeFileSync(path.join(directory, "assets.extra/item-updates.jsonl"), updates);
    return openModelVersion(directory);
  };
  const vector = line({ id: "item 03", vector: [1, 2] });

  test("it searches nothing", () => {
    expect(() => recorded("elementwise", "")).toThrow(
      new WinnowError(
        "INVALID_ARGUMENT",
        "Cannot use assets.extra/item-updates.jsonl: no signature of the model searches a table of items; remove the file",
      ),
    );
  });

  test("its items have no ids", () => {
    expect(() => opened({ ids: "none", updates: "" })).toThrow(
      /its items have no ids, but the numbers of their rows; export the model with/,
    );
  });

  test.each([
    ["it masks items", "tied_scores", /takes no vectors of more items: it masks items by what/],
    [
      "it has a bias for each",
      "score_expressions",
      /it holds more of each item than a vector, as a bias/,
    ],
    [
      "it uses numbers of rows",
      "weighed_biases",
      /its signature "blended" uses the numbers of the rows/,
    ],
  ])("%s; items are removed all the same", (_, name, message) => {
    expect(() => recorded(name, vector)).toThrow(message);

    const version = recorded(name, line({ id: "item 03", removed: true }));
    const withdrawn = rowsOf(version).filter(({ isWithdrawn }) => isWithdrawn);
    expect(withdrawn.map(({ row }) => row)).toEqual([3]);
  });
});

test("the ids of a partition are its reader's to keep", () => {
  const version = opened({ updates: line({ id: "new", vector: [1, 2] }) });
  const last = tableOf(version).partitions - 1;
  const { ids } = version.openPartition(0, last);
  const { bytes } = ids!.data as StringColumn;
  bytes.fill(0);

  expect(offered(version).at(-1)![0]).toBe("new");
});
