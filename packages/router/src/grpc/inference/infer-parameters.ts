// The parameters of an inference request: Winnow's fields (`request-extensions.ts`), `signature_name`, and how the
// answer is laid out. The protocol has bools, numbers and strings alone, so lists and objects are strings of JSON.

import { WinnowError, excerpt } from "@winnow/core";
import { JsonReader } from "../../http/json/json-reader.ts";
import { readJsonText } from "../../http/predict/inference/inference-request.ts";
import { headerName, isWrittenAsText } from "../../http/predict/request-extensions.ts";
import type { FieldReader } from "../../http/predict/request-extensions.ts";
import type { RequestLimits } from "../../limits/request-limits.ts";
import type { InferParameter, InferParameters } from "./infer-message.ts";

const KNOWN: ReadonlySet<string> = new Set(
  "signature_name binary_data_output k exclude include filter return return_vectors explain".split(
    " ",
  ),
);
const IGNORED_MAX = 8;
/** Values of a parameter that is JSON, beside ids and their lists: those of filters. */
const JSON_VALUES_MAX = 2 ** 17;

/** Winnow's fields among the parameters. */
export function fieldsOfParameters(
  parameters: InferParameters,
  limits: Pick<RequestLimits, "jsonValuesMax" | "excludedIdsMax">,
): FieldReader {
  return (field) => {
    const parameter = parameters.get(field);
    if (parameter === undefined) return undefined;
    if (parameter.kind === "text" && isWrittenAsText(field)) {
      const valuesMax = JSON_VALUES_MAX + 2 * limits.excludedIdsMax;
      const jsonValuesMax = Math.min(limits.jsonValuesMax, valuesMax);
      return readJsonText(field, parameter.value, { jsonValuesMax });
    }
    const document = new JsonReader({ valuesMax: 1 });
    document.parse(Buffer.from(jsonOf(parameter)));
    return { document, value: 0 };
  };
}

function jsonOf(parameter: InferParameter): string {
  switch (parameter.kind) {
    case "none":
      return "null";
    case "text":
      return JSON.stringify(Buffer.from(parameter.value).toString("utf8"));
    case "double":
      return Number.isFinite(parameter.value) ? String(parameter.value) : "null";
    case "bool":
    case "integer":
      return String(parameter.value);
  }
}

/** A parameter that is a text. @throws WinnowError INVALID_ARGUMENT for one of another kind */
export function textOf(parameters: InferParameters, name: string): string | undefined {
  const parameter = parameters.get(name);
  if (parameter === undefined) return undefined;
  if (parameter.kind === "text") return Buffer.from(parameter.value).toString("utf8");
  return refuse(name, parameter, "a string");
}

/** A parameter that is true or false. @throws WinnowError INVALID_ARGUMENT for one of another kind */
export function flagOf(parameters: InferParameters, name: string): boolean | undefined {
  const parameter = parameters.get(name);
  if (parameter === undefined) return undefined;
  if (parameter.kind === "bool") return parameter.value;
  return refuse(name, parameter, "true or false");
}

/** Names of parameters that mean nothing, a few, as they may stand in a header. */
export function ignoredParameters(parameters: InferParameters): readonly string[] {
  const ignored = [...parameters.keys()].filter((name) => !KNOWN.has(name));
  return ignored.slice(0, IGNORED_MAX).map((name) => headerName(Buffer.from(name)));
}

function refuse(name: string, parameter: InferParameter, wanted: string): never {
  const message = `Parameter "${name}" is ${excerpt(jsonOf(parameter))}; it must be ${wanted}`;
  throw new WinnowError("INVALID_ARGUMENT", message);
}
