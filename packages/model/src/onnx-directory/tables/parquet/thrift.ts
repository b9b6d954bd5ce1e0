// Thrift's compact protocol (thrift/doc/specs/thrift-compact-protocol.md), in which Parquet writes its footer
// and the headers of pages: values by number of their field, without a schema. Memory is bounded by the bytes
// that are there, whatever they claim.

import { WinnowError } from "@winnow/core";

/** A value: integers of up to 2⁵³ as numbers, strings as bytes, structs by field. */
export type ThriftValue = number | boolean | Uint8Array | readonly ThriftValue[] | ThriftStruct;

/** Fields by number. */
export type ThriftStruct = ReadonlyMap<number, ThriftValue>;

/** The bytes end before the struct does: the caller may have more of them. */
export class ThriftCut extends Error {}

const DEPTH_MAX = 16;

/** Reads one struct; gives its fields and its length in bytes. @throws WinnowError DATA_LOSS, ThriftCut */
export function readStruct(
  bytes: Uint8Array,
  file: string,
): { readonly fields: ThriftStruct; readonly length: number } {
  const reader = new ThriftReader(bytes, file);
  return { fields: reader.struct(1), length: reader.position };
}

class ThriftReader {
  readonly #bytes: Uint8Array;
  readonly #file: string;
  position = 0;

  constructor(bytes: Uint8Array, file: string) {
    this.#bytes = bytes;
    this.#file = file;
  }

  struct(depth: number): ThriftStruct {
    if (depth > DEPTH_MAX) throw this.#damage("structs in each other");
    const fields = new Map<number, ThriftValue>();
    let field = 0;
    for (;;) {
      const head = this.#byte();
      const type = head & 15;
      if (type === 0) return fields;
      const delta = head >>> 4;
      field = delta === 0 ? this.#integer() : field + delta;
      fields.set(field, type <= 2 ? type === 1 : this.#value(type, depth));
    }
  }

  #value(type: number, depth: number): ThriftValue {
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
        return this.#take(8);
      case 8:
        return this.#take(this.#varint());
      case 9:
      case 10:
        return this.#list(depth);
      case 12:
        return this.struct(depth + 1);
      default:
        throw this.#damage(`a value of type ${type}`);
    }
  }

  #list(depth: number): readonly ThriftValue[] {
    const head = this.#byte();
    const count = head >>> 4 === 15 ? this.#varint() : head >>> 4;
    if (depth > DEPTH_MAX) throw this.#damage("lists in each other");
    // Every element takes at least one byte.
    if (count > this.#bytes.length - this.position) throw new ThriftCut();
    return Array.from({ length: count }, () => this.#value(head & 15, depth + 1));
  }

  #take(length: number): Uint8Array {
    if (length > this.#bytes.length - this.position) throw new ThriftCut();
    this.position += length;
    return this.#bytes.subarray(this.position - length, this.position);
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
