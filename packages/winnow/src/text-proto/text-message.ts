// A message in protobuf's text format, checked against the fields it may have: unknown names (with
// the nearest known one), wrong kinds, a single field given twice, two members of one choice. Read
// through accessors with proto3's defaults.

import { excerpt } from "@winnow/core";
import { nearestName } from "@winnow/core";
import type { TextPlace } from "./text-tokens.ts";
import { textFault } from "./text-tokens.ts";
import type { TextField, TextValue } from "./text-tree.ts";
import { parseText } from "./text-tree.ts";

/** The fields of one message type. */
export interface MessageShape {
  /** As protobuf calls it: `tensorflow.serving.ModelConfig`. */
  readonly name: string;
  readonly fields: Readonly<Record<string, FieldShape>>;
}

/** The values that a field may have. */
export type FieldShape = {
  readonly repeated?: true;
  /** Of fields with the same choice only one may be present (protobuf's `oneof`). */
  readonly choice?: string;
} & (
  | { readonly kind: "string" | "bool" | "any" }
  | { readonly kind: "integer"; readonly min: number; readonly max: number }
  | { readonly kind: "enum"; readonly names: readonly string[] }
  | { readonly kind: "message"; readonly shape: MessageShape }
);

/** Reads a text of one message type. @throws WinnowError INVALID_ARGUMENT naming line and column */
export function readMessage(text: string, shape: MessageShape, source: string): TextMessage {
  const start = { line: 1, column: 1 };
  return new TextMessage({ shape, source, place: start }, parseText(text, source));
}

interface MessageOrigin {
  readonly shape: MessageShape;
  readonly source: string;
  readonly place: TextPlace;
}

type Value = string | number | boolean | TextMessage;

interface ReadValue {
  readonly value: Value;
  readonly place: TextPlace;
}

/** A checked message. */
export class TextMessage {
  readonly #origin: MessageOrigin;
  readonly #values = new Map<string, ReadValue[]>();

  constructor(origin: MessageOrigin, fields: readonly TextField[]) {
    this.#origin = origin;
    for (const field of fields) this.#add(field);
  }

  has(name: string): boolean {
    return this.#values.has(name);
  }

  /** "" where absent. */
  text(name: string): string {
    return this.#single(name, "string") ?? "";
  }

  /** 0 where absent. */
  integer(name: string): number {
    return this.#single(name, "number") ?? 0;
  }

  /** False where absent. */
  flag(name: string): boolean {
    return this.#single(name, "boolean") ?? false;
  }

  integers(name: string): number[] {
    return this.#all(name).filter((value) => typeof value === "number");
  }

  messages(name: string): TextMessage[] {
    return this.#all(name).filter((value) => value instanceof TextMessage);
  }

  message(name: string): TextMessage | undefined {
    return this.messages(name)[0];
  }

  /** A fault of this message, at one of its fields if that is there. */
  fault(message: string, field?: string): Error {
    const place = this.#values.get(field ?? "")?.[0]?.place ?? this.#origin.place;
    return textFault(this.#origin.source, place, message);
  }

  #all(name: string): Value[] {
    return (this.#values.get(name) ?? []).map(({ value }) => value);
  }

  #single<Kind extends "string" | "number" | "boolean">(
    name: string,
    kind: Kind,
  ): { string: string; number: number; boolean: boolean }[Kind] | undefined {
    const value = this.#all(name)[0];
    return typeof value === kind ? (value as never) : undefined;
  }

  #add(field: TextField): void {
    const { name, value } = field;
    const { shape } = this.#origin;
    const known = Object.hasOwn(shape.fields, name) ? shape.fields[name] : undefined;
    if (known === undefined) throw this.#faultAt(field, this.#unknownText(name));
    const before = this.#values.get(name) ?? [];
    if (known.repeated !== true && before.length > 0) {
      throw this.#faultAt(field, `"${name}" of ${shape.name} is given twice`);
    }
    this.#checkChoice(field, known.choice);
    this.#values.set(name, [...before, { value: this.#read(field, known, value), place: field }]);
  }

  #checkChoice(field: TextField, choice: string | undefined): void {
    if (choice === undefined) return;
    const { fields, name } = this.#origin.shape;
    const other = [...this.#values.keys()].find(
      (key) => key !== field.name && fields[key]?.choice === choice,
    );
    if (other === undefined) return;
    const text = `${name} has either "${other}" or "${field.name}", not both`;
    throw this.#faultAt(field, text);
  }

  #unknownText(name: string): string {
    const { shape } = this.#origin;
    const known = Object.keys(shape.fields);
    const nearest = nearestName(name, known);
    const advice =
      nearest === undefined ? `it has ${known.join(", ")}` : `did you mean "${nearest}"?`;
    return `${shape.name} has no field "${excerpt(name)}"; ${advice}`;
  }

  #read(field: TextField, shape: FieldShape, value: TextValue): Value {
    switch (shape.kind) {
      case "any":
        return true;
      case "message": {
        if (value.kind !== "message") throw this.#wrong(field, "a message in { }");
        const { source } = this.#origin;
        return new TextMessage({ shape: shape.shape, source, place: field }, value.fields);
      }
      case "string":
        if (value.kind !== "string") throw this.#wrong(field, 'a string in " "');
        return value.text;
      case "bool":
        return this.#bool(field, value);
      case "integer":
        return this.#integer(field, shape);
      case "enum":
        return this.#enumName(field, shape.names);
    }
  }

  #bool(field: TextField, value: TextValue): boolean {
    const text = value.kind === "message" || value.kind === "string" ? "" : value.text;
    if (["true", "True", "t", "1"].includes(text)) return true;
    if (["false", "False", "f", "0"].includes(text)) return false;
    throw this.#wrong(field, "true or false");
  }

  #integer(field: TextField, { min, max }: { readonly min: number; readonly max: number }): number {
    const text = field.value.kind === "number" ? field.value.text : "";
    const isWhole = /^-?(?:0[xX][\dA-Fa-f]+|\d+)$/.test(text);
    const value = isWhole ? wholeNumberOf(text) : Number.NaN;
    if (value >= min && value <= max) return value;
    throw this.#wrong(field, `a whole number from ${min} to ${max}`);
  }

  #enumName(field: TextField, names: readonly string[]): string {
    const text = field.value.kind === "word" ? field.value.text : "";
    if (names.includes(text)) return text;
    throw this.#wrong(field, `one of ${names.join(", ")}`);
  }

  #wrong(field: TextField, wanted: string): Error {
    const { value } = field;
    const found = value.kind === "message" ? "a message" : JSON.stringify(excerpt(value.text));
    return this.#faultAt(field, `"${field.name}" is ${wanted}, not ${found}`);
  }

  #faultAt(place: TextPlace, message: string): Error {
    return textFault(this.#origin.source, place, message);
  }
}

/** Hexadecimal behind `0x`, octal behind `0`, else decimal, as protobuf reads them. */
function wholeNumberOf(text: string): number {
  const sign = text.startsWith("-") ? -1 : 1;
  const digits = text.replace("-", "");
  const octal = /^0[0-7]+$/.test(digits);
  if (/^0\d+$/.test(digits) && !octal) return Number.NaN;
  const value = octal ? Number.parseInt(digits, 8) : Number(digits);
  return value === 0 ? 0 : sign * value;
}
