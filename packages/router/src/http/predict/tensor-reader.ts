// A JSON value → a tensor, with TensorFlow Serving's checks in its order (util/json_tensor.cc:
// GetDenseTensorShape, FillTensorProto, AddInstanceItem). The first element at each depth decides the shape;
// anything that deviates is refused. Leaves are noted while they are checked, and turned into typed values
// all at once at the end.

import { WinnowError } from "@winnow/core";
import type { Dtype, Tensor } from "@winnow/core";
import { decodeBase64 } from "../json/base64-bytes.ts";
import { dumpValue } from "../json/json-dump.ts";
import { KIND } from "../json/json-reader.ts";
import type { JsonReader, ValueIndex } from "../json/json-reader.ts";
import { bigIntegerOf, packLeaves } from "./tensor-leaves.ts";

/** TensorFlow's limit on the dimensions of a tensor. */
const RANK_MAX = 254;
const B64_KEY: Uint8Array = Buffer.from("b64");
const INT64_MIN = -(2n ** 63n);
const INT64_MAX = 2n ** 63n - 1n;
const TYPE_NAMES = ["Null", "False", "True", "Object", "Array", "String", "Number", "Number"];

/** Smallest and largest value of the dtypes whose values are plain integers. */
const INTEGER_RANGES: Partial<Record<Dtype, readonly [number, number]>> = {
  int8: [-128, 127],
  uint8: [0, 255],
  int16: [-32_768, 32_767],
  uint16: [0, 65_535],
  int32: [-2_147_483_648, 2_147_483_647],
  uint32: [0, 4_294_967_295],
};

/** Builds one input of a request, from rows or from one value. */
export class TensorReader {
  readonly #document: JsonReader;
  readonly #dtype: Dtype;
  readonly #leaves: ValueIndex[] = [];
  readonly #decoded: Map<ValueIndex, Uint8Array> = new Map();
  #shape: readonly number[] | undefined;
  #size = 0;

  constructor(document: JsonReader, dtype: Dtype) {
    this.#document = document;
    this.#dtype = dtype;
  }

  /** Adds a row, whose shape must be the first row's. @throws WinnowError INVALID_ARGUMENT. */
  addRow(value: ValueIndex): void {
    const before = this.#leaves.length;
    const shape = shapeOf(this.#document, value);
    this.#fill(value, { shape, level: 0 });
    const size = this.#leaves.length - before;
    if (this.#shape === undefined) {
      this.#shape = shape;
      this.#size = size;
      return;
    }
    if (size !== this.#size) refuse(`Expecting tensor size: ${this.#size} but got: ${size}`);
    if (!isSameShape(shape, this.#shape)) {
      refuse(`Expecting shape [${this.#shape.join(",")}] but got: [${shape.join(",")}]`);
    }
  }

  /** The tensor of all rows; its first dimension is `rows`. */
  finishRows(rows: number): Tensor {
    return this.#pack([rows, ...(this.#shape ?? [])]);
  }

  /** Reads one value as a tensor. @throws WinnowError INVALID_ARGUMENT. */
  readWhole(value: ValueIndex): Tensor {
    const shape = shapeOf(this.#document, value);
    this.#fill(value, { shape, level: 0 });
    return this.#pack(shape);
  }

  #pack(shape: readonly number[]): Tensor {
    const leaves = { document: this.#document, values: this.#leaves, decoded: this.#decoded };
    return packLeaves(leaves, this.#dtype, shape);
  }

  #fill(value: ValueIndex, place: { shape: readonly number[]; level: number }): void {
    const document = this.#document;
    const { shape, level } = place;
    if (document.kinds[value] !== KIND.array) {
      if (level !== shape.length) {
        const dump = dumpValue(document, value);
        refuse(
          `JSON Value: ${dump} found at incorrect level: ${level + 1} in the JSON DOM. ` +
            `Expected at level: ${shape.length}`,
        );
      }
      return this.#addLeaf(value);
    }
    if (level >= shape.length) {
      refuse(`Encountered list at unexpected level: ${level} expected < ${shape.length}`);
    }
    const size = document.from[value]!;
    if (size !== shape[level]) {
      refuse(
        `Encountered list at unexpected size: ${size} at level: ${level} ` +
          `expected size: ${shape[level]}`,
      );
    }
    const end = document.to[value]!;
    const inner = { shape, level: level + 1 };
    const isLast = inner.level === shape.length;
    for (let child = value + 1; child < end; child = document.next(child)) {
      if (isLast && document.kinds[child] !== KIND.array) this.#addLeaf(child);
      else this.#fill(child, inner);
    }
  }

  #addLeaf(value: ValueIndex): void {
    const document = this.#document;
    if (this.#dtype === "string" && document.kinds[value] === KIND.object) {
      this.#decoded.set(value, decodeBase64Object(document, value));
    } else if (!isLeafOf(document, value, this.#dtype)) {
      const kind = TYPE_NAMES[document.kinds[value]!];
      refuse(
        `JSON Value: ${dumpValue(document, value)} Type: ${kind} ` +
          `is not of expected type: ${dtypeName(this.#dtype)}`,
      );
    }
    this.#leaves.push(value);
  }
}

/** Whether a value is an object with a base64 string and no other member. */
export function isBase64Object(document: JsonReader, value: ValueIndex): boolean {
  return (
    document.kinds[value] === KIND.object &&
    document.from[value] === 1 &&
    document.isText(value + 1, B64_KEY) &&
    document.kinds[value + 2] === KIND.string
  );
}

/** The bytes of such an object. @throws WinnowError INVALID_ARGUMENT. */
export function decodeBase64Object(document: JsonReader, value: ValueIndex): Uint8Array {
  if (!isBase64Object(document, value)) {
    refuse(`JSON Value: ${dumpValue(document, value)} not formatted correctly for base64 data`);
  }
  return decodeBase64(document.bytesOf(value + 2)) ?? refuse("Unable to base64 decode");
}

function shapeOf(document: JsonReader, value: ValueIndex): readonly number[] {
  const shape: number[] = [];
  let first = value;
  while (document.kinds[first] === KIND.array) {
    const size = document.from[first]!;
    shape.push(size);
    if (shape.length > RANK_MAX) {
      refuse(`Lists are nested more than ${RANK_MAX} deep, more than a tensor has dimensions`);
    }
    if (size === 0) break;
    first++;
  }
  return shape;
}

function isSameShape(one: readonly number[], other: readonly number[]): boolean {
  return one.length === other.length && one.every((size, level) => size === other[level]);
}

function isLeafOf(document: JsonReader, value: ValueIndex, dtype: Dtype): boolean {
  const kind = document.kinds[value]!;
  if (dtype === "string") return kind === KIND.string;
  if (dtype === "bool") return kind === KIND.true || kind === KIND.false;
  if (kind === KIND.double) return dtype === "float32" || dtype === "float64";
  return kind === KIND.integer && holdsInteger(document, value, dtype);
}

function holdsInteger(document: JsonReader, value: ValueIndex, dtype: Dtype): boolean {
  const number = document.numbers[value]!;
  if (dtype === "int64") return isInt64(document, value);
  if (dtype === "uint64") return number >= 0;
  const range = INTEGER_RANGES[dtype];
  return range === undefined || (number >= range[0] && number <= range[1]);
}

function isInt64(document: JsonReader, value: ValueIndex): boolean {
  if (Number.isSafeInteger(document.numbers[value])) return true;
  const exact = bigIntegerOf(document, value);
  return exact >= INT64_MIN && exact <= INT64_MAX;
}

function dtypeName(dtype: Dtype): string {
  if (dtype === "float32") return "float";
  return dtype === "float64" ? "double" : dtype;
}

function refuse(message: string): never {
  throw new WinnowError("INVALID_ARGUMENT", message);
}
