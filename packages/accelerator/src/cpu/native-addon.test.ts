// An addon that was compiled from other sources than these is refused before it is used.

import { expect, test } from "vitest";
import { checkedAddon, loadNativeAddon } from "./native-addon.ts";

test("an addon that lacks a function is refused with the way round", () => {
  const { addon } = loadNativeAddon();
  const older = { ...addon, lookIntoFolders: undefined, exitAtOnce: undefined };

  const load = () => checkedAddon(older, "old.node");

  expect(load).toThrow(/^old\.node was compiled from other sources .*: run npm run build:native$/u);
});

test.runIf(loadNativeAddon().addon !== undefined)("the addon of these sources is taken", () => {
  const { addon } = loadNativeAddon();

  expect(checkedAddon(addon!, "new.node")).toBe(addon);
});
