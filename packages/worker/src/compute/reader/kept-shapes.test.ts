// What is kept of dense parts holds for the very bytes and runtime that it was found with, or not at all.

import {
  mkdirSync,
  mkdtempSync,
  readFileSync,
  readdirSync,
  rmSync,
  statSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";

import type { DenseShapes } from "@winnow/accelerator";
import { afterAll, afterEach, beforeEach, expect, test } from "vitest";

import { NEEDS_SMALL_DISK, smallDisk } from "../../../../../test/small-disk.ts";
import { shapesKeptIn } from "./kept-shapes.ts";

const SHAPES: DenseShapes = { inputs: { x: [-1, 2] }, outputs: { y: [-1, 4] } };
const PART = Uint8Array.of(1, 2, 3);

let folder: string;
beforeEach(() => {
  folder = mkdtempSync(path.join(tmpdir(), "winnow-shapes-"));
});
afterEach(() => rmSync(folder, { recursive: true, force: true }));

const parts = (): string => path.join(folder, "dense-parts");
const only = (): string => path.join(parts(), readdirSync(parts())[0]!);

const disk = smallDisk();
afterAll(() => disk?.remove());

test.skipIf(disk === undefined)(
  `on a full disk nothing is kept, and nothing is left behind ${NEEDS_SMALL_DISK}`,
  () => {
    const kept = path.join(disk!.folder, "dense-parts");
    mkdirSync(kept);
    disk!.fill();

    shapesKeptIn(disk!.folder, "1.30.0").keep(PART, SHAPES);

    expect(readdirSync(kept)).toEqual([]);
  },
);

test("a part that was loaded is known to the next process, but not under another runtime or with another byte", () => {
  shapesKeptIn(folder, "1.30.0").keep(PART, SHAPES);

  expect(shapesKeptIn(folder, "1.30.0").get(PART)).toEqual(SHAPES);
  expect(shapesKeptIn(folder, "1.30.1").get(PART)).toBeUndefined();
  expect(shapesKeptIn(folder, "1.30.0").get(Uint8Array.of(1, 2, 4))).toBeUndefined();
  expect(statSync(only()).mode & 0o022).toBe(0);
});

test.each([
  ["is damaged", (text: string) => text.replace("4]", "5]")],
  ["is cut short", (text: string) => text.slice(0, -3)],
  ["is empty", () => ""],
])("a file that %s is as none", (_title, damage) => {
  const kept = shapesKeptIn(folder, "1.30.0");
  kept.keep(PART, SHAPES);
  writeFileSync(only(), damage(readFileSync(only(), "utf8")));

  expect(kept.get(PART)).toBeUndefined();
});

test("where nothing can be written, nothing is kept and nothing fails", () => {
  writeFileSync(parts(), "");
  const kept = shapesKeptIn(folder, "1.30.0");
  kept.keep(PART, SHAPES);

  expect(kept.get(PART)).toBeUndefined();
});

test("a folder that is full begins again", () => {
  mkdirSync(parts());
  for (let file = 0; file < 256; file += 1) writeFileSync(path.join(parts(), `${file}.json`), "");
  const kept = shapesKeptIn(folder, "1.30.0");
  kept.keep(PART, SHAPES);

  expect(readdirSync(parts())).toHaveLength(1);
  expect(kept.get(PART)).toEqual(SHAPES);
});
