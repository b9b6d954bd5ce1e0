// Version directories: errors where something is missing, fingerprints, assets.

import { appendFileSync, mkdirSync, renameSync, rmSync, writeFileSync } from "node:fs";
import path from "node:path";
import { beforeEach, describe, expect, test } from "vitest";
import type { TextVocabulary } from "./partitions/stored-table.ts";
import { temporaryDirectory } from "../../../../test/temporary-directory.ts";
import { floats, writeVersionOf } from "./fixtures/version-directory.ts";
import { VersionFiles } from "./version-files.ts";

const root = temporaryDirectory();
const directory = path.join(root, "1");
const file = (name: string): string => path.join(directory, name);

const vocabularyIn = (name: string): TextVocabulary => ({
  file: name,
  keyDtype: "string",
  valueDtype: "int64",
  keyIndex: -2,
  valueIndex: -1,
  vocabularySize: -1,
  delimiter: "\t",
  offset: 0,
});

beforeEach(() => {
  writeVersionOf(directory, [floats("a", [2], Float32Array.of(1, 2))]);
  mkdirSync(file("assets"));
  writeFileSync(file("assets/words.txt"), "x\ny\n");
});

function codeOf(action: () => unknown): string {
  try {
    action();
    return "OK";
  } catch (error) {
    const { code, message } = error as { readonly code: string; readonly message: string };
    return `${code} ${message}`;
  }
}

describe("a version directory", () => {
  test("without saved_model.pb is NOT_FOUND, as text it is UNIMPLEMENTED", () => {
    renameSync(file("saved_model.pb"), file("saved_model.pbtxt"));
    const asText = codeOf(() => new VersionFiles(directory));
    rmSync(file("saved_model.pbtxt"));

    expect(asText).toMatch(/^UNIMPLEMENTED .*saved_model\.pbtxt.*export it as saved_model\.pb/);
    expect(codeOf(() => new VersionFiles(directory))).toMatch(
      /^NOT_FOUND .*no saved_model\.pb in it/,
    );
    expect(codeOf(() => new VersionFiles(path.join(root, "2")))).toMatch(
      /^NOT_FOUND .*no such directory/,
    );
  });

  test("without variables.index says so when a variable is wanted", () => {
    rmSync(file("variables/variables.index"));
    const files = new VersionFiles(directory);

    expect(files.keys()).toEqual([]);
    expect(codeOf(() => files.readTensor("a"))).toMatch(
      /^NOT_FOUND .*no variables\/variables\.index/,
    );
  });

  test("without a data file names it", () => {
    rmSync(file("variables/variables.data-00000-of-00001"));
    const files = new VersionFiles(directory);

    expect(codeOf(() => files.readTensor("a"))).toMatch(
      /^NOT_FOUND Cannot read variables\/variables\.data-00000-of-00001: there is no such file/,
    );
  });

  test.each([
    ["saved_model.pb"],
    ["variables/variables.index"],
    ["variables/variables.data-00000-of-00001"],
    ["assets/words.txt"],
  ])("with a pointer of Git LFS in place of %s says so", (name) => {
    const pointer = "version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 9\n";
    writeVersionOf(directory, [floats("a", [32], new Float32Array(32))]);
    mkdirSync(file("assets"));
    writeFileSync(file("assets/words.txt"), "x\n");
    writeFileSync(file(name), pointer);
    const read = (): void => {
      const files = new VersionFiles(directory);
      files.readTensor("a");
      files.readTextVocabulary(vocabularyIn("words.txt"));
    };

    expect(codeOf(read)).toContain(
      `DATA_LOSS Cannot read ${name}: it is a pointer of Git LFS, not the file; fetch it with`,
    );
  });

  test("has a fingerprint that only its own content changes", () => {
    const before = new VersionFiles(directory).fingerprint;
    writeFileSync(file("fingerprint.pb"), "anything");
    const unrelated = new VersionFiles(directory).fingerprint;
    appendFileSync(file("assets/words.txt"), "z\n");
    const asset = new VersionFiles(directory).fingerprint;
    appendFileSync(file("saved_model.pb"), "\0");
    const graph = new VersionFiles(directory).fingerprint;

    expect(unrelated).toBe(before);
    expect(new Set([before, asset, graph]).size).toBe(3);
    expect(before).toMatch(/^[0-9a-f]{64}$/);
  });

  test("reads vocabularies from its assets, and from nowhere else", () => {
    const files = new VersionFiles(directory);

    expect(files.readTextVocabulary(vocabularyIn("words.txt")).keys.shape).toEqual([2]);
    for (const name of ["../saved_model.pb", "/etc/passwd", "", "a/../../x", "words.txt\0"]) {
      expect(codeOf(() => files.readTextVocabulary(vocabularyIn(name)))).toMatch(
        /^INVALID_ARGUMENT/,
      );
    }
    expect(codeOf(() => files.readTextVocabulary(vocabularyIn("gone.txt")))).toMatch(/^NOT_FOUND/);
  });

  test("counts the bytes it reads", () => {
    const files = new VersionFiles(directory);
    const before = files.bytesRead;

    files.readTensor("a");

    expect(files.bytesRead - before).toBe(8);
  });
});
