// TensorFlow Serving's rules for the names of version directories.

import { describe, expect, test } from "vitest";
import { indexVersions } from "./version-names.ts";

describe("names of version directories", () => {
  test.each([
    ["1", 1],
    ["00000123", 123],
    [" 7", 7],
    ["1609459200", 1_609_459_200],
    ["0", 0],
  ])("%j is version %d", (name, version) => {
    expect([...indexVersions([name]).names.keys()]).toEqual([version]);
  });

  test.each(["v1", "", "1.0", "-3", "1e3", "0x10", "9223372036854775807", "1 2", "一"])(
    "%j is no version",
    (name) => {
      expect(indexVersions([name]).names.size).toBe(0);
    },
  );
});

describe("indexVersions()", () => {
  test("two names for one number: the last by name wins, the other is reported", () => {
    const index = indexVersions(["7", "tmp", "00007", "12"]);

    expect([...index.names]).toEqual([
      [7, "7"],
      [12, "12"],
    ]);
    expect(index.duplicates).toEqual([{ version: 7, ignored: "00007" }]);
  });

  test("a number of nanoseconds is too large, and is told of", () => {
    const index = indexVersions(["9007199254740991", "9007199254740992", "+1732500000000000000"]);

    expect([...index.names.keys()]).toEqual([9_007_199_254_740_991]);
    expect(index.tooLarge).toEqual(["+1732500000000000000", "9007199254740992"]);
  });
});
