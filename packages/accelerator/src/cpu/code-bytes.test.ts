// What is told of a resident's memory before it is loaded is what loading it takes.

import { expect, test } from "vitest";
import { createAccelerator } from "../create-accelerator.ts";
import { codeBytesOf } from "./code-bytes.ts";

test.each([
  [1, 1],
  [63, 8],
  [64, 8],
  [1000, 33],
])(
  "values and codes of %i rows of %i values are the bytes that a load reserves",
  async (rows, dim) => {
    const { accelerator } = await createAccelerator("cpu", { capacityBytes: 2 ** 24, threads: 1 });
    const values = new Float32Array(rows * dim).fill(0.5);

    const resident = await accelerator.load({ rows, dim, firstRow: 0, use: "search" }, [values]);

    expect(rows * dim * 4 + codeBytesOf(rows, dim)).toBe(resident.bytes);
    expect(accelerator.memory().usedBytes).toBe(resident.bytes);
    await accelerator.close();
  },
);
