// A file of gigabytes that is not what its name says is refused before it is read: the worker's memory and disk are
// those of the versions that serve.

import { closeSync, ftruncateSync, mkdirSync, openSync, truncateSync, writeSync } from "node:fs";
import path from "node:path";
import { expect, test } from "vitest";
import { temporaryDirectory } from "../../../test/temporary-directory.ts";
import { openModelVersion } from "./model-directory.ts";
import { TensorBundle } from "./saved-model/bundle/tensor-bundle.ts";
import { type FileStore, localFiles } from "./storage/file-store.ts";
import { StoredDirectory } from "./storage/stored-directory.ts";

const BYTES = 1.9e9;
/** What may be read of such a file to see that it is none. */
const READ_BYTES_MAX = 2 ** 20;

/** A version directory with files of `BYTES` that begin with a text and go on with zeros. */
function versionOf(files: Readonly<Record<string, string | Uint8Array>>): string {
  const directory = path.join(temporaryDirectory(), "1");
  for (const [name, head] of Object.entries(files)) {
    const file = path.join(directory, name);
    mkdirSync(path.dirname(file), { recursive: true });
    const handle = openSync(file, "w");
    writeSync(handle, Buffer.from(head));
    ftruncateSync(handle, BYTES);
    closeSync(handle);
  }
  return directory;
}

/** The local files, and how many of their bytes were read. */
function countedFiles(): { readonly store: FileStore; readonly count: () => number } {
  let bytes = 0;
  const store: FileStore = {
    ...localFiles,
    open: (location) => {
      const file = localFiles.open(location);
      return {
        size: file.size,
        close: () => file.close(),
        read: (position, target) => {
          bytes += target.length;
          return file.read(position, target);
        },
      };
    },
  };
  return { store, count: () => bytes };
}

/** Field 7 of 2,000,000,000 bytes, where 1.9 GB are there: a file that was cut. */
const CUT_GRAPH = Uint8Array.of(8, 7, 0x3a, 0x80, 0xa8, 0xd6, 0xb9, 0x07);

const cases: readonly [string, Readonly<Record<string, string | Uint8Array>>, RegExp][] = [
  [
    "model.onnx of zeros",
    { "model.onnx": "" },
    /^Cannot read model\.onnx: an impossible field at byte 0$/u,
  ],
  ["model.onnx of text", { "model.onnx": "<html>" }, /^Cannot read model\.onnx: .* at byte \d+$/u],
  [
    "model.onnx with a cut graph",
    { "model.onnx": CUT_GRAPH },
    /^Cannot read model\.onnx: field 7 of 2000000000 /u,
  ],
  [
    "saved_model.pb of zeros",
    { "saved_model.pb": "" },
    /^Cannot read saved_model\.pb: an impossible field at byte 0/u,
  ],
  [
    "saved_model.pb of an archive",
    { "saved_model.pb": "PK\u0003\u0004" },
    /^Cannot read saved_model\.pb: .* at byte \d+$/u,
  ],
  [
    "pipeline.yaml of zeros",
    { "pipeline.yaml": "" },
    /pipeline\.yaml.* 1900000000 bytes, at most /u,
  ],
  [
    "experiment.yaml of zeros",
    { "experiment.yaml": "" },
    /experiment\.yaml.* 1900000000 bytes, at most /u,
  ],
  [
    "list of checksums",
    { "model.onnx": CUT_GRAPH, SHA256SUMS: "" },
    /SHA256SUMS.* 1900000000 bytes, at most /u,
  ],
];

test.each(cases)("a large %s is refused by what it begins with", (_what, files, message) => {
  const directory = versionOf(files);
  const { store, count } = countedFiles();

  expect(() => openModelVersion(directory, { store })).toThrow(message);

  expect(count()).toBeLessThan(READ_BYTES_MAX);
});

test("a large index of variables is refused by its end", () => {
  const { store, count } = countedFiles();
  const directory = new StoredDirectory(versionOf({ "variables/variables.index": "" }), store);

  // 1.9 GB are more than an index may have.
  expect(() => new TensorBundle(directory)).toThrow(/ 1900000000 bytes, at most /u);
  truncateSync(path.join(directory.location, "variables/variables.index"), 2 ** 30);
  expect(() => new TensorBundle(directory)).toThrow(/not those of a checkpoint index/u);

  expect(count()).toBeLessThan(READ_BYTES_MAX);
});
