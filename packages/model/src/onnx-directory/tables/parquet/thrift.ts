// Thrift's compact protocol (thrift/doc/specs/thrift-compact-protocol.md), in which Parquet writes its footer
// and the headers of pages: values by number of their field. Fields that the caller does not name are skipped, and the
// structs, lists and strings of those that it names are counted: an empty one takes a byte of the file and some
// hundred bytes of memory.

import { WinnowError } from "@winnow/core";

/** A value: integers of up to 2⁵³ as numbers, strings as bytes, structs by field. */
export type ThriftValue = number | boolean | Uint8Array | readonly ThriftValue[] | ThriftStruct;

/** Fields by number. */
export type ThriftStruct = ReadonlyMap<number, ThriftValue>;

/** Fields to read, by number, and which fields of their structs; `undefined` for all of them. */
export type WantedFields = ReadonlyMap<number, WantedFields | undefined>;

/** Fields that are read with all that is in them. */
export const wholeFields = (...numbers: readonly number[]): WantedFields =>
  new Map(numbers.map((number) => [number, undefined]));

/** The bytes end before the struct does: the caller may have more of them. */
export class ThriftCut extends Error {}

/** Types of a field that holds no further bytes: its type is its value. */
const TRUE_OR_FALSE = 2;
const DEPTH_MAX = 16;
/** Structs, lists and strings that are read: those of 300,000 column chunks. */
const OBJECTS_MAX = 2 ** 20;
/** Numbers and bools in lists that are read. */
const ELEMENTS_MAX = 2 ** 24;

/**
 * Reads the wanted fields of one struct, and gives its length in bytes.
 * @throws WinnowError DATA_LOSS, RESOURCE_EXHAUSTED; ThriftCut
 */
export function readStruct(
  bytes: Uint8Array,
  file: string,
  wanted: WantedFields,
): { readonly fields: ThriftStruct; readonly length: number } {
  const reader = new ThriftReader(bytes, file);
  return { fields: reader.struct(1, wanted), length: reader.position };
}

class ThriftReader {
  readonly #bytes: Uint8Array;
  readonly #file: string;
  #objects = 0;
  #elements = 0;
  position = 0;

  constructor(bytes: Uint8Array, file: string) {
    this.#bytes = bytes;
    this.#file = file;
  }

  struct(depth: number, wanted: WantedFields | undefined): ThriftStruct {
    this.#countObject();
    const fields = new Map<number, ThriftValue>();
    this.#eachField(depth, (field, type) => {
      if (wanted?.has(field) === false) this.#skipField(type, depth);
      else {
        const value =
          type <= TRUE_OR_FALSE ? type === 1 : this.#value(type, depth, wanted?.get(field));
        fields.set(field, value);
      }
    });
    return fields;
  }

  #eachField(depth: number, visit: (field: number, type: number) => void): void {
    if (depth > DEPTH_MAX) throw this.#damage("structs in each other");
    let field = 0;
    for (;;) {
      const head = this.#byte();
      const type = head & 15;
      if (type === 0) return;
      const delta = head >>> 4;
      field = delta === 0 ? this.#integer() : field + delta;
      visit(field, type);
    }
  }

  #value(type: number, depth: number, wanted: WantedFields | undefined): ThriftValue {
    switch (type) {
      case 1:
      case 2:
        return this.#byte() === 1;
      case 3:
        return this.#byte();
      case 4:
      case 5:
      case 6:
        return this.#integer();
      case 7:
        this.#countObject();
        return this.#take(8);
      case 8:
        this.#countObject();
        return this.#take(this.#varint());
      case 9:
      case 10:
        return this.#list(depth, wanted);
      case 12:
        return this.struct(depth + 1, wanted);
      default:
        throw this.#damage(`a value of type ${type}`);
    }
  }

  #list(depth: number, wanted: WantedFields | undefined): readonly ThriftValue[] {
    const { count, type } = this.#listHead(depth);
    this.#countObject();
    this.#elements += count;
    if (this.#elements > ELEMENTS_MAX) throw this.#tooMany(`${ELEMENTS_MAX} values`);
    const values: ThriftValue[] = [];
    for (let at = 0; at < count; at += 1) values.push(this.#value(type, depth + 1, wanted));
    return values;
  }

  #listHead(depth: number): { readonly count: number; readonly type: number } {
    const head = this.#byte();
    const count = head >>> 4 === 15 ? this.#varint() : head >>> 4;
    if (depth > DEPTH_MAX) throw this.#damage("lists in each other");
    // Every element takes at least one byte.
    if (count > this.#bytes.length - this.position) throw new ThriftCut();
    return { count, type: head & 15 };
  }

  #skipField(type: number, depth: number): void {
    if (type > TRUE_OR_FALSE) this.#skip(type, depth);
  }

  #skip(type: number, depth: number): void {
    if (type === 12) {
      this.#eachField(depth + 1, (_, inner) => this.#skipField(inner, depth + 1));
    } else if (type === 9 || type === 10) {
      const list = this.#listHead(depth);
      for (let at = 0; at < list.count; at += 1) this.#skip(list.type, depth + 1);
    } else if (type === 7 || type === 8) {
      this.#pass(type === 7 ? 8 : this.#varint());
    } else {
      this.#value(type, depth, undefined);
    }
  }

  #countObject(): void {
    this.#objects += 1;
    if (this.#objects > OBJECTS_MAX) throw this.#tooMany(`${OBJECTS_MAX} structs, lists and texts`);
  }

  #tooMany(what: string): WinnowError {
    const text = `more than ${what} in its metadata; write larger row groups`;
    return new WinnowError("RESOURCE_EXHAUSTED", `Cannot read ${this.#file}: ${text}`);
  }

  #take(length: number): Uint8Array {
    const start = this.position;
    this.#pass(length);
    return this.#bytes.subarray(start, this.position);
  }

  #pass(length: number): void {
    if (length > this.#bytes.length - this.position) throw new ThriftCut();
    this.position += length;
  }

  #byte(): number {
    const byte = this.#bytes[this.position];
    if (byte === undefined) throw new ThriftCut();
    this.position += 1;
    return byte;
  }

  #varint(): number {
    let value = 0;
    for (let scale = 1; scale <= 2 ** 49; scale *= 128) {
      const byte = this.#byte();
      value += (byte & 127) * scale;
      if (byte < 128) return value;
    }
    throw this.#damage("a number beyond 2^53");
  }

  /** A zigzag number. Numbers that are not read here, such as statistics, may have any size. */
  #integer(): number {
    let value = 0n;
    for (let shift = 0n; shift < 70n; shift += 7n) {
      const byte = this.#byte();
      value |= BigInt(byte & 127) << shift;
      if (byte < 128) return Number((value >> 1n) ^ -(value & 1n));
    }
    throw this.#damage("a number of more than 64 bits");
  }

  #damage(what: string): WinnowError {
    const text = `Cannot read ${this.#file}: ${what} at byte ${this.position} of its metadata`;
    return new WinnowError("DATA_LOSS", text);
  }
}
