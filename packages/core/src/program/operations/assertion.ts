// Assert and CheckNumerics: the graph's own refusal of a request, with the message of the model's author.

import { excerpt } from "../../errors/errors.ts";
import { inputAt, numberAttribute, numericAt, textAttribute } from "./host-call.ts";
import type { HostCall, HostOperations } from "./host-call.ts";
import { invalid } from "../node-error.ts";
import type { Tensor } from "../../tensor/tensor.ts";

/** Assertions, by TensorFlow's name. */
export const assertionOperations: HostOperations = { Assert: check, CheckNumerics: finite };

/** Numbers as they are, where none is infinite or NaN. */
function finite(call: HostCall): Tensor[] {
  const tensor = numericAt(call, 0);
  const strange = Array.from<number | bigint>(tensor.data).filter(
    (value) => typeof value === "number" && !Number.isFinite(value),
  );
  if (strange.length === 0) return [tensor];
  const hasNan = strange.some((value) => Number.isNaN(value));
  const hasInfinite = !strange.every((value) => Number.isNaN(value));
  const found = [...(hasInfinite ? ["Inf"] : []), ...(hasNan ? ["NaN"] : [])].join(" and ");
  throw invalid(`${excerpt(textAttribute(call, "message", ""))} : Tensor had ${found} values`);
}

function check(call: HostCall): Tensor[] {
  const condition = inputAt(call, 0);
  if (condition.dtype === "bool" && condition.data.every((value) => value !== 0)) return [];
  const valuesMax = numberAttribute(call, "summarize", 3);
  const parts = call.inputs.slice(1).map((data) => `[${summaryOf(data, valuesMax)}]`);
  throw invalid(`assertion failed: ${parts.join(" ")}`);
}

function summaryOf(tensor: Tensor, valuesMax: number): string {
  const count = valuesMax < 0 ? tensor.data.length : Math.min(valuesMax, tensor.data.length);
  const values = Array.from({ length: Math.min(count, 100) }, (_, at) => valueText(tensor, at));
  const isCut = values.length < tensor.data.length;
  return excerpt(values.join(" ") + (isCut ? "..." : ""));
}

function valueText(tensor: Tensor, at: number): string {
  if (tensor.dtype === "string") {
    const text = tensor.data.textAt(at);
    return tensor.shape.length === 0 ? text : `"${text}"`;
  }
  return String(tensor.data[at]);
}
