// One table in the ways that Parquet writers store it, against what pyarrow reads; and files that are damaged.

import { readFileSync } from "node:fs";
import path from "node:path";
import * as zlib from "node:zlib";
import { describe, expect, test } from "vitest";
import { StringColumn, WinnowError, crc32c } from "@winnow/core";
import { temporaryDirectory } from "../../../../../../test/temporary-directory.ts";
import { openModelVersion } from "../../../model-directory.ts";
import type { ModelVersion } from "../../../model-version.ts";
import { FuzzSource } from "../../../saved-model/fixtures/model-fuzz.ts";
import { identityModel, writeExport } from "../../fixtures/onnx-exports.ts";

const SEED = Number(process.env["FUZZ_SEED"] ?? 1);
const DATA = path.resolve(import.meta.dirname, "../../../../../../test/data/parquet");
const root = temporaryDirectory();
const recorded = JSON.parse(readFileSync(path.join(DATA, "values.json"), "utf8")) as {
  readonly id: readonly string[];
  readonly number: readonly number[];
  readonly small: readonly number[];
  readonly embedding: readonly (readonly number[])[];
};
const contentOf = (name: string): Uint8Array => readFileSync(path.join(DATA, `${name}.parquet`));
let versions = 0;

interface Opening {
  readonly ids?: object | undefined;
  readonly items?: object | undefined;
  readonly partitionBytes?: number;
}

const FILE = "items.parquet";

function opened(
  content: Uint8Array,
  { ids, items, partitionBytes = 2 ** 20 }: Opening = {},
): ModelVersion {
  versions += 1;
  const retrieval = {
    items: { file: FILE, ...items },
    k: 1,
    ...(ids && { ids: { file: FILE, ...ids } }),
  };
  const files = { "model.onnx": identityModel(3), [FILE]: content, "winnow.json": { retrieval } };
  return openModelVersion(writeExport(path.join(root, String(versions % 10)), files), {
    partitionBytes,
  });
}

/** All values and ids; the shares of all partitions must add up. */
function read(version: ModelVersion): { values: number[]; ids: (string | bigint | number)[] } {
  const [spec] = version.program.tables;
  const sums = spec!.sources.map(() => 0);
  const values: number[] = [];
  const ids: (string | bigint | number)[] = [];
  for (let partition = 0; partition < spec!.partitions; partition += 1) {
    version.partitionBytes(0, partition);
    const reader = version.openPartition(0, partition);
    for (const chunk of reader.chunks()) values.push(...chunk);
    const { data } = reader.ids ?? { data: [] };
    ids.push(...(data instanceof StringColumn ? data.toText() : data));
    for (const [source, share] of reader.checksumShares().entries()) sums[source]! ^= share;
  }
  version.close();
  if (sums.some((sum, source) => sum >>> 0 !== spec!.sources[source]!.checksum)) {
    throw new RangeError("the shares do not add up");
  }
  return { values, ids };
}

/** Node has zstd from 22.15 on. */
const HAS_ZSTD = "zstdDecompressSync" in zlib;
const WAYS = [
  ..."plain snappy gzip brotli pages_v2 pages_v2_plain row_groups many_row_groups byte_stream_split".split(
    " ",
  ),
  ..."format_1 no_statistics page_checksums page_index fixed_size_lists required".split(" "),
  ...(HAS_ZSTD ? ["zstd"] : []),
];

describe.each(WAYS)("a table stored as %s", (name) => {
  test.each([
    ["id", recorded.id],
    ["number", recorded.number.map(BigInt)],
    ["small", recorded.small],
  ])("gives what pyarrow reads, with %s for ids, in any number of partitions", (tensor, ids) => {
    const checksums = new Set<unknown>();
    for (const partitionBytes of [2 ** 20, 200]) {
      const version = opened(contentOf(name), { ids: { tensor }, partitionBytes });
      const { sources, partitions } = version.program.tables[0]!;
      checksums.add(JSON.stringify(sources.map(({ checksum }) => checksum)));
      const found = read(version);

      expect(found.values).toEqual(recorded.embedding.flat());
      expect(found.ids).toEqual(ids);
      expect(partitions).toBe(partitionBytes === 200 ? 16 : 1);
    }

    expect(checksums.size).toBe(1);
  });
});

test("a checksum is that of the values, as numpy and a text file have them", () => {
  const values = Float32Array.from(recorded.embedding.flat());
  const version = opened(contentOf("row_groups"), { ids: { tensor: "id" } });
  const [rows, ids] = version.program.tables[0]!.sources;
  version.close();

  expect(rows!.checksum).toBe(crc32c(new Uint8Array(values.buffer)));
  expect(ids!.checksum).toBe(crc32c(Buffer.from(recorded.id.map((id) => `${id}\n`).join(""))));
});

test.each([
  ["uint32", 2n ** 32n - 8n],
  ["uint16", 2n ** 16n - 8n],
  ["uint64", 2n ** 63n - 8n],
])("ids of %s are answered as int64, in any number of partitions", (tensor, first) => {
  for (const partitionBytes of [2 ** 20, 40]) {
    const version = opened(contentOf("kinds_of_ids"), { ids: { tensor }, partitionBytes });
    const [spec] = version.program.tables;

    expect(spec).toMatchObject({ idDtype: "int64", partitions: partitionBytes === 40 ? 4 : 1 });
    expect(read(version).ids).toEqual(Array.from({ length: 8 }, (_, row) => first + BigInt(row)));
  }
});

test("where the checksum is told, a partition reads the pages of its rows alone", () => {
  const checksum = crc32c(new Uint8Array(Float32Array.from(recorded.embedding.flat()).buffer));
  const content = contentOf("many_row_groups");
  const version = opened(content, {
    items: { crc32c: checksum.toString(16).padStart(8, "0") },
    partitionBytes: 200,
  });
  const before = version.bytesRead;
  for (const _ of version.openPartition(0, 3).chunks());

  expect(version.bytesRead - before).toBeLessThan(content.length / 2);
  version.close();
});

describe("is refused", () => {
  test.each([
    ["null_row", {}, /column "embedding" have not all the same number of values; every row needs/],
    [
      "null_value",
      {},
      /column "embedding": row 4 has a value that is missing; every row needs as many/,
    ],
    ["other_lengths", {}, /column "embedding": row \d or one before it has not 3 values/],
    [
      "short_row",
      {},
      /rows of column "embedding" have not all the same number of values; every row/,
    ],
    [
      "doubles",
      { tensor: "embedding" },
      /column "embedding" of items\.parquet is list of DOUBLE; write the items as lists of float32 \(pandas/,
    ],
    [
      "doubles",
      {},
      /has the columns "id" \(BYTE_ARRAY\), "embedding" \(list of DOUBLE\); none of them fits: write the items as lists of float32 \(pandas/,
    ],
    [
      "plain",
      { tensor: "vector" },
      /has not one column "vector", but "id" \(BYTE_ARRAY\), "number" \(INT64\), "small" \(INT32\), "embedding" \(list of FLOAT\)/,
    ],
    ["plain", { tensor: "id" }, /column "id" of items\.parquet is BYTE_ARRAY/],
    ["lz4", {}, /column "embedding" is compressed with LZ4; write it with snappy, gzip/],
  ])("%s with %o", (name, items, message) => {
    expect(() => read(opened(contentOf(name), { items }))).toThrow(message);
  });

  test.each([
    [
      "delta",
      { tensor: "id" },
      /column "id" has encoding DELTA_BYTE_ARRAY; write it plain .*Spark: parquet\.writer\.version=PARQUET_1_0/,
    ],
    [
      "plain",
      { tensor: "embedding" },
      /column "embedding" of items\.parquet is list of FLOAT; write ids as texts/,
    ],
    ["plain", {}, /name one of them as "tensor"/],
    ["kinds_of_ids", { tensor: "beyond" }, /the id of row 7 is 2\^63 or more; write ids as texts/],
    ["kinds_of_ids", { tensor: "date" }, /is INT32 \(date\); write ids as texts, int64 or int32/],
    ["kinds_of_ids", { tensor: "decimal" }, /is INT32 \(decimal\); write ids as texts/],
    [
      "plain",
      { tensor: "id", crc32c: "00000000" },
      /has the CRC-32C [0-9a-f]{8}, not that of crc32c/,
    ],
  ])("%s with ids %o", (name, ids, message) => {
    expect(() => read(opened(contentOf(name), { ids }))).toThrow(message);
  });

  test("ids that are not UTF-8", () => {
    const content = Buffer.from(contentOf("plain"));
    content[content.indexOf("item 3")] = 0xe9;

    expect(() => opened(content, { ids: { tensor: "id" } })).toThrow(
      /column "id": row \d+ holds "\uFFFDtem 3", not UTF-8; write texts in UTF-8/,
    );
  });

  test.skipIf(HAS_ZSTD)("zstd, where Node cannot read it", () => {
    expect(() => opened(contentOf("zstd"))).toThrow(
      'column "embedding" is compressed with zstd, which Node reads from 22.15 on; write it with snappy',
    );
  });

  test("a file that is cut anywhere, or is none", () => {
    const content = contentOf("snappy");
    for (let length = 0; length < content.length; length += 13) {
      expect(() => opened(content.slice(0, length))).toThrow(/items\.parquet: .*truncated/);
    }
  });
});

test(`damaged bytes from seed ${SEED} end in values or an error of Winnow's, without memory that they claim`, () => {
  const inputs = Number(process.env["FUZZ_INPUTS"] ?? 500);
  let refused = 0;
  for (let input = 0; input < inputs; input += 1) {
    const source = new FuzzSource(SEED, input);
    const content = Uint8Array.from(contentOf(source.pick(WAYS)));
    for (let count = 1 + source.below(3); count > 0; count -= 1) {
      const at = source.chance(0.5)
        ? content.length - 1 - source.below(900)
        : source.below(content.length);
      content[Math.max(0, at)] = source.below(256);
    }
    try {
      read(opened(content, { ids: { tensor: source.pick(["id", "number", "small"]) } }));
    } catch (error) {
      if (!(error instanceof WinnowError)) throw new Error(`input ${input}`, { cause: error });
      refused += 1;
    }
  }

  expect(refused).toBeGreaterThan(inputs / 10);
}, 600_000);
