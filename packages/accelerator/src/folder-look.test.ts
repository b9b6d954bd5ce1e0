// The addon's looks into folders, beside what Node says of the same files.

import {
  mkdirSync,
  mkdtempSync,
  rmSync,
  statSync,
  symlinkSync,
  utimesSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { loadNativeAddon } from "./cpu/native-addon.ts";
import { createFolderLook } from "./folder-look.ts";

const { addon } = loadNativeAddon();

describe.skipIf(addon === undefined)("a look into folders", () => {
  const look = createFolderLook(4)!;
  let base = "";

  beforeAll(() => {
    base = mkdtempSync(path.join(tmpdir(), "winnow-folders-"));
    for (const name of ["three/below", "four", "five"]) {
      mkdirSync(path.join(base, name), { recursive: true });
    }
    writeFileSync(path.join(base, "three", "file"), "12345");
    utimesSync(path.join(base, "three", "file"), 1e9 / 3, 1.7e9 + 1 / 7);
    symlinkSync("below", path.join(base, "three", "link"));
    for (let at = 0; at < 4; at += 1) writeFileSync(path.join(base, "four", `${at}`), "");
    for (let at = 0; at < 5; at += 1) writeFileSync(path.join(base, "five", `${at}`), "");
  });

  afterAll(() => rmSync(base, { recursive: true }));

  const asked = (name: string, withFacts: boolean) => ({
    folder: path.join(base, name),
    withFacts,
  });

  test("gives kinds, sizes and times as stat does", async () => {
    const [entries] = await look([asked("three", true)]);

    const byName = entries!.toSorted((a, b) => (a.name < b.name ? -1 : 1));
    expect(byName).toEqual(
      ["below", "file", "link"].map((name) => {
        const { size, mtimeMs, ctimeMs } = statSync(path.join(base, "three", name));
        return { name, kind: name === "file" ? "file" : "folder", size, mtimeMs, ctimeMs };
      }),
    );
  });

  test("without facts gives kinds, and follows links for them", async () => {
    const [entries] = await look([asked("three", false)]);

    const kinds = entries!.map(({ name, kind }) => `${name}: ${kind}`);
    expect(kinds.toSorted()).toEqual(["below: folder", "file: file", "link: folder"]);
  });

  test("lists up to its bound, in the order of the folders", async () => {
    const names = ["five", "four", "gone", "three/below"];

    const found = await look(names.map((name) => asked(name, false)));

    expect(found.map((entries) => entries?.length)).toEqual([undefined, 4, undefined, 0]);
  });

  test.each<[string, unknown[]]>([
    ["no array", ["folder", Uint8Array.of(0), 1]],
    ["no text", [[1], Uint8Array.of(0), 1]],
    ["a flag too few", [["a", "b"], Uint8Array.of(0), 1]],
    ["no bytes", [["a"], [0], 1]],
    ["a negative bound", [["a"], Uint8Array.of(0), -1]],
    ["nothing", []],
  ])("refuses %s", (_, values) => {
    const untyped = addon as unknown as { lookIntoFolders(...all: unknown[]): unknown };

    expect(() => untyped.lookIntoFolders(...values)).toThrow(TypeError);
  });
});
