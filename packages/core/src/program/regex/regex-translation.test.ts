// Refusals and bounds of regular expressions, which the recorded answers do not cover.

import { describe, expect, test } from "vitest";

import { stringTensor } from "../../tensor/tensor.ts";
import { runHostStep, validateHostStep } from "../operations/host-operations.ts";
import type { HostStep } from "../program.ts";
import { translateRegex } from "./regex-translation.ts";

const replace = (pattern: string, rewrite = ""): HostStep => ({
  kind: "host",
  op: "StaticRegexReplace",
  node: "clean",
  attributes: { pattern, rewrite },
  inputs: [0],
  outputs: [1],
});

const withCode = (code: string): Error => expect.objectContaining({ code }) as Error;

describe("validateHostStep()", () => {
  test.each([
    "(",
    "[a",
    "a**",
    "(?=x)",
    "(?<!x)a",
    "\\1",
    "x{2,1}",
    "*a",
    "[[:none:]]",
    "\\p{Klingon}",
    "\\",
  ])("refuses %s, which is no RE2 pattern", (pattern) => {
    expect(() => validateHostStep(replace(pattern))).toThrow(withCode("INVALID_ARGUMENT"));
  });

  test.each(["(a+)+", "(a|b)*", "(?:x*y)+", "((a?)b){2,}", "a(?i)b", "\\C", "[\\D]"])(
    "refuses %s, which RE2 takes and Winnow does not",
    (pattern) => {
      expect(() => validateHostStep(replace(pattern))).toThrow(
        /UNIMPLEMENTED|clean|regular|pattern/,
      );
    },
  );

  test("refuses a rewrite that asks for a group the pattern lacks", () => {
    expect(() => validateHostStep(replace("(a)", "\\2"))).toThrow("[[{{node clean}}]]");
    expect(() => validateHostStep(replace("(a)", "\\1\\0"))).not.toThrow();
  });
});

describe("the text a pattern may see", () => {
  test("is bounded by the repeats of one alternative", () => {
    const bounds = ["[!?]", "a+", "a+|b+|c*", "a+b+", "a+b*c{3,}"].map((pattern) => {
      return translateRegex(pattern).textBytesMax;
    });

    expect(bounds).toEqual([2 ** 24, 2 ** 13, 2 ** 13, 2 ** 10, 2 ** 9]);
  });

  test("beyond its bound is RESOURCE_EXHAUSTED, one string or all together", () => {
    const long = stringTensor(["<".repeat(2 ** 13 + 1)]);
    const many = stringTensor(Array.from({ length: 100 }, () => "<".repeat(2 ** 12)));

    for (const texts of [long, many]) {
      expect(() => runHostStep(replace("<[^>]*>"), [texts], [])).toThrow(
        withCode("RESOURCE_EXHAUSTED"),
      );
    }
  });

  test("at its bound takes a moment, not minutes", () => {
    const texts = stringTensor(["<".repeat(2 ** 13)]);

    expect(runHostStep(replace("<[^>]*>"), [texts], [])[0]).toEqual(texts);
  });
});
