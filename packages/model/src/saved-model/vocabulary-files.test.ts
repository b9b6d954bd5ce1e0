// Vocabulary files that are too short for their tables, manifests, and fingerprints of what was
// read.

import { createHash } from "node:crypto";
import {
  cpSync,
  mkdirSync,
  readFileSync,
  readdirSync,
  renameSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import path from "node:path";
import { StringColumn, WinnowError } from "@winnow/core";
import { describe, expect, test } from "vitest";
import { openModelVersion } from "../model-directory.ts";
import { parseManifest } from "./checksum-manifest.ts";
import { temporaryDirectory } from "../../../../test/temporary-directory.ts";
import { RECORDED_MODELS } from "./fixtures/version-directory.ts";
import type { WrittenMatrix } from "@winnow/model-writer";
import { writeRankingModel, writeRetrievalModel } from "@winnow/model-writer";

const root = temporaryDirectory();
let copies = 0;

const matrix = (rows: number, dim: number): WrittenMatrix => ({
  rows,
  dim,
  pieces: () => [Float32Array.from({ length: rows * dim }, (_, index) => index / 7)],
});

const words = (count: number, prefix: string): StringColumn =>
  StringColumn.fromText(Array.from({ length: count }, (_, index) => `${prefix}${index}`));

function directoryFor(name: string): string {
  copies += 1;
  return path.join(root, `${name}-${copies}`);
}

/** 20 users in a text file; their rows follow a mask row and two OOV rows. */
function writtenModel(): string {
  const directory = directoryFor("retrieval");
  writeRetrievalModel(directory, {
    users: {
      vocabulary: words(20, "u"),
      place: "asset",
      oovRows: 2,
      maskToken: "",
      embedding: matrix(23, 4),
    },
    candidates: matrix(30, 4),
    identifiers: words(30, "item "),
    k: 5,
  });
  return directory;
}

/** The path of the only file under `assets/`, relative to the version directory. */
function assetOf(directory: string): string {
  const [name] = readdirSync(path.join(directory, "assets"));
  return `assets/${name}`;
}

function rewrite(directory: string, file: string, change: (text: string) => string): void {
  const at = path.join(directory, file);
  writeFileSync(at, change(readFileSync(at, "latin1")), "latin1");
}

function outcomeOf(directory: string): string {
  try {
    openModelVersion(directory).close();
    return "opens";
  } catch (error) {
    if (!(error instanceof WinnowError)) throw error;
    return `${error.code} ${error.message}`;
  }
}

const sha256 = (content: Uint8Array): string => createHash("sha256").update(content).digest("hex");

/** Lists every file of a version, as sha256sum does. */
function writeManifest(directory: string, without: (name: string) => boolean = () => false): void {
  const names = readdirSync(directory, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map((entry) => path.relative(directory, path.join(entry.parentPath, entry.name)))
    .filter((name) => name !== "SHA256SUMS" && !without(name));
  const lines = names.map(
    (name) => `${sha256(readFileSync(path.join(directory, name)))}  ./${name}\n`,
  );
  writeFileSync(path.join(directory, "SHA256SUMS"), lines.join(""));
}

const linesOf = (text: string, count: number): string =>
  text.split("\n").slice(0, count).join("\n");

describe("S7: a vocabulary file", () => {
  test("that was cut at a line is refused with the entries found and expected", () => {
    const directory = writtenModel();
    rewrite(directory, assetOf(directory), (text) => `${linesOf(text, 10)}\n`);

    expect(outcomeOf(directory)).toMatch(
      /^DATA_LOSS .*string_lookup.* has 10 entries where 20 belong: table "variables\/0" has 23 rows.*SHA256SUMS/,
    );
  });

  test("that was cut in a line, or lacks its last line alone, is refused", () => {
    for (const kept of [10.5, 19, 1, 0.5]) {
      const directory = writtenModel();
      rewrite(directory, assetOf(directory), (text) =>
        text.slice(0, linesOf(text, Math.ceil(kept)).length - (kept % 1 === 0 ? 0 : 1)),
      );

      expect(outcomeOf(directory)).toMatch(/^DATA_LOSS .*where 20 belong/);
    }
  });

  test("that is empty is refused", () => {
    const directory = writtenModel();
    rewrite(directory, assetOf(directory), () => "");

    expect(outcomeOf(directory)).toMatch(/^INVALID_ARGUMENT .*assets\/.* holds no line/);
  });

  test("may end without a newline, or in a carriage return and a newline", () => {
    for (const change of [
      (text: string) => text.trimEnd(),
      (text: string) => text.replaceAll("\n", "\r\n"),
    ]) {
      const directory = writtenModel();
      rewrite(directory, assetOf(directory), change);

      expect(outcomeOf(directory)).toBe("opens");
    }
  });

  test("is refused in real exports, with hashed buckets beside it", () => {
    const directory = directoryFor("export");
    cpSync(path.join(RECORDED_MODELS, "lookup_file_vocabulary", "1"), directory, {
      recursive: true,
    });
    expect(outcomeOf(directory)).toBe("opens");
    rewrite(directory, assetOf(directory), (text) => `${linesOf(text, 23)}\n`);

    expect(outcomeOf(directory)).toMatch(/^DATA_LOSS .*has 23 entries where 24 belong/);
  });

  test("is refused whichever of several it is", () => {
    for (const which of [0, 1]) {
      const directory = directoryFor("ranking");
      writeRankingModel(directory, {
        users: { vocabulary: words(9, "u"), place: "asset", embedding: matrix(10, 2) },
        items: { vocabulary: words(5, "i"), place: "asset", embedding: matrix(6, 2) },
        layers: [{ kernel: new Float32Array(4), bias: new Float32Array(1), relu: false }],
      });
      expect(outcomeOf(directory)).toBe("opens");
      const file = readdirSync(path.join(directory, "assets")).toSorted()[which]!;
      rewrite(directory, `assets/${file}`, (text) => linesOf(text, 3));

      expect(outcomeOf(directory)).toContain(`assets/${file} has 3 entries`);
    }
  });
});

describe("a manifest", () => {
  test("that lists every file as it is changes nothing", () => {
    const directory = writtenModel();
    const before = openModelVersion(directory);
    before.close();
    writeManifest(directory);
    const version = openModelVersion(directory);
    version.close();

    expect(version.program.fingerprint).toBe(before.program.fingerprint);
    expect(version.files?.map(({ isListed }) => isListed)).toEqual([true, true, true]);
    expect(version.files?.map(({ entries }) => entries)).toContain(20);
    expect(before.files?.map(({ isListed }) => isListed)).toEqual([false, false, false]);
  });

  test("refuses a file that differs, by name", () => {
    for (const file of ["saved_model.pb", "variables/variables.index", "asset", "notes.txt"]) {
      const directory = writtenModel();
      writeFileSync(path.join(directory, "notes.txt"), "of nobody's use");
      writeManifest(directory);
      const name = file === "asset" ? assetOf(directory) : file;
      // One byte of the last key is replaced, which only a checksum can detect.
      rewrite(directory, name, (text) => text.replace(/.(\s*)$/, "~$1"));

      expect(outcomeOf(directory)).toMatch(
        new RegExp(
          `^DATA_LOSS .*Refused the version: ${name} is not the file that SHA256SUMS lists`,
        ),
      );
    }
  });

  test("refuses a file that is gone, by name", () => {
    for (const name of ["notes.txt", "variables/variables.data-00000-of-00001"]) {
      const directory = writtenModel();
      writeFileSync(path.join(directory, "notes.txt"), "of nobody's use");
      writeManifest(directory);
      rmSync(path.join(directory, name));

      expect(outcomeOf(directory)).toMatch(new RegExp(`^NOT_FOUND .*${name}`));
    }
  });

  test("refuses files that are used and that it does not list: it may be cut itself", () => {
    for (const unlisted of ["saved_model.pb", ".index", ".data-", "assets/"]) {
      const directory = writtenModel();
      writeManifest(directory, (name) => name.includes(unlisted));

      expect(outcomeOf(directory)).toMatch(
        /^DATA_LOSS .*Refused the version: the version uses .*, which SHA256SUMS does not list/,
      );
    }
  });

  test("vouches for a table that is larger than its vocabulary", () => {
    const directory = writtenModel();
    rewrite(directory, assetOf(directory), (text) => linesOf(text, 10));
    writeManifest(directory);

    expect(outcomeOf(directory)).toBe("opens");
  });

  test("is read as sha256sum writes it, and refused otherwise", () => {
    const sum = "0123456789abcdef".repeat(4);
    const parsed = (text: string): unknown => {
      try {
        return [...parseManifest(Buffer.from(text)).keys()];
      } catch (error) {
        return (error as WinnowError).code;
      }
    };

    expect(parsed(`${sum}  a\n${sum.toUpperCase()} *./b c/d\r\n\n`)).toEqual(["a", "b c/d"]);
    for (const text of ["", "\n", "a", sum, `${sum} a`, `${sum}  a\n${sum.slice(1)}  b\n`]) {
      expect(parsed(text)).toBe("DATA_LOSS");
    }
    expect(parsed(`${sum}  a\n${"f".repeat(64)}  a\n`)).toBe("DATA_LOSS");
    for (const name of ["/etc/passwd", "../x", "a/../../x", "a//b"]) {
      expect(parsed(`${sum}  ${name}\n`)).toBe("INVALID_ARGUMENT");
    }
    expect(parsed(`${sum}  a\n`.repeat(100_001))).toBe("RESOURCE_EXHAUSTED");
  });
});

describe("a fingerprint", () => {
  const fingerprintOf = (directory: string): string => {
    const version = openModelVersion(directory);
    version.close();
    return version.program.fingerprint;
  };

  test("tells vocabularies apart that have as many bytes and lines", () => {
    const [one, other] = [writtenModel(), writtenModel()];
    expect(fingerprintOf(one)).toBe(fingerprintOf(other));
    rewrite(other, assetOf(other), (text) => text.replace("u18\nu19", "u19\nu18"));

    expect(fingerprintOf(one)).not.toBe(fingerprintOf(other));
  });

  test("counts an asset that is a link, and files that the graph does not name", () => {
    const directory = writtenModel();
    const asset = assetOf(directory);
    const before = fingerprintOf(directory);
    mkdirSync(path.join(root, "elsewhere"));
    const away = path.join(root, "elsewhere", path.basename(asset));
    renameSync(path.join(directory, asset), away);
    symlinkSync(away, path.join(directory, asset));
    expect(fingerprintOf(directory)).toBe(before);
    rewrite(root, `elsewhere/${path.basename(asset)}`, (text) => text.replace("u19", "v19"));

    expect(fingerprintOf(directory)).not.toBe(before);
    const changed = fingerprintOf(directory);
    writeFileSync(path.join(directory, "assets", "more.txt"), "x");
    expect(fingerprintOf(directory)).not.toBe(changed);
  });
});
