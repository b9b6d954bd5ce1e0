// Tensors as the JSON of a request. `JSON.stringify` cannot write them: integers have 64 bits, and strings
// that are not UTF-8 are base64.

import type { Tensor } from "@winnow/core";
import type { AnswerFormat } from "../oracle/answer-records.ts";
import type { PlainFilter } from "../oracle/plain-filter.ts";

/** The parts of a request's body. */
export interface RequestParts {
  readonly format: AnswerFormat;
  readonly signature: string;
  readonly inputs: ReadonlyMap<string, Tensor>;
  readonly k?: number | undefined;
  readonly exclude?: readonly Tensor[] | undefined;
  readonly include?: readonly Tensor[] | undefined;
  readonly filter?: PlainFilter | undefined;
  /** Names of attributes to return for each item. */
  readonly attributes?: readonly string[] | undefined;
}

const decoder = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });

/** The body. In the row format all inputs have as many rows as the first. */
export function requestBody(parts: RequestParts): string {
  const { format, signature, inputs, k, exclude = [], include = [], filter, attributes } = parts;
  const named = [...inputs];
  const [, first] = named[0]!;
  const fields: string[] = [];
  if (signature !== "serving_default") fields.push(`"signature_name":${JSON.stringify(signature)}`);
  const objectOf = (part: (tensor: Tensor) => string): string => {
    if (named.length === 1) return part(first);
    return `{${named.map(([name, tensor]) => `${JSON.stringify(name)}:${part(tensor)}`).join(",")}}`;
  };
  if (format === "column") fields.push(`"inputs":${objectOf(tensorJson)}`);
  else {
    const rows = Array.from({ length: first.shape[0]! }, (_, row) =>
      objectOf((tensor) => partJson(tensor, 1, row * sizeOf(tensor, 1))),
    );
    fields.push(`"instances":[${rows.join(",")}]`);
  }
  if (k !== undefined) fields.push(`"k":${k}`);
  for (const [name, ids] of [
    ["exclude", exclude],
    ["include", include],
  ] as const) {
    const lists = ids.map(tensorJson);
    if (lists.length === 1) fields.push(`"${name}":${lists[0]}`);
    if (lists.length > 1) fields.push(`"${name}":[${lists.join(",")}]`);
  }
  if (filter !== undefined) fields.push(`"filter":${JSON.stringify(filter)}`);
  if (attributes !== undefined) fields.push(`"return":${JSON.stringify(attributes)}`);
  return `{${fields.join(",")}}`;
}

/** Number of values in an element at this depth. */
function sizeOf({ shape }: Tensor, depth: number): number {
  return shape.slice(depth).reduce((product, size) => product * size, 1);
}

/** A whole tensor as nested lists. */
function tensorJson(tensor: Tensor): string {
  return partJson(tensor, 0, 0);
}

function partJson(tensor: Tensor, depth: number, offset: number): string {
  if (depth >= tensor.shape.length) return scalarJson(tensor, offset);
  const size = sizeOf(tensor, depth + 1);
  const parts = Array.from({ length: tensor.shape[depth]! }, (_, at) =>
    partJson(tensor, depth + 1, offset + at * size),
  );
  return `[${parts.join(",")}]`;
}

function scalarJson({ dtype, data }: Tensor, at: number): string {
  if (dtype === "bool") return data[at] === 0 ? "false" : "true";
  if (dtype !== "string") return String(data[at]);
  const bytes = data.at(at);
  try {
    return JSON.stringify(decoder.decode(bytes));
  } catch {
    return `{"b64":"${Buffer.from(bytes).toString("base64")}"}`;
  }
}
