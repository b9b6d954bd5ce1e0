// Slices: keys as TensorFlow's SaveV2 wrote them into an index, and names as RestoreV2 is given them.

import { WinnowError } from "@winnow/core";
import { describe, expect, test } from "vitest";
import { parseSliceName, sizesOfSlice, sliceKeyOf } from "./tensor-slice.ts";

describe("the key of a slice is TensorFlow's", () => {
  // Recorded from SaveV2 of TensorFlow 2.21; numbers around the borders of 1 to 6 bytes.
  test.each([
    ["a0", [3], [1], "006130000101018381"],
    ["a/b1", [63, 0], [1, 64], "00612f623100010102bf8180c040"],
    ["w2", [64], [65], "00773200010101c040c041"],
    ["w3", [8191], [70], "00773300010101dfffc046"],
    ["w4", [2 ** 20 - 1], [70], "00773400010101efffffc046"],
    ["w5", [2 ** 27], [70], "00773500010101f808000000c046"],
    ["w6", [2 ** 34], [1], "00773600010101fc040000000081"],
    ["ü7", [2 ** 41 - 1, 0], [1, 1], "00c3bc3700010102fdffffffffff818081"],
    ["full", [0, 100], [-1, 2], "0066756c6c00010102807fc06482"],
  ])("%s from %j of %j", (...recorded) => {
    const [name, start, length, hex] = recorded;

    expect(Buffer.from(sliceKeyOf(name, { start, length })).toString("hex")).toBe(hex);
  });

  test("a zero byte in a name does not end it", () => {
    const key = sliceKeyOf("a\0b", { start: [0], length: [1] });

    expect(Buffer.from(key).toString("hex")).toBe("006100ff62000101018081");
  });
});

describe("the name of a slice", () => {
  test.each([
    ["40 8 0,10:0,8", { start: [0, 0], length: [10, 8] }],
    ["40 8 10,30:-", { start: [10, 0], length: [30, 8] }],
    ["40 7,1", { start: [7], length: [1] }],
  ])("%s gives start and sizes", (name, slice) => {
    expect(parseSliceName(name)).toEqual(slice);
  });

  test.each(["", "40 8 0,40:0,8", "40 8 -:-"])("%j is the whole tensor", (name) => {
    expect(parseSliceName(name)).toBeUndefined();
  });

  test.each(["40 8 0,10", "40 8 35,10:-", "40 x,1", "40 0,1.5", "-:-", "40 -1,3"])(
    "%s is refused",
    (name) => {
      expect(() => parseSliceName(name)).toThrow(WinnowError);
    },
  );
});

test("a slice outside of its tensor has no sizes", () => {
  expect(sizesOfSlice({ start: [4, 0], length: [2, -1] }, [6, 3])).toEqual([2, 3]);
  expect(sizesOfSlice({ start: [5, 0], length: [2, -1] }, [6, 3])).toBeUndefined();
  expect(sizesOfSlice({ start: [0], length: [1] }, [6, 3])).toBeUndefined();
  expect(sizesOfSlice({ start: [0, 0], length: [-2, 1] }, [6, 3])).toBeUndefined();
});
