// Answers in one form, whatever they came in: a record of named values for each instance. The row format
// leaves out the name of a single output, the column format has a list for each output.

import type { Dtype, Tensor } from "@winnow/core";
import { type AnswerValue, isAnswerObject } from "./answer-json.ts";

/** How a request and its answer are laid out. */
export type AnswerFormat = "row" | "column";

/** An output, as the signature declares it. */
export interface OutputSpec {
  readonly name: string;
  readonly dtype: Dtype;
  /** Whether it is no tensor but what is said of each item: a list of objects. */
  readonly isDescription?: boolean;
}

/** The values of one instance by output. */
export type AnswerRecord = ReadonlyMap<string, AnswerValue>;

/** Records of an answer, or what keeps them from being read. */
export type AnswerRecords =
  | { readonly kind: "records"; readonly records: readonly AnswerRecord[] }
  | { readonly kind: "fault"; readonly text: string };

/** Reads a body that a server answered. */
export function recordsOfBody(
  body: AnswerValue,
  outputs: readonly OutputSpec[],
  format: AnswerFormat,
): AnswerRecords {
  const key = format === "row" ? "predictions" : "outputs";
  if (!isAnswerObject(body) || body[key] === undefined) return fault(`no "${key}" in the answer`);
  const value = body[key];
  if (format === "column") {
    const named = namedValues(value, outputs);
    return typeof named === "string" ? fault(named) : recordsOfColumns(named);
  }
  if (!Array.isArray(value)) return fault('"predictions" is no list');
  const records: AnswerRecord[] = [];
  for (const instance of value as readonly AnswerValue[]) {
    const named = namedValues(instance, outputs);
    if (typeof named === "string") return fault(named);
    records.push(named);
  }
  return { kind: "records", records };
}

/** The records that a body with these outputs has. */
export function recordsOfTensors(
  tensors: ReadonlyMap<string, Tensor>,
  format: AnswerFormat,
): readonly AnswerRecord[] {
  const columns = new Map(Array.from(tensors, ([name, tensor]) => [name, valueOf(name, tensor)]));
  const isScalar = [...tensors.values()].some(({ shape }) => shape.length === 0);
  if (format === "row" || !isScalar) return recordsOfColumns(columns).records;
  return [columns];
}

/** The output that attributes of items come as. */
export const ATTRIBUTES: OutputSpec = { name: "attributes", dtype: "string", isDescription: true };

/** Records with what is said of the items of each. */
export function withAttributes(
  records: readonly AnswerRecord[],
  attributes: readonly (readonly AnswerValue[])[] | undefined,
): readonly AnswerRecord[] {
  if (attributes === undefined) return records;
  return records.map((record, at) => new Map([...record, [ATTRIBUTES.name, attributes[at] ?? []]]));
}

/** Whether some list is longer than that of another instance: no tensor holds such lists. */
export function isRagged(records: readonly AnswerRecord[]): boolean {
  const [first] = records;
  return records.some((record) =>
    [...record].some(([name, value]) => lengthOf(value) !== lengthOf(first?.get(name))),
  );
}

function lengthOf(value: AnswerValue | undefined): number {
  return Array.isArray(value) ? value.length : 0;
}

function recordsOfColumns(columns: AnswerRecord): {
  readonly kind: "records";
  readonly records: readonly AnswerRecord[];
} {
  const lists = [...columns].map(([name, value]) => [name, value] as const);
  const [, first] = lists[0] ?? [];
  const areLists = lists.every(
    ([, value]) => Array.isArray(value) && value.length === (first as readonly unknown[]).length,
  );
  if (!areLists || lists.length === 0) return { kind: "records", records: [columns] };
  const records = (first as readonly AnswerValue[]).map(
    (_, at) =>
      new Map(lists.map(([name, list]) => [name, (list as readonly AnswerValue[])[at]!] as const)),
  );
  return { kind: "records", records };
}

function namedValues(value: AnswerValue, outputs: readonly OutputSpec[]): AnswerRecord | string {
  if (outputs.length === 1) return new Map([[outputs[0]!.name, value]]);
  if (!isAnswerObject(value)) return "an answer without the names of its outputs";
  const names = Object.keys(value);
  const missing = outputs.find(({ name }) => !names.includes(name));
  if (missing !== undefined) return `no output "${missing.name}"`;
  const known = new Set(outputs.map(({ name }) => name));
  const stranger = names.find((name) => !known.has(name));
  if (stranger !== undefined) return `an output "${stranger}" that the model does not have`;
  return new Map(Object.entries(value));
}

function fault(text: string): AnswerRecords {
  return { kind: "fault", text };
}

/** A tensor as JSON shows it. */
export function valueOf(name: string, tensor: Tensor): AnswerValue {
  const { shape, rowLengths } = tensor;
  const strides = shape.map((_, level) => shape.slice(level + 1).reduce((a, b) => a * b, 1));
  const at = (level: number, offset: number): AnswerValue => {
    if (level === shape.length) return scalarOf(name, tensor, offset);
    const isRagged = rowLengths !== undefined && level === 1;
    const size = isRagged ? rowLengths[offset / strides[0]!]! : shape[level]!;
    return Array.from({ length: size }, (_, index) =>
      at(level + 1, offset + index * strides[level]!),
    );
  };
  return at(0, 0);
}

function scalarOf(name: string, { dtype, data }: Tensor, at: number): AnswerValue {
  if (dtype === "string") {
    if (!name.endsWith("_bytes")) return data.textAt(at);
    return { b64: Buffer.from(data.at(at)).toString("base64") };
  }
  if (dtype === "bool") return data[at] !== 0;
  return data[at]!;
}
