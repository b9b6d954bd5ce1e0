// Versions whose tables could not be announced are not opened.

import { TABLE_SOURCES_MAX } from "@winnow/core";
import type { ModelProgram } from "@winnow/core";
import { expect, test } from "vitest";

import { checkSources } from "./sources-check.ts";

const programOf = (count: number): ModelProgram => {
  const sources = Array.from({ length: count }, (_, at) => ({ tensor: `t${at}` }));
  return { tables: [{ name: "items", sources }] } as unknown as ModelProgram;
};

test("a version is refused whose table is read from more tensors than can be announced, and opened with as many", async () => {
  await expect(
    checkSources(programOf(TABLE_SOURCES_MAX + 1), "/models/movies/7"),
  ).rejects.toMatchObject({
    code: "UNIMPLEMENTED",
    message: expect.stringMatching(/movies\/7.*"items" are computed of 257.*at most 256/) as string,
  });
  await expect(
    checkSources(programOf(TABLE_SOURCES_MAX), "/models/movies/7"),
  ).resolves.toBeUndefined();
});
