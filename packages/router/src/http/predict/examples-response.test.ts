// Answers of classify and regress, to the byte: RapidJSON's pretty printer breaks no line within an array of classes.

import { StringColumn, tensor } from "@winnow/core";
import type { Tensor } from "@winnow/core";
import { describe, expect, test } from "vitest";
import type { ExampleMethod } from "../../examples/example-signature.ts";
import { writeExampleResults } from "./examples-response.ts";

const LIMITS = { answerBytesMax: 2 ** 20 };

async function written(
  method: ExampleMethod,
  outputs: Readonly<Record<string, Tensor>>,
  { instances = 2, limits = LIMITS } = {},
): Promise<string> {
  const results = { method, outputs: new Map(Object.entries(outputs)), instances };
  return (await writeExampleResults(results, limits)).toString("utf8");
}

const floats = (shape: readonly number[], values: readonly number[]): Tensor =>
  tensor("float32", shape, Float32Array.from(values));
const texts = (shape: readonly number[], values: readonly string[]): Tensor =>
  tensor("string", shape, StringColumn.fromText(values));

const classes = texts([2, 2], ["drama", "war", 'the "end"\n', ""]);
const scores = floats([2, 2], [0.75, 0.25, 1, -0]);

describe("results of examples", () => {
  test("are lists of labels and scores", async () => {
    expect(await written("classify", { classes, scores })).toBe(
      [
        "{",
        '    "results": [[["drama", 0.75], ["war", 0.25]], [["the \\"end\\"\\n", 1.0], ["", -0.0]]',
        "    ]",
        "}",
      ].join("\n"),
    );
  });

  test("lack nothing where the signature lacks labels or scores", async () => {
    const one = { instances: 1 };
    expect(await written("classify", { scores: floats([1, 2], [0.5, NaN]) }, one)).toContain(
      '[["", 0.5], ["", NaN]]',
    );
    expect(await written("classify", { classes: texts([1, 1], ["a"]) }, one)).toContain(
      '[["a", 0.0]]',
    );
    expect(await written("classify", { classes: texts([1, 0], []) }, one)).toContain("[[]\n");
  });

  test("are values on one line", async () => {
    const values = floats([2, 1], [3.5, -2]);

    expect(await written("regress", { outputs: values })).toBe('{\n    "results": [3.5, -2.0]\n}');
  });

  test("that are long are written in pieces, and whole", async () => {
    const many = 50_000;
    const labels = Array.from({ length: many }, (_, at) => `class ${at}`);
    const limits = { answerBytesMax: 2 ** 26 };
    const text = await written(
      "classify",
      { classes: texts([1, many], labels) },
      { instances: 1, limits },
    );

    const { results } = JSON.parse(text) as { results: [string, number][][] };
    expect(results).toEqual([labels.map((label) => [label, 0])]);
    await expect(
      written("classify", { classes: texts([1, many], labels) }, { instances: 1 }),
    ).rejects.toMatchObject({ code: "RESOURCE_EXHAUSTED" });
  });

  test.each([
    ["classify", { scores: floats([2], [1, 2]) }, "[batch_size num_classes] but got [2]"],
    ["classify", { classes: floats([2, 1], [1, 2]) }, "classes Tensor of DT_STRING. Got: DT_FLOAT"],
    ["classify", { scores: texts([2, 1], ["", ""]) }, "scores Tensor of DT_FLOAT. Got: DT_STRING"],
    ["classify", { scores: floats([1, 2], [1, 2]) }, "scores output batch size of 2. Got: 1"],
    ["classify", { classes, scores: floats([2, 1], [1, 2]) }, "dim_size(1). Got 2 vs. 1"],
    ["regress", { outputs: floats([2, 2], [1, 2, 3, 4]) }, "but got [2,2]"],
    ["regress", { outputs: floats([1], [1]) }, "output batch size: 2 vs. 1"],
    ["regress", { outputs: texts([2], ["", ""]) }, "Tensor of DT_FLOAT.  Got: DT_STRING"],
  ] as const)("of %s with %j are refused", async (method, outputs, problem) => {
    await expect(written(method, outputs)).rejects.toMatchObject({
      code: "INVALID_ARGUMENT",
      message: expect.stringContaining(problem) as unknown,
    });
  });
});
