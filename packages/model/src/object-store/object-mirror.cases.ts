// Versions in an object store, read through the store's real SDK and the real thread from a server that speaks its
// REST API: the same rows as from the directory, only the ranges that are needed, and errors that say what to do.

import { createHash } from "node:crypto";
import { mkdirSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import path from "node:path";
import { inspect } from "node:util";
import { StringColumn, parseObjectUrl } from "@winnow/core";
import { writeRetrievalModel } from "@winnow/model-writer";
import { afterAll, beforeAll, beforeEach, describe, expect, test } from "vitest";
import {
  DIALECTS,
  type ObjectDialect,
  type ObjectFault,
  ObjectServerProcess,
  STORE_SECRET,
  hasSdk,
} from "../../../../test/doubles/object-server-process.ts";
import { temporaryDirectory } from "../../../../test/temporary-directory.ts";
import { openModelVersion } from "../model-directory.ts";
import type { ModelVersion } from "../model-version.ts";
import { ObjectMirror } from "./object-mirror.ts";
import { RangeReader } from "./range-reader.ts";
import type { CacheSettings } from "./cached-store.ts";
import { objectStores } from "./object-stores.ts";
import { storeEnvironment } from "./store-settings.ts";

const [ROWS, FEW, DIM, USERS] = [60_000, 6000, 32, 50];
/** Ids are read in blocks, ahead of where they are. */
const AHEAD_BYTES = 2 ** 20;
const PARTITION_BYTES = 2 ** 21;
const DATA = "movies/1/variables/variables.data-00000-of-00001";

/** A fault, the code of its error, and what the error says. */
export type FaultCase = readonly [ObjectFault, string, RegExp];

const BROKEN: FaultCase = ["broken", "UNAVAILABLE", /tried 5 times/];

function writeModel(directory: string, seed: number, items = ROWS): void {
  const rowsOf = (rows: number): Float32Array =>
    Float32Array.from({ length: rows * DIM }, (_, at) => Math.sin(at * 0.7 + seed));
  const names = (count: number, name: string): string[] =>
    Array.from({ length: count }, (_, row) => `${name} ${row}`);
  writeRetrievalModel(directory, {
    users: {
      vocabulary: StringColumn.fromText(names(USERS, "user")),
      embedding: { rows: USERS + 1, dim: DIM, pieces: () => [rowsOf(USERS + 1)] },
    },
    candidates: { rows: items, dim: DIM, pieces: () => [rowsOf(items)] },
    identifiers: StringColumn.fromText(names(items, "item")),
    k: 10,
  });
}

interface ReadPartition {
  readonly bytes: number;
  /** Of its rows. */
  readonly digest: string;
  readonly ids: string;
  readonly shares: readonly number[];
}

const textsOf = (ids: StringColumn): string =>
  Array.from({ length: ids.length }, (_, row) => ids.textAt(row)).join("\n");

function candidates(version: ModelVersion): number {
  return version.program.tables.findIndex(({ kind }) => kind === "candidate");
}

function readPartition(version: ModelVersion, partition: number): ReadPartition {
  const reader = version.openPartition(candidates(version), partition);
  const hash = createHash("sha256");
  let bytes = 0;
  for (const chunk of reader.chunks()) {
    bytes += chunk.byteLength;
    hash.update(new Uint8Array(chunk.buffer, chunk.byteOffset, chunk.byteLength));
  }
  const ids = textsOf(reader.ids?.data as StringColumn);
  return { bytes, digest: hash.digest("hex"), ids, shares: reader.checksumShares() };
}

/** What holds of every store; `faults`: what it says when it refuses for good, and what is made of that. */
export function objectStoreCases(dialect: ObjectDialect, faults: readonly FaultCase[]): void {
  describe.skipIf(!hasSdk(dialect))(
    `${dialect}:// (needs ${DIALECTS[dialect].sdk ?? "nothing"})`,
    () => {
      const root = temporaryDirectory();
      const bucket = path.join(root, "store", "models");
      const model = path.join(bucket, "movies", "1");
      const scratch = path.join(root, "scratch");
      const { urlOf } = DIALECTS[dialect];
      const URL = `${urlOf("models")}/movies/1`;
      let server: ObjectServerProcess;

      beforeAll(async () => {
        mkdirSync(scratch);
        writeModel(model, 1);
        server = await ObjectServerProcess.start(dialect, path.join(root, "store"));
        Object.assign(process.env, server.environment);
      });
      afterAll(() => server.stop());
      beforeEach(() => server.setFaults({ prefix: "", cycle: [] }));

      const sentOf = async (key: string): Promise<number> =>
        (await server.account()).sent[key] ?? 0;

      /** Opens the version of a URL, and gives what `use` makes of it. */
      async function opened<T>(
        url: string,
        use: (version: ModelVersion) => T,
        cache?: CacheSettings,
      ): Promise<T> {
        const ranges = new RangeReader(storeEnvironment(), cache);
        const mirror = new ObjectMirror({
          store: objectStores(storeEnvironment(), cache),
          files: ranges,
          parent: scratch,
        });
        try {
          const local = await mirror.open(url);
          const version = openModelVersion(local.directory, {
            store: ranges,
            partitionBytes: PARTITION_BYTES,
          });
          try {
            return use(version);
          } finally {
            version.close();
            local.release();
          }
        } finally {
          mirror.close();
          await ranges.close();
        }
      }

      describe("a version in an object store", () => {
        test("is the same program, rows, ids and checksums as in a directory, and leaves nothing behind", async () => {
          const local = openModelVersion(model, { partitionBytes: PARTITION_BYTES });
          const { partitions } = local.program.tables[candidates(local)]!;
          expect(partitions).toBeGreaterThan(3);
          const expected = Array.from({ length: partitions }, (_, at) => readPartition(local, at));

          const { fingerprint, read } = await opened(URL, (version) => ({
            fingerprint: version.program.fingerprint,
            read: Array.from({ length: partitions }, (_, at) => readPartition(version, at)),
          }));

          expect(fingerprint).toBe(local.program.fingerprint);
          expect(read).toEqual(expected);
          local.close();
          expect(readdirSync(scratch)).toEqual([]);
        });

        test("of which one partition is read sends little more than that partition's bytes", async () => {
          const before = await sentOf(DATA);
          await opened(URL, () => undefined);
          const start = await sentOf(DATA);
          const openedBytes = start - before;
          const { bytes, ids } = await opened(URL, (version) => readPartition(version, 1));
          const sent = (await sentOf(DATA)) - start - openedBytes;

          expect(bytes).toBeGreaterThan(10 ** 6);
          expect(sent).toBeGreaterThan(bytes);
          // The lengths of all ids come before the first one.
          expect(sent - bytes).toBeLessThan(ids.length + ROWS + AHEAD_BYTES);
        });

        test("of which all was read once is not read again with a cache, but for listings", async () => {
          const cache = { directory: path.join(root, "cache"), bytesMax: 2 ** 30 };
          const local = openModelVersion(model, { partitionBytes: PARTITION_BYTES });
          const expected = readPartition(local, 1);
          local.close();
          await opened(URL, (version) => readPartition(version, 1), cache);
          const before = await server.account();

          const again = await opened(URL, (version) => readPartition(version, 1), cache);

          const { reads, lists } = await server.account();
          expect(again).toEqual(expected);
          expect(reads).toBe(before.reads);
          expect(lists).toBeGreaterThan(before.lists);
          expect(readdirSync(scratch)).toEqual([]);
        });

        test("is read through answers that are refused for now, cut or slow", async () => {
          await server.setFaults({ prefix: DATA, cycle: ["slow down", "none", "cut", "slow"] });
          const local = openModelVersion(model, { partitionBytes: PARTITION_BYTES });
          const expected = readPartition(local, 2);
          local.close();

          await expect(opened(URL, (version) => readPartition(version, 2))).resolves.toEqual(
            expected,
          );
          expect((await server.account()).faults).toBeGreaterThan(1);
        });

        test("that is replaced while it is open gives an error, not a mixture", async () => {
          const changed = path.join(bucket, "changed", "1");
          writeModel(changed, 2, FEW);

          await expect(
            opened(`${urlOf("models")}/changed/1`, (version) => {
              rmSync(changed, { recursive: true });
              writeModel(changed, 3, FEW);
              return readPartition(version, 0);
            }),
          ).rejects.toMatchObject({
            code: "UNAVAILABLE",
            message: expect.stringContaining("replaced while it was read") as string,
          });
        });

        test("is removed from disk when it cannot be opened, and so are folders of dead processes", async () => {
          const broken = path.join(bucket, "broken", "1");
          mkdirSync(broken, { recursive: true });
          writeFileSync(path.join(broken, "saved_model.pb"), "no protobuf");
          mkdirSync(path.join(scratch, "winnow-objects-999999999-1"));

          await expect(opened(`${urlOf("models")}/broken/1`, () => undefined)).rejects.toThrow(
            "saved_model.pb",
          );
          expect(readdirSync(scratch)).toEqual([]);
        });
      });

      describe("what cannot be read is told with what would help", () => {
        test.each([
          [`${urlOf("models")}/nowhere/1`, "NOT_FOUND", "it holds no saved_model.pb"],
          [`${urlOf("other")}/movies/1`, "NOT_FOUND", "there is no such"],
        ])("%s", async (url, code, message) => {
          await expect(opened(url, () => undefined)).rejects.toMatchObject({
            code,
            message: expect.stringContaining(message) as string,
          });
        });

        test.each([...faults, BROKEN])(
          "a store that says: %s; no secret is told",
          async (fault, code, text) => {
            await server.setFaults({ prefix: "", cycle: [fault] });

            const error: unknown = await opened(URL, () => undefined).catch(
              (reason: unknown) => reason,
            );

            expect(error).toMatchObject({ code, message: expect.stringMatching(text) as string });
            expect(inspect(error, { depth: 20 })).not.toContain(STORE_SECRET);
          },
        );

        test("a store that is denied only when rows are read", async () => {
          await server.setFaults({ prefix: DATA, cycle: ["denied"] });
          await expect(opened(URL, (version) => readPartition(version, 1))).rejects.toMatchObject({
            code: "PERMISSION_DENIED",
            message: expect.stringContaining(DATA) as string,
          });
        });

        test("a store that is not there", async () => {
          Object.assign(process.env, DIALECTS[dialect].environment("http://127.0.0.1:2"));
          const store = objectStores(storeEnvironment());
          await expect(store.folders(parseObjectUrl(urlOf("models")))).rejects.toMatchObject({
            code: "UNAVAILABLE",
            message: expect.stringMatching(/models.*ECONNREFUSED/) as string,
          });
          Object.assign(process.env, server.environment);
        });
      });
    },
  );
}
