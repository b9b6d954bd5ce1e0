// Versions with more uncut tables than routers may hold are not opened.

import type { ModelProgram, UncutTable } from "@winnow/core";
import { expect, test } from "vitest";

import { uncutCheck } from "./uncut-check.ts";

const table = (tensor: string, bytes: number): UncutTable => {
  return { tensor, bytes, ranking: "TopKV2", obstacle: { node: "scores/Abs", op: "Abs" } };
};
const program = (uncutTables?: readonly UncutTable[]): ModelProgram =>
  ({ uncutTables }) as unknown as ModelProgram;

test("a version is refused, with the operation in the way, where its uncut tables take more than is allowed", async () => {
  const given = program([table("items", 800), table("users", 200)]);

  await expect(uncutCheck(999)(given, "/models/movies/7")).rejects.toMatchObject({
    code: "UNIMPLEMENTED",
    message: expect.stringMatching(
      /^Cannot serve .*movies\/7.* 800 bytes of items.*operation Abs \(node scores\/Abs\).* 200 bytes of users.*At most 999 bytes.*--worker-uncut-bytes-max/,
    ) as string,
  });
});

test("a version is opened where they take as much, or where there are none and none are allowed", async () => {
  const checked = [
    uncutCheck(1000)(program([table("items", 800), table("users", 200)]), "/models/movies/7"),
    uncutCheck(0)(program(), "/models/movies/7"),
  ];

  await expect(Promise.all(checked)).resolves.toHaveLength(2);
});
