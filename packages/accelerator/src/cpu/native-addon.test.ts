// An addon that was compiled from other sources than these is refused before it is used.

import { createHash } from "node:crypto";
import { readFileSync } from "node:fs";
import path from "node:path";
import { expect, test } from "vitest";
import { checkedAddon, loadNativeAddon } from "./native-addon.ts";

test("an addon that lacks a function is refused with the way round", () => {
  const { addon } = loadNativeAddon();
  const older = { ...addon, lookIntoFolders: undefined, exitAtOnce: undefined };

  const load = () => checkedAddon(older, "old.node");

  expect(load).toThrow(/^old\.node was compiled from other sources .*: run npm run build:native$/u);
});

test("the interface has a new number whenever what it says has changed", () => {
  const source = readFileSync(path.join(import.meta.dirname, "native-addon.ts"), "utf8");
  const [from, to] = ["export interface DeviceHandle", "Whether a thread may wait"];
  const types = source.slice(source.indexOf(from), source.indexOf(to));
  const said = types.replaceAll(/\/\*[^]*?\*\/|\/\/.*/gu, "").replaceAll(/\s+/gu, " ");
  const digest = createHash("sha256").update(said).digest("hex").slice(0, 16);

  // After a change: raise ADDON_INTERFACE here and in native/addon/addon.cpp, and put the new digest here.
  expect(digest).toBe("1e6d93e0873987fb");
});

test.each([
  [undefined, "an interface without number"],
  [0, "interface 0"],
  [1e6, "interface 1000000"],
])("an addon whose functions take other arguments is refused: interface %s", (version, named) => {
  const { addon } = loadNativeAddon();
  const other = { ...addon, interfaceVersion: version };

  const load = () => checkedAddon(other, "other.node");

  expect(load).toThrow(`other.node was compiled from other sources (${named}, where `);
  expect(load).toThrow(": run npm run build:native");
});

test.runIf(loadNativeAddon().addon !== undefined)("the addon of these sources is taken", () => {
  const { addon } = loadNativeAddon();

  expect(checkedAddon(addon!, "new.node")).toBe(addon);
});

test.skipIf(loadNativeAddon().addon === undefined)(
  "a shape that no scan could take is refused by the addon itself, and ends no process",
  () => {
    const addon = loadNativeAddon().addon!;
    const { handle } = addon.createDevice(1, undefined);
    const table = addon.createTable(2, 4, 0, true);
    const search = (vectors: number, k: number): unknown =>
      addon.runSearch(handle, [table], new Float32Array(vectors), k, ...NOTHING_ELSE);

    expect(() => addon.createTable(2, 0, 0, true)).toThrow("no such dim");
    expect(() => addon.createTable(2, 32_769, 0, true)).toThrow("no such dim");
    expect(() => addon.tableBytes(2 ** 32 - 2048, 1, 0, true)).toThrow("beyond the last number");
    expect(() => addon.tableBytes(2 ** 31, 1, 2 ** 31, true)).toThrow("beyond the last number");
    expect(() => addon.tableBytes(1, 1, 2 ** 32 - 1, true)).toThrow("beyond the last number");
    expect(() => addon.tableBytes(2 ** 32 - 2049, 1, 0, true)).not.toThrow();
    expect(() => search(0, 1)).toThrow("needs a query");
    expect(() => search(4, 0)).toThrow("for no rows");
    expect(() => search(4, 3)).toThrow("k exceeds the rows");
    addon.releaseTable(table);
    addon.releaseDevice(handle);
  },
);

/** No excluded rows, filters or weights. */
const NOTHING_ELSE = [undefined, undefined, undefined, undefined, undefined] as const;
