// Lists of one value each are the values where a pipeline declares values, and stay lists where it declares lists.

import { stringTensor, tensor } from "@winnow/core";
import type { SignatureTensor, Tensor } from "@winnow/core";
import { expect, test } from "vitest";
import { ManualClock } from "../../../../test/doubles/manual-clock.ts";
import type { PredictRequest } from "../predictor.ts";
import { RequestContext } from "../request-context.ts";
import { withValuesAlone } from "./request-values.ts";

function requestWith(inputs: Readonly<Record<string, Tensor>>): PredictRequest {
  const given = (name: string, ...inner: number[]): SignatureTensor => {
    return { name, dtype: "string", shape: [-1, ...inner], value: 0, graphTensor: "" };
  };
  const own = { name: "serving_default", methodName: "", constants: [], steps: [], outputs: [] };
  const signature = { ...own, inputs: [given("user"), given("watched", -1)] };
  const context = new RequestContext(new ManualClock(), { timeoutMs: 1000 });
  return { signature, inputs: new Map(Object.entries(inputs)), context };
}

test("lists of one value each are values, where values are declared", () => {
  const user = stringTensor(["a", "b"], [2, 1]);
  const watched = stringTensor(["c", "d"], [2, 1]);

  const { inputs } = withValuesAlone(requestWith({ user, watched }));

  expect(inputs.get("user")).toEqual(stringTensor(["a", "b"], [2]));
  expect(inputs.get("watched")).toBe(watched);
});

test("other shapes stay, for the check to refuse them", () => {
  const longer = requestWith({ user: stringTensor(["a", "b"], [1, 2]) });
  const plain = requestWith({ user: tensor("int64", [1], BigInt64Array.of(1n)) });

  expect(withValuesAlone(longer)).toBe(longer);
  expect(withValuesAlone(plain)).toBe(plain);
});
