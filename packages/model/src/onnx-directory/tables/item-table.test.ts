// Items and ids in every format, read by partition, and every way in which a file can be wrong.

import path from "node:path";
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { StringColumn, crc32c } from "@winnow/core";
import { temporaryDirectory } from "../../../../../test/temporary-directory.ts";
import { openModelVersion } from "../../model-directory.ts";
import type { ModelVersion } from "../../model-version.ts";
import {
  identityModel,
  npy,
  safetensors,
  withHeader,
  writeExport,
} from "../fixtures/onnx-exports.ts";

const root = temporaryDirectory();
let versions = 0;

type Files = Readonly<Record<string, Uint8Array | string | object>>;

/** Opens a retrieval model over these files. */
function opened(
  files: Files,
  retrieval: object,
  { dim = 2, partitionBytes = 2 ** 20 } = {},
): ModelVersion {
  versions += 1;
  const all = { "model.onnx": identityModel(dim), "winnow.json": { retrieval }, ...files };
  return openModelVersion(writeExport(path.join(root, String(versions)), all), { partitionBytes });
}

interface WholeTable {
  readonly values: number[];
  readonly ids: (string | number | bigint)[] | undefined;
}

/** All rows and ids by partition; the shares must add up to the checksums of the sources. */
function wholeTable(version: ModelVersion): WholeTable {
  const [spec] = version.program.tables;
  const sums = spec!.sources.map(() => 0);
  const values: number[] = [];
  const ids: (string | number | bigint)[] = [];
  for (let partition = 0; partition < spec!.partitions; partition += 1) {
    const reader = version.openPartition(0, partition);
    let length = 0;
    for (const chunk of reader.chunks()) {
      values.push(...chunk);
      length += chunk.length;
    }
    expect(length).toBe(reader.rows * spec!.dim);
    const idBytes = reader.ids?.data instanceof StringColumn ? reader.ids.data.byteLength : 0;
    expect(version.partitionBytes(0, partition)).toBeGreaterThanOrEqual(length * 4 + idBytes);
    const { data } = reader.ids ?? { data: [] };
    ids.push(...(data instanceof StringColumn ? data.toText() : data));
    for (const [source, share] of reader.checksumShares().entries()) sums[source]! ^= share;
  }
  expect(sums.map((sum) => sum >>> 0)).toEqual(spec!.sources.map(({ checksum }) => checksum));
  return {
    values,
    ids: spec?.kind === "candidate" && spec.idDtype !== undefined ? ids : undefined,
  };
}

const ITEMS = { file: "items.npy" };
const items = (rows: number): Uint8Array =>
  npy(
    ["<f4", [rows, 2]],
    Float32Array.from({ length: rows * 2 }, (_, at) => at),
  );

describe("items", () => {
  test("are the same in any number of partitions and in each format, and shares add up", () => {
    const size = fc.integer({ min: 1, max: 40 });
    const kinds = fc.constantFrom("npy", "npy2", "safetensors", "half", "bfloat16");
    fc.assert(
      fc.property(
        fc.record({
          rows: size,
          dim: fc.integer({ min: 1, max: 5 }),
          perPartition: size,
          kind: kinds,
        }),
        ({ rows, dim, perPartition, kind }) => {
          const values = Float32Array.from({ length: rows * dim }, (_, at) => (at % 37) - 18);
          const halves = Uint16Array.from(
            values,
            (value) => new Uint32Array(Float32Array.of(value).buffer)[0]! >>> 16,
          );
          const half = Uint16Array.from(
            { length: rows * dim },
            (_, at) => 0x3c00 + (at % 4) * 0x200,
          );
          const shape = [rows, dim];
          const before = { dtype: "U8", shape: [3], values: new Uint8Array(3) };
          const files: Readonly<Record<string, Uint8Array>> = {
            npy: npy(["<f4", shape], values),
            npy2: npy(["<f4", shape], values, { version: 2 }),
            half: npy(["<f2", shape], half),
            safetensors: safetensors({ before, items: { dtype: "F32", shape, values } }),
            bfloat16: safetensors({ before, items: { dtype: "BF16", shape, values: halves } }),
          };
          const isTensor = kind === "safetensors" || kind === "bfloat16";
          const file = isTensor ? "items.safetensors" : "items.npy";
          const wanted = isTensor ? { file, tensor: "items" } : { file };
          const partitionBytes = perPartition * dim * 4;
          const version = opened(
            { [file]: files[kind]! },
            { items: wanted, k: 1 },
            { dim, partitionBytes },
          );
          const whole = wholeTable(version);
          version.close();

          expect(whole.ids).toBeUndefined();
          expect(whole.values).toEqual(
            kind === "half" ? Array.from(half, (_, at) => [1, 1.5, 2, 3][at % 4]) : [...values],
          );
        },
      ),
      { numRuns: 60 },
    );
  });

  test("are read by range alone where the description tells their checksum", () => {
    const values = Float32Array.from({ length: 2000 }, (_, at) => at);
    const checksum = crc32c(new Uint8Array(values.buffer)).toString(16).padStart(8, "0");
    const files = { "items.npy": npy(["<f4", [1000, 2]], values) };
    const sizes = [{ ...ITEMS, crc32c: checksum }, ITEMS].map((described) => {
      const version = opened(files, { items: described }, { partitionBytes: 1000 });
      const before = version.bytesRead;
      for (const _ of version.openPartition(0, 3).chunks());
      const ofPartition = version.bytesRead - before;
      version.close();
      return { before, ofPartition };
    });

    expect(sizes[0]!.before).toBeLessThan(1000);
    expect(sizes[1]!.before).toBeGreaterThan(8000);
    expect(sizes[0]!.ofPartition).toBe(1000);
  });

  test("S7: another value is another content, and a told checksum that differs is not made up for", () => {
    const contents = [0, 1].map((last) => {
      const version = opened(
        { "items.npy": npy(["<f4", [2, 2]], Float32Array.of(1, 2, 3, last)) },
        { items: ITEMS, k: 1 },
      );
      const { fingerprint, tables } = version.program;
      version.close();
      return { fingerprint, checksum: tables[0]!.sources[0]!.checksum };
    });
    const told = opened(
      { "items.npy": items(2) },
      { items: { ...ITEMS, crc32c: "00000001" }, k: 1 },
    );
    const reader = told.openPartition(0, 0);
    for (const _ of reader.chunks());

    expect(contents[0]!.fingerprint).not.toBe(contents[1]!.fingerprint);
    expect(contents[0]!.checksum).not.toBe(contents[1]!.checksum);
    expect(told.program.tables[0]!.sources[0]!.checksum).toBe(1);
    expect(reader.checksumShares()).not.toEqual([1]);
    told.close();
  });

  test("with a value that is not finite are refused with its row", () => {
    for (const value of [NaN, Infinity]) {
      const values = Float32Array.of(1, 2, 3, value, 5, 6);
      const version = opened({ "items.npy": npy(["<f4", [3, 2]], values) }, { items: ITEMS, k: 1 });

      expect(() => [...version.openPartition(0, 0).chunks()]).toThrow(
        `Cannot serve table "items.npy:array": row 1 of 3 holds ${value}; every value must be finite`,
      );
      version.close();
    }
  });

  test("are brought to length 1 for cosines, rows of zeros left alone", () => {
    const values = Float32Array.of(3, 4, 0, 0);
    const version = opened(
      { "items.npy": npy(["<f4", [2, 2]], values) },
      { items: ITEMS, similarity: "cosine", k: 1 },
    );

    expect(wholeTable(version).values).toEqual([Math.fround(0.6), Math.fround(0.8), 0, 0]);
    expect(version.program.denseModels).toHaveLength(2);
    version.close();
  });
});

const float = Float32Array.of(1, 2, 3, 4);
const entry = { dtype: "F32", shape: [2, 2], values: float };

describe("a file of items is refused", () => {
  const whole = npy(["<f4", [2, 2]], float);
  test.each<[string, Uint8Array, RegExp]>([
    [
      "in Fortran order",
      npy(["<f4", [2, 2]], float, { fortran: true }),
      /items\.npy: it is in Fortran order.*ascontiguousarray/,
    ],
    [
      "of big-endian numbers",
      npy([">f4", [2, 2]], float),
      />f4, big-endian; save items\.astype\("<f4"\)/,
    ],
    ["of float64", npy(["<f8", [2, 1]], float), /its elements are <f8; save float32/],
    [
      "of bfloat16 in .npy",
      npy(["|V2", [4, 2]], float),
      /\|V2, which may be bfloat16; save it with safetensors/,
    ],
    [
      "of Python objects",
      npy(["|O", [2]], float),
      /Python objects; save numpy\.array\(ids, dtype=str\)/,
    ],
    [
      "of one dimension",
      npy(["<f4", [4]], float),
      /items\.npy.* is float32 \[4\] where floats of the shape \[items, dim\]/,
    ],
    [
      "of texts without a character",
      npy(["|S0", [2]], float.subarray(0, 0)),
      /\|S0, all of them empty/,
    ],
    ["of integers", npy(["<i4", [2, 2]], float), /is int32 \[2,2\] where floats/],
    ["without rows", npy(["<f4", [0, 2]], new Float32Array()), /is float32 \[0,2\] where floats/],
    ["that is truncated", whole.slice(0, -1), /takes 16 bytes, but it has 15; it may be truncated/],
    [
      "with bytes behind it",
      Buffer.concat([whole, Buffer.alloc(4)]),
      /takes 16 bytes, but it has 20/,
    ],
    [
      "of more bytes than there are",
      npy(["<f4", [2 ** 31, 2 ** 31]], float),
      /it may be truncated/,
    ],
    [
      "without an end of its header",
      whole.slice(0, 40),
      /a header of \d+ bytes; the file may be truncated/,
    ],
    ["that is empty", new Uint8Array(), /ends at byte 0/],
    ["that is another format", Buffer.alloc(100), /it is no \.npy file/],
    [
      "of a later version",
      Uint8Array.from(whole, (byte, at) => (at === 6 ? 9 : byte)),
      /version 9 of the \.npy format/,
    ],
    [
      "with a vast header",
      Uint8Array.from(npy(["<f4", [2, 2]], float, { version: 2 }), (byte, at) =>
        at === 11 ? 0x7f : byte,
      ),
      /a header of 21\d+ bytes/,
    ],
    [
      "with a header of other words",
      Uint8Array.from(whole, (byte) => (byte === 0x27 ? 0x22 : byte)),
      /items\.npy: the header/,
    ],
  ])("%s", (_, content, message) => {
    expect(() => opened({ "items.npy": content }, { items: ITEMS, k: 1 })).toThrow(message);
  });

  const tensors = { items: entry };
  const vast = Buffer.alloc(64);
  vast.writeBigUInt64LE(2n ** 60n);
  test.each<[string, Uint8Array, RegExp]>([
    ["with a header of 2^60 bytes", vast, /a header of 11529215046068\d+ bytes/],
    [
      "with a header that would take minutes to read",
      withHeader(" ".repeat(2 ** 24 + 1)),
      /a header of 16777217 bytes, at most 16777216 are read; save the items in a file of their own/,
    ],
    [
      "that is truncated",
      safetensors(tensors).slice(0, -1),
      /bytes where \d+ belong; it may be truncated/,
    ],
    [
      "of float64",
      safetensors({ items: { ...entry, dtype: "F64", shape: [2, 1] } }),
      /tensor "items" is F64; save it as F32, F16, BF16/,
    ],
    [
      "whose header is no JSON",
      withHeader("{", Buffer.alloc(8)),
      /items\.safetensors, line 1: the file ends where/,
    ],
    ["whose header is no object", withHeader("[]"), /its header is no object/],
    [
      "whose offsets run backwards",
      withHeader('{"items":{"dtype":"F32","shape":[2,2],"data_offsets":[16,0]}}', Buffer.alloc(16)),
      /the entry of tensor "items"/,
    ],
    [
      "whose shape is negative",
      withHeader(
        '{"items":{"dtype":"F32","shape":[-2,-2],"data_offsets":[0,16]}}',
        Buffer.alloc(16),
      ),
      /the entry of tensor "items"/,
    ],
    [
      "whose shape takes other bytes",
      withHeader('{"items":{"dtype":"F32","shape":[2,3],"data_offsets":[0,16]}}', Buffer.alloc(16)),
      /of shape \[2,3\] takes 24 bytes, but it has 16/,
    ],
  ])("of safetensors %s", (_, content, message) => {
    const described = { file: "items.safetensors", tensor: "items" };

    expect(() => opened({ "items.safetensors": content }, { items: described, k: 1 })).toThrow(
      message,
    );
  });

  test("of safetensors is not refused for a long text beside its tensors", () => {
    const config = `${"x".repeat(9_000_000)}\\"`;
    const member = { dtype: "F32", shape: [2, 2], data_offsets: [0, 16] };
    const header = JSON.stringify({ __metadata__: { config }, items: member });
    const files = { "t.safetensors": withHeader(header, Buffer.alloc(16)) };

    expect(wholeTable(opened(files, { items: { file: "t.safetensors" }, k: 1 })).values).toEqual([
      0, 0, 0, 0,
    ]);
  });

  test("that has several tensors, of which none or none of them is named", () => {
    const files = { "t.safetensors": safetensors({ a: entry, b: entry }) };

    expect(() => opened(files, { items: { file: "t.safetensors" } })).toThrow(
      'winnow.json, line 1, retrieval.items.file: t.safetensors holds the tensors "a", "b"; name one',
    );
    expect(() => opened(files, { items: { file: "t.safetensors", tensor: "c" } })).toThrow(
      /holds no tensor "c", but "a", "b"/,
    );
  });

  test.each([
    ["that is not there", { file: "none.npy" }, /none\.npy: there is no such file/],
    [
      "of another format",
      { file: "items.pt" },
      /"items\.pt" is no \.npy, \.safetensors or \.parquet file/,
    ],
    [
      "outside of the directory",
      { file: "../items.npy" },
      /retrieval\.items\.file: "\.\.\/items\.npy" is not the name of a file in the version directory; put the file beside winnow\.json/,
    ],
    [
      "with a name for the only array",
      { file: "items.npy", tensor: "a" },
      /a \.npy holds one array without a name/,
    ],
  ])("%s", (_, described, message) => {
    const files = { "items.npy": items(2), "items.pt": "" };

    expect(() => opened(files, { items: described })).toThrow(message);
  });
});

describe("ids", () => {
  const TEXTS = ["a", "bb", "ü", "日本", "😀", "x y", "007"];
  const unicode = (texts: readonly string[], width = 4): Uint8Array => {
    const points = new Uint32Array(texts.length * width);
    for (const [row, text] of texts.entries()) {
      for (const [at, character] of Array.from(text).entries()) {
        points[row * width + at] = character.codePointAt(0)!;
      }
    }
    return npy([`<U${width}`, [texts.length]], points);
  };
  const bytes = (texts: readonly string[], width = 8): Uint8Array => {
    const all = Buffer.alloc(texts.length * width);
    for (const [row, text] of texts.entries()) all.write(text, row * width);
    return npy([`|S${width}`, [texts.length]], all);
  };
  const rows = TEXTS.length;
  const SHORT = TEXTS.slice(1);
  const LONG = "é".repeat(150_000);

  test.each<[string, string, Uint8Array | string, readonly (string | bigint | number)[]]>([
    ["lines", "ids.txt", TEXTS.map((text) => `${text}\n`).join(""), TEXTS],
    ["lines, the last of them open", "ids.txt", TEXTS.join("\n"), TEXTS],
    ["lines of Windows", "ids.txt", TEXTS.map((text) => `${text}\r\n`).join(""), TEXTS],
    ["numpy's code points", "ids.npy", unicode(TEXTS), TEXTS],
    ["numpy's bytes", "ids.npy", bytes(TEXTS), TEXTS],
    [
      "one long text among numpy's",
      "ids.npy",
      unicode([...SHORT, LONG], 150_000),
      [...SHORT, LONG],
    ],
    [
      "int64",
      "ids.npy",
      npy(
        ["<i8", [rows]],
        BigInt64Array.from(TEXTS, (_, at) => 2n ** 60n - BigInt(at)),
      ),
      TEXTS.map((_, at) => 2n ** 60n - BigInt(at)),
    ],
    [
      "int32",
      "ids.npy",
      npy(
        ["<i4", [rows]],
        Int32Array.from(TEXTS, (_, at) => -at),
      ),
      TEXTS.map((_, at) => 0 - at),
    ],
    [
      "a tensor",
      "ids.safetensors",
      safetensors({
        ids: {
          dtype: "I64",
          shape: [rows],
          values: BigInt64Array.from(TEXTS, (_, at) => BigInt(at * at)),
        },
      }),
      TEXTS.map((_, at) => BigInt(at * at)),
    ],
  ])("may be %s, in any number of partitions", (...row) => {
    const [, file, content, expected] = row;
    for (const partitionBytes of [8, 16, 24, 2 ** 20]) {
      const files = { "items.npy": items(rows), [file]: content };
      const version = opened(files, { items: ITEMS, ids: { file }, k: 3 }, { partitionBytes });

      expect(wholeTable(version).ids).toEqual(expected.map((id) => (id === 0 ? 0 : id)));
      version.close();
    }
  });

  test.each<[string, string, Uint8Array | string, RegExp]>([
    [
      "fewer than rows",
      "ids.txt",
      "a\nb\n",
      /ids\.txt has 2 ids where items\.npy has 3 rows; one of them may be cut/,
    ],
    [
      "more than rows",
      "ids.npy",
      unicode(["a", "b", "c", "d"]),
      /ids\.npy has 4 ids where items\.npy has 3 rows/,
    ],
    [
      "an empty line",
      "ids.txt",
      "a\n\nc\n",
      /ids\.txt.*line 2 is empty; every row of the items needs an id/,
    ],
    [
      "a byte order mark",
      "ids.txt",
      "\uFEFFa\nb\nc\n",
      /Cannot read ids\.txt: it begins with a byte order mark; write it as UTF-8 without one/,
    ],
    [
      "Latin-1",
      "ids.txt",
      Buffer.from("cafe\ncaf\xe9\nb\n", "latin1"),
      /Cannot read ids\.txt.*: line 2 is not UTF-8; write the file in UTF-8/,
    ],
    [
      "Latin-1 without an end of the last line",
      "ids.txt",
      Buffer.from("a\nb\ncaf\xe9", "latin1"),
      /Cannot read ids\.txt.*: line 3 is not UTF-8/,
    ],
    [
      "UTF-16",
      "ids.txt",
      Buffer.from("\uFEFFa\nb\nc\n", "utf16le"),
      /Cannot read ids\.txt.*: line 1 is not UTF-8/,
    ],
    [
      "two alike in lines",
      "ids.txt",
      "a\nb\na\n",
      /retrieval\.ids\.file: rows 0 and 2 of ids\.txt.* have one id; give each item one row/,
    ],
    [
      "two alike in code points",
      "ids.npy",
      unicode(["b", "c", "c"]),
      /rows 1 and 2 of ids\.npy.* have one id/,
    ],
    [
      "two alike in integers",
      "ids.npy",
      npy(["<i8", [3]], BigInt64Array.of(5n, 5n, 6n)),
      /rows 0 and 1 of ids\.npy/,
    ],
    [
      "floats",
      "ids.npy",
      npy(["<f4", [3]], new Float32Array(3)),
      /is float32 \[3\] where ids \[items\] belong: int64, int32 or texts/,
    ],
    [
      "a matrix",
      "ids.npy",
      npy(["<i8", [3, 1]], new BigInt64Array(3)),
      /is int64 \[3,1\] where ids/,
    ],
    [
      "unsigned integers",
      "ids.npy",
      npy(["<u8", [3]], new BigUint64Array(3)),
      /<u8; save float32, float16, int64/,
    ],
    [
      "no code points",
      "ids.npy",
      npy(["<U1", [3]], Uint32Array.of(97, 0xd800, 98)),
      /row 1 holds no text/,
    ],
    [
      "bytes that are not UTF-8",
      "ids.npy",
      npy(["|S1", [3]], Uint8Array.of(97, 0xe9, 98)),
      /row 1 holds "\uFFFD", not UTF-8; write texts in UTF-8/,
    ],
  ])("that are %s are refused", (...row) => {
    const [, file, content, message] = row;
    const read = (): void => {
      const version = opened(
        { "items.npy": items(3), [file]: content },
        { items: ITEMS, ids: { file }, k: 1 },
      );
      try {
        version.openPartition(0, 0);
      } finally {
        version.close();
      }
    };

    expect(read).toThrow(message);
  });

  test("in lines are held to a told checksum", () => {
    const text = "a\nb\nc\n";
    const checksum = crc32c(Buffer.from(text)).toString(16).padStart(8, "0");
    const files = { "items.npy": items(3), "ids.txt": text };
    opened(files, { items: ITEMS, ids: { file: "ids.txt", crc32c: checksum }, k: 1 }).close();

    expect(() =>
      opened(files, { items: ITEMS, ids: { file: "ids.txt", crc32c: "0badcafe" }, k: 1 }),
    ).toThrow(`ids.txt has the CRC-32C ${checksum}, not that of crc32c; copy the file again`);
  });

  test("of many rows are compared without one of them being missed", () => {
    const count = 60_000;
    const lines = Array.from({ length: count }, (_, at) => `item ${at}`);
    const files = { "items.npy": items(count), "ids.txt": lines.join("\n") };
    opened(files, { items: ITEMS, ids: { file: "ids.txt" } }).close();
    lines[count - 1] = lines[17]!;

    expect(() =>
      opened({ ...files, "ids.txt": lines.join("\n") }, { items: ITEMS, ids: { file: "ids.txt" } }),
    ).toThrow(`rows 17 and ${count - 1} of ids.txt`);
  });
});
