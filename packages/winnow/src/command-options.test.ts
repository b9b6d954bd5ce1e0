// Texts of flags that several commands share.

import { expect, test } from "vitest";
import { modelReplicationOption } from "./command-options.ts";

const read = (text: string): unknown => modelReplicationOption().parseArg?.(text, undefined);

test("replicas of models are read by name", () => {
  expect(read("movies=3, ads=1")).toEqual(
    new Map([
      ["movies", 3],
      ["ads", 1],
    ]),
  );
});

test.each([
  ["movies=3,movies=1", "It names a model twice; write each once."],
  ["movies=3, movies=3", "It names a model twice; write each once."],
  ["movies=0", "Write model=replicas,…, each from 1 to 16."],
  ["movies,ads", "Write model=replicas,…, each from 1 to 16."],
  ["", "Write model=replicas,…, each from 1 to 16."],
])("replicas of models are not read from %j", (text, message) => {
  expect(() => read(text)).toThrow(message);
});
