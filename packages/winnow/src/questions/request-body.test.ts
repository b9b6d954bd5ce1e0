// Bodies say what the tensors hold, to the last digit and byte.

import { StringColumn, type Tensor, stringTensor, tensor } from "@winnow/core";
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { parseAnswer } from "../oracle/answer-json.ts";
import { tensorOfScalars } from "../oracle/scalars.ts";
import { requestBody } from "./request-body.ts";

describe("the body of a request", () => {
  test("has integers of 64 bits, float32 to the bit, and strings that are not UTF-8 as base64", () => {
    const bytes = StringColumn.fromBytes([Uint8Array.of(0xff, 0x00), Buffer.from('"☃\n')]);
    const inputs = new Map<string, Tensor>([
      ["n", tensor("int64", [2], BigInt64Array.of(-9223372036854775808n, 7n))],
      ["f", tensor("float32", [2, 1], Float32Array.of(0.1, 1e-45))],
      ["s", tensor("string", [2], bytes)],
    ]);

    const body = requestBody({ format: "row", signature: "serving_default", inputs, k: 3 });

    expect(body).toBe(
      '{"instances":[{"n":-9223372036854775808,"f":[0.10000000149011612],"s":{"b64":"/wA="}},' +
        '{"n":7,"f":[1.401298464324817e-45],"s":"\\"☃\\n"}],"k":3}',
    );
  });

  test("names the signature where it is another, and gives each instance its exclusions", () => {
    const inputs = new Map([["user", stringTensor(["a", "b"])]]);
    const signature = "best";
    const lists = [stringTensor(["x"]), stringTensor([])];

    expect(requestBody({ format: "row", signature, inputs, exclude: lists })).toBe(
      '{"signature_name":"best","instances":["a","b"],"exclude":[["x"],[]]}',
    );
    expect(requestBody({ format: "column", signature, inputs, exclude: [lists[0]!] })).toBe(
      '{"signature_name":"best","inputs":["a","b"],"exclude":["x"]}',
    );
  });

  test("holds any text in both formats", () => {
    fc.assert(
      fc.property(fc.array(fc.string({ unit: "grapheme" }), { minLength: 1 }), (texts) => {
        const latin1 = texts.map((text) => Buffer.from(text).toString("latin1"));
        const inputs = new Map([["user", tensorOfScalars("string", [texts.length], latin1)]]);
        const signature = "serving_default";

        const row = parseAnswer(requestBody({ format: "row", signature, inputs }));
        const column = parseAnswer(requestBody({ format: "column", signature, inputs }));

        expect([row, column]).toEqual([{ instances: texts }, { inputs: texts }]);
      }),
    );
  });
});
