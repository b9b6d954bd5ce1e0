// A cursor over the fields of one protobuf message that a client sent: nothing is copied, nothing
// outside the message is read, and every step moves forward or throws. Made because a general
// decoder turns a million floats into a million JavaScript numbers; here they stay bytes.
//
//   while (reader.next()) {
//     if (reader.field === 1) name = reader.text();
//     else if (reader.field === 2) readSpec(reader.message());
//   }                                    fields nobody asks for are skipped
//
// Encoding: https://protobuf.dev/programming-guides/encoding.

import { WinnowError } from "@winnow/core";

/** How a value is laid out. */
export const WIRE = { varint: 0, fixed64: 1, bytes: 2, group: 3, groupEnd: 4, fixed32: 5 } as const;

/** Bytes of a longest varint. */
const VARINT_BYTES_MAX = 10;
const GROUPS_MAX = 100;

const decoder = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });

/** A cursor over the fields of one message. */
export class WireReader {
  readonly bytes: Uint8Array;
  readonly #end: number;
  #position: number;

  /** Number and layout of the current field. */
  field = 0;
  wire = 0;
  /** Where the current field's value lies in `bytes`. */
  from = 0;
  to = 0;

  constructor(bytes: Uint8Array, from = 0, to: number = bytes.length) {
    this.bytes = bytes;
    this.#position = from;
    this.#end = to;
  }

  /** Moves to the next field; false at the end of the message. @throws WinnowError INVALID_ARGUMENT */
  next(): boolean {
    if (this.#position >= this.#end) return false;
    const tag = this.#smallVarint();
    this.field = tag >>> 3;
    this.wire = tag & 7;
    if (this.field === 0) throw damaged("a field without a number");
    this.from = this.#position;
    this.#skip();
    this.to = this.#position;
    return true;
  }

  /** The bytes of a length-delimited value, a view. */
  view(): Uint8Array {
    this.#expect(WIRE.bytes);
    return this.bytes.subarray(this.from, this.to);
  }

  /** A length-delimited value as text. @throws WinnowError INVALID_ARGUMENT unless it is UTF-8 */
  text(): string {
    try {
      return decoder.decode(this.view());
    } catch (cause) {
      if (cause instanceof WinnowError) throw cause;
      throw damaged("a text that is not UTF-8", cause);
    }
  }

  /** A cursor over a nested message. */
  message(): WireReader {
    this.#expect(WIRE.bytes);
    return new WireReader(this.bytes, this.from, this.to);
  }

  /** A varint as int64. */
  int64(): bigint {
    this.#expect(WIRE.varint);
    let value = 0n;
    for (let at = this.from; at < this.to; at++) {
      value |= BigInt(this.bytes[at]! & 0x7f) << BigInt(7 * (at - this.from));
    }
    return BigInt.asIntN(64, value);
  }

  /** A varint as int32 or enum: its low 32 bits. */
  int32(): number {
    this.#expect(WIRE.varint);
    return varint32(this.bytes, this.from);
  }

  #expect(wire: number): void {
    if (this.wire !== wire) throw damaged(`field ${this.field} in an unexpected layout`);
  }

  #skip(): void {
    switch (this.wire) {
      case WIRE.varint:
        this.#position += varintBytes(this.bytes, this.#position, this.#end);
        return;
      case WIRE.fixed64:
        return this.#advance(8);
      case WIRE.fixed32:
        return this.#advance(4);
      case WIRE.bytes: {
        const length = this.#smallVarint();
        this.from = this.#position;
        return this.#advance(length);
      }
      case WIRE.group:
        return this.#skipGroup();
      default:
        throw damaged("a field of no known layout");
    }
  }

  /** Groups are long retired; a client's unknown field may still be one. */
  #skipGroup(): void {
    let open = 1;
    const from = this.#position;
    while (open > 0) {
      if (open > GROUPS_MAX || this.#position >= this.#end) throw damaged("a group without an end");
      this.wire = this.#smallVarint() & 7;
      if (this.wire === WIRE.group) open++;
      else if (this.wire === WIRE.groupEnd) open--;
      else this.#skip();
    }
    this.wire = WIRE.group;
    this.from = from;
  }

  #advance(count: number): void {
    if (count > this.#end - this.#position) throw damaged("a value that ends after its message");
    this.#position += count;
  }

  /** A tag or length: an unsigned number of 32 bits. */
  #smallVarint(): number {
    const first = this.bytes[this.#position]!;
    if (first < 0x80 && this.#position < this.#end) {
      this.#position++;
      return first;
    }
    const length = varintBytes(this.bytes, this.#position, this.#end);
    const value = varint32(this.bytes, this.#position) >>> 0;
    const isLarger = length > 5 || (length === 5 && this.bytes[this.#position + 4]! > 0x0f);
    if (isLarger) throw damaged("a length beyond 32 bits");
    this.#position += length;
    return value;
  }
}

/** Bytes of the varint that begins at `from`. @throws WinnowError when it has no end */
export function varintBytes(bytes: Uint8Array, from: number, end: number): number {
  const last = Math.min(end, from + VARINT_BYTES_MAX);
  for (let at = from; at < last; at++) if (bytes[at]! < 0x80) return at - from + 1;
  throw damaged("a number without an end");
}

/** The low 32 bits, signed, of the varint that begins at `from`; it is known to have an end. */
export function varint32(bytes: Uint8Array, from: number): number {
  let value = 0;
  for (let shift = 0, at = from; shift < 35; shift += 7, at++) {
    const byte = bytes[at]!;
    value |= (byte & 0x7f) << shift;
    if (byte < 0x80) break;
  }
  return value;
}

/** What a message gets that cannot be read. */
export function damaged(what: string, cause?: unknown): WinnowError {
  return new WinnowError("INVALID_ARGUMENT", `Cannot read the message: ${what}`, { cause });
}
