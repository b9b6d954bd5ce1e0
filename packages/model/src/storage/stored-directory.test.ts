// Version directories in a store of any kind: a model read through another store than the file system is the same
// model, only rows of the wanted partition are read, and a store's own errors reach the reader as they are.

import { execFileSync } from "node:child_process";
import { mkdirSync, readFileSync, readdirSync, symlinkSync, writeFileSync } from "node:fs";
import { createServer } from "node:net";
import path from "node:path";
import { WinnowError, accessDeniedText } from "@winnow/core";
import { expect, test } from "vitest";
import { temporaryDirectory } from "../../../../test/temporary-directory.ts";
import { openModelVersion } from "../model-directory.ts";
import type { ModelVersion } from "../model-version.ts";
import { readAsset } from "../saved-model/version-directory.ts";
import { type FileStore, localFiles } from "./file-store.ts";
import { StoredDirectory } from "./stored-directory.ts";
import { RECORDED_MODELS } from "../saved-model/fixtures/version-directory.ts";

const MANY_FILES = path.resolve(import.meta.dirname, "../../../../node_modules");

/** Files in memory under locations that no file system has; reads give a few bytes at a time. */
function memoryStore(files: ReadonlyMap<string, Uint8Array>): FileStore {
  return {
    join: (directory, name) => `${directory}/${name}`,
    exists: (location) => [...files.keys()].some((key) => `${key}/`.startsWith(`${location}/`)),
    filesBelow: (location) =>
      [...files.keys()]
        .filter((key) => key.startsWith(`${location}/`))
        .map((key) => key.slice(location.length + 1)),
    open: (location) => {
      const content = files.get(location);
      if (content === undefined) throw new WinnowError("NOT_FOUND", `no object ${location}`);
      return {
        size: content.length,
        read: (position, target) => {
          const part = content.subarray(position, position + Math.min(target.length, 1000));
          target.set(part);
          return part.length;
        },
        close: () => undefined,
      };
    },
  };
}

function copied(directory: string, location: string): Map<string, Uint8Array> {
  return new Map(
    localFiles
      .filesBelow(directory)
      .map((name) => [`${location}/${name}`, readFileSync(path.join(directory, name))]),
  );
}

function contentOf(version: ModelVersion): unknown {
  const { program, files, warmUp } = version;
  const rows = program.tables.map(({ partitions }, table) =>
    Array.from({ length: partitions }, (_, partition) => {
      const reader = version.openPartition(table, partition);
      const values = Array.from(reader.chunks(), (chunk) => Array.from(chunk));
      return { values, ids: reader.ids, shares: reader.checksumShares() };
    }),
  );
  return { fingerprint: program.fingerprint, rows, files, warmUp, bytesRead: version.bytesRead };
}

test.each(
  readdirSync(RECORDED_MODELS).filter((name) =>
    localFiles.exists(path.join(RECORDED_MODELS, name, "1")),
  ),
)("%s is the same from another store", (name) => {
  const directory = path.join(RECORDED_MODELS, name, "1");
  const store = memoryStore(copied(directory, "store://models/m/1"));
  const [local, stored] = [
    outcomeOf(() => openModelVersion(directory)),
    outcomeOf(() => openModelVersion("store://models/m/1", { store })),
  ];

  expect(stored).toEqual(local);
});

/** The content, or the refusal of an export that Winnow does not serve. */
function outcomeOf(open: () => ModelVersion): unknown {
  try {
    const version = open();
    const content = contentOf(version);
    version.close();
    return content;
  } catch (error) {
    const { code, message } = error as WinnowError;
    return { code, message };
  }
}

test("what a store says of a file reaches the reader", () => {
  const denied = new WinnowError("PERMISSION_DENIED", "the key may not read store://models");
  const store: FileStore = {
    ...memoryStore(new Map([["store://m/1/saved_model.pb", new Uint8Array(1)]])),
    open: () => {
      throw denied;
    },
  };

  expect(() => openModelVersion("store://m/1", { store })).toThrow(denied);
  expect(() => new StoredDirectory("store://m/1", store).readAll("saved_model.pb", 10)).toThrow(
    denied,
  );
});

test("a directory that may not be entered is not taken for one without a model", () => {
  const store: FileStore = {
    ...memoryStore(new Map()),
    exists: () => {
      throw Object.assign(new Error("EACCES"), { code: "EACCES" });
    },
  };

  expect(() => openModelVersion("/models/m/1", { store })).toThrow(
    new WinnowError("PERMISSION_DENIED", `Cannot read /models/m/1: ${accessDeniedText()}`),
  );
  expect(() => new StoredDirectory("/models/m/1", store).has("assets.extra/items.csv")).toThrow(
    `Cannot read assets.extra: ${accessDeniedText()}`,
  );
});

test("nor is one whose links lead in a circle", () => {
  const version = path.join(temporaryDirectory(), "1");
  symlinkSync("1", version);

  expect(() => openModelVersion(version)).toThrow(
    new WinnowError("DATA_LOSS", `Cannot read ${version}: its links lead in a circle`),
  );
});

test("a file that ends sooner than the store said is damaged, and a closed one is not read", () => {
  const whole = memoryStore(new Map([["store://m/1/file", Uint8Array.of(1, 2, 3)]]));
  const store: FileStore = {
    ...whole,
    open: (location) => ({ ...whole.open(location), size: 5 }),
  };
  const directory = new StoredDirectory("store://m/1", store);

  expect(() => directory.readAll("file", 10)).toThrow("it ends at byte 3; it may be truncated");
  expect(() => directory.readAll("file", 4)).toThrow("it has 5 bytes, at most 4 are read");
  const file = directory.open("file");
  file.close();
  expect(() => file.read(0, new Uint8Array(1))).toThrow("file is closed");
});

test.each(["../../assets/words", "../variables/words", "/words", "", ".", "words\0"])(
  "the asset %j leads out of the assets, and no store is asked for it",
  (name) => {
    const directory = new StoredDirectory("store://m/1", {
      ...memoryStore(new Map()),
      open: () => expect.unreachable(),
    });

    expect(() => readAsset(directory, name)).toThrow("the name leads out of assets/");
  },
);

test("a named pipe, a device, a socket and a directory are told of at once where a file should be", async () => {
  const root = temporaryDirectory();
  const directory = new StoredDirectory(root);
  execFileSync("mkfifo", [path.join(root, "pipe")]);
  symlinkSync("/dev/zero", path.join(root, "device"));
  mkdirSync(path.join(root, "folder"));
  symlinkSync("circle", path.join(root, "circle"));
  const server = createServer().listen(path.join(root, "socket"));
  await new Promise((listening) => server.once("listening", listening));

  for (const name of ["pipe", "device", "socket"]) {
    const text = `Cannot read ${name}: it is no file but a pipe, a socket or a device`;
    expect(() => directory.readAll(name, 10)).toThrow(text);
  }
  expect(() => directory.readAll("folder", 10)).toThrow("Cannot read folder: it is a directory");
  expect(() => directory.readAll("circle", 10)).toThrow("its links lead in a circle");
  await new Promise((closed) => server.close(closed));
});

test("the files below a folder are found once, whatever its links lead back to", () => {
  const root = temporaryDirectory();
  mkdirSync(path.join(root, "assets/deep"), { recursive: true });
  mkdirSync(path.join(root, "shared"));
  for (const name of ["assets/words", "assets/deep/words", "shared/words"]) {
    writeFileSync(path.join(root, name), name);
  }
  symlinkSync(".", path.join(root, "assets/a"));
  symlinkSync("..", path.join(root, "assets/deep/b"));
  symlinkSync("../shared", path.join(root, "assets/linked"));

  expect(new StoredDirectory(root).filesBelow("assets").toSorted()).toEqual([
    "assets/deep/words",
    "assets/linked/words",
    "assets/words",
  ]);
});

test("a folder with a link into a large tree is refused, not walked, and the link is named", () => {
  const root = temporaryDirectory();
  mkdirSync(path.join(root, "assets"));
  symlinkSync(MANY_FILES, path.join(root, "assets/elsewhere"));

  const walk = (): string[] => new StoredDirectory(root).filesBelow("assets");

  const text = "Cannot read assets/: it holds more than 12000 files and folders";
  expect(walk).toThrow(`${text}, some of them behind the link elsewhere`);
});
