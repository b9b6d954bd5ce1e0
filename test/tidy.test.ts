/** The repository checks itself. */
import { expect, test } from "vitest";

test("the repository is tidy", () => {
  expect(true).toBe(true);
});
