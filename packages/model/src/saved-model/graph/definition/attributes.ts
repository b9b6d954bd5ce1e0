// Attributes of graph nodes (AttrValue, tensorflow/core/framework/attr_value.proto). A tensor stays
// in bytes until it is asked for, because most constants of an export belong to functions that no
// signature calls.

import { WinnowError } from "@winnow/core";
import type { ProtobufReader } from "@winnow/core";
import { readConstant, readShape } from "./tensor-proto.ts";
import type { ConstantContent } from "./tensor-proto.ts";

/** A TensorProto in bytes, and its content once it has been read. */
interface UnreadTensor {
  readonly bytes: Uint8Array;
  content: ConstantContent | undefined;
}

/** One attribute, by the kind of value that the file stores. */
export type AttributeValue =
  | { readonly kind: "int" | "float" | "type"; readonly value: number }
  | { readonly kind: "bool"; readonly value: boolean }
  | { readonly kind: "bytes"; readonly value: Uint8Array }
  | { readonly kind: "shape"; readonly value: readonly number[] | undefined }
  | { readonly kind: "tensor"; readonly value: UnreadTensor }
  | { readonly kind: "function"; readonly value: string }
  | { readonly kind: "list"; readonly value: readonly AttributeValue[] };

const decoder = new TextDecoder();

/** Reads an AttrValue; `undefined` for one that holds nothing. */
export function readAttribute(reader: ProtobufReader): AttributeValue | undefined {
  let value: AttributeValue | undefined;
  while (reader.next()) {
    value = reader.field === 1 ? readList(reader.message()) : (readSingle(reader) ?? value);
  }
  return value;
}

function readSingle(reader: ProtobufReader): AttributeValue | undefined {
  switch (reader.field) {
    case 2:
      return { kind: "bytes", value: reader.view() };
    case 3:
      return { kind: "int", value: Number(reader.int64()) };
    case 4:
      return { kind: "float", value: reader.float() };
    case 5:
      return { kind: "bool", value: reader.bool() };
    case 6:
      return { kind: "type", value: reader.int() };
    case 7:
      return { kind: "shape", value: readShape(reader.message()) };
    case 8:
      return { kind: "tensor", value: { bytes: reader.view(), content: undefined } };
    case 10:
      return { kind: "function", value: readFunctionName(reader.message()) };
    default:
      return undefined;
  }
}

function readList(reader: ProtobufReader): AttributeValue {
  const values: AttributeValue[] = [];
  const numbers: number[] = [];
  const add = (kind: "int" | "float" | "type"): void => {
    for (const value of numbers.splice(0)) values.push({ kind, value });
  };
  while (reader.next()) {
    if (reader.field === 2) values.push({ kind: "bytes", value: reader.view() });
    else if (reader.field === 3) {
      const integers: bigint[] = [];
      reader.int64s(integers);
      for (const value of integers) values.push({ kind: "int", value: Number(value) });
    } else if (reader.field === 4) {
      reader.floats(numbers);
      add("float");
    } else if (reader.field === 5) {
      reader.ints(numbers);
      for (const value of numbers.splice(0)) values.push({ kind: "bool", value: value !== 0 });
    } else if (reader.field === 6) {
      reader.ints(numbers);
      add("type");
    } else if (reader.field === 7) {
      values.push({ kind: "shape", value: readShape(reader.message()) });
    } else if (reader.field === 9) {
      values.push({ kind: "function", value: readFunctionName(reader.message()) });
    }
  }
  return { kind: "list", value: values };
}

function readFunctionName(reader: ProtobufReader): string {
  let name = "";
  while (reader.next()) if (reader.field === 1) name = reader.text();
  return name;
}

/** The attributes of one node; where the node leaves one out, its operation's default. */
export class Attributes {
  readonly #node: string;
  readonly #own: ReadonlyMap<string, AttributeValue>;
  readonly #defaults: ReadonlyMap<string, AttributeValue> | undefined;

  constructor(
    node: string,
    own: ReadonlyMap<string, AttributeValue>,
    defaults?: ReadonlyMap<string, AttributeValue>,
  ) {
    this.#node = node;
    this.#own = own;
    this.#defaults = defaults;
  }

  /** The same attributes over an operation's defaults. */
  withDefaults(defaults: ReadonlyMap<string, AttributeValue>): Attributes {
    return new Attributes(this.#node, this.#own, defaults);
  }

  /** All names and values, defaults included. */
  entries(): Map<string, AttributeValue> {
    return new Map([...(this.#defaults ?? []), ...this.#own]);
  }

  /** One attribute as it is stored, or `undefined`. */
  get(name: string): AttributeValue | undefined {
    return this.#own.get(name) ?? this.#defaults?.get(name);
  }

  /** An integer. @throws WinnowError INVALID_ARGUMENT when it is absent and there is no fallback */
  int(name: string, fallback?: number): number {
    const value = this.get(name);
    if (value?.kind === "int") return value.value;
    return this.#fallback(name, fallback);
  }

  /** A number with a fraction. */
  float(name: string, fallback?: number): number {
    const value = this.get(name);
    if (value?.kind === "float") return value.value;
    return this.#fallback(name, fallback);
  }

  /** A flag; false when absent, as all flags of the operations Winnow knows. */
  flag(name: string): boolean {
    const value = this.get(name);
    return value?.kind === "bool" && value.value;
  }

  /** A DataType number. */
  type(name: string): number {
    const value = this.get(name);
    if (value?.kind === "type") return value.value;
    return this.#fallback(name, undefined);
  }

  /** DataType numbers of a list. */
  types(name: string): number[] {
    return this.#list(name).map((value) => (value.kind === "type" ? value.value : 0));
  }

  /** Integers of a list; empty when absent. */
  ints(name: string): number[] {
    return this.#list(name).map((value) => (value.kind === "int" ? value.value : 0));
  }

  /** Floats of a list; empty when absent. */
  floats(name: string): number[] {
    return this.#list(name).map((value) => (value.kind === "float" ? value.value : NaN));
  }

  /** Text; empty when absent. */
  text(name: string): string {
    const value = this.get(name);
    return value?.kind === "bytes" ? decoder.decode(value.value) : "";
  }

  /** A shape, `undefined` when its rank is unknown or it is absent. */
  shape(name: string): readonly number[] | undefined {
    const value = this.get(name);
    return value?.kind === "shape" ? value.value : undefined;
  }

  /** Shapes of a list, `undefined` for those of an unknown rank; empty when absent. */
  shapes(name: string): (readonly number[] | undefined)[] {
    return this.#list(name).map((value) => (value.kind === "shape" ? value.value : undefined));
  }

  /** The name of a function, or `undefined`. */
  functionName(name: string): string | undefined {
    const value = this.get(name);
    return value?.kind === "function" ? value.value : undefined;
  }

  /** The names of the functions of a list; empty when absent. */
  functionNames(name: string): string[] {
    return this.#list(name).map((value) => (value.kind === "function" ? value.value : ""));
  }

  /** A constant, read once. @throws WinnowError DATA_LOSS, INVALID_ARGUMENT when absent */
  tensor(name: string): ConstantContent {
    const value = this.get(name);
    if (value?.kind !== "tensor") throw this.#absent(name);
    value.value.content ??= readConstant(value.value.bytes, this.#node);
    return value.value.content;
  }

  #list(name: string): readonly AttributeValue[] {
    const value = this.get(name);
    return value?.kind === "list" ? value.value : [];
  }

  #fallback(name: string, fallback: number | undefined): number {
    if (fallback === undefined) throw this.#absent(name);
    return fallback;
  }

  #absent(name: string): WinnowError {
    return new WinnowError("INVALID_ARGUMENT", `Node ${this.#node} has no attribute "${name}"`);
  }
}
