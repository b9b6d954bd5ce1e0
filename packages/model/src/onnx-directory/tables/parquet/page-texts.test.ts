// Texts of a page: which bytes each has, and what they cost.

import { expect, test } from "vitest";
import { levels } from "../../fixtures/parquet-files.ts";
import { PageTexts } from "./page-texts.ts";

const page = Buffer.concat(["Heat", "", "Zoë"].map((text) => levels(Buffer.from(text))));
const textAt = (texts: PageTexts, at: number): string => Buffer.from(texts.at(at)).toString();

test("texts are found by number, and by positions of a dictionary", () => {
  const texts = PageTexts.ofPlain(page, 3)!;
  const taken = texts.take(Uint32Array.of(2, 0, 2));

  expect([0, 1, 2].map((at) => textAt(texts, at))).toEqual(["Heat", "", "Zoë"]);
  expect([0, 1, 2].map((at) => textAt(taken, at))).toEqual(["Zoë", "Heat", "Zoë"]);
  expect(taken.startOf(0)).toBe(taken.startOf(2));
  expect(taken.length).toBe(3);
});

test("bytes that end within a text, or within its length, are not read", () => {
  for (let length = 0; length < page.length; length += 1) {
    expect(PageTexts.ofPlain(page.subarray(0, length), 3)).toBeUndefined();
  }
});

test("millions of texts have no object each", () => {
  const count = 2 ** 22;
  const empty = new Uint8Array(4 * count);
  const before = process.memoryUsage().heapUsed;
  const texts = PageTexts.ofPlain(empty, count)!;

  expect(process.memoryUsage().heapUsed - before).toBeLessThan(2 ** 26);
  expect(texts.length).toBe(count);
});
