// Writes Protocol Buffers field by field into memory that grows, or, where the size was computed
// before, into memory that is allocated once. The length of a nested message stands before its
// content; `begin` leaves room for the length that is expected, and `end` moves the content where the
// length takes more or fewer bytes. So one pass over the data writes it all.
//
//   writer.int(1, id).text(2, name);
//   writer.begin(3, 200);             // about 200 bytes: the content is seldom moved
//   writer.bytes(1, vectors);
//   writer.end();
//
// Fields are written in the order of the calls; wire types are explained in `wire-format.ts`.

import { copyBytes } from "../byte-copy.ts";
import type { ByteSpan } from "../byte-copy.ts";
import { VARINT_BYTES_MAX, WIRE, sizeOfVarint, sizeOfWords } from "./wire-format.ts";

const { varint: VARINT, bytes: BYTES, fixed32: FIXED32 } = WIRE;
/** In so many bytes any varint has room. */
const VARINT_ROOM = VARINT_BYTES_MAX;

interface Memory {
  readonly buffer: ArrayBufferLike;
  readonly byteOffset: number;
  readonly byteLength: number;
}

/** A message that is being written. */
export class ProtobufWriter {
  #bytes: Buffer;
  #at = 0;
  /** Of each message begun and not ended: where its content begins, and bytes left for its length. */
  readonly #open: number[] = [];

  /** `capacity`: how long the message will be, at a guess; it grows when there is more. */
  constructor(capacity = 256) {
    this.#bytes = Buffer.allocUnsafe(capacity);
  }

  /** What was written, a view. The writer is not to be used any more. */
  finish(): Buffer {
    return this.#bytes.subarray(0, this.#at);
  }

  /** An integer: int32, int64, enum or uint64. A negative one takes ten bytes. */
  int(field: number, value: number | bigint): this {
    this.varint(field * 8 + VARINT);
    if (typeof value === "number") return this.varint(value);
    const bits = BigInt.asUintN(64, value);
    return this.words(Number(bits & 0xffff_ffffn), Number(bits >> 32n));
  }

  /** A bool. */
  bool(field: number, value: boolean): this {
    return this.int(field, value ? 1 : 0);
  }

  /** A fixed32. */
  fixed32(field: number, value: number): this {
    this.varint(field * 8 + FIXED32);
    this.#makeRoom(4);
    this.#at = this.#bytes.writeUInt32LE(value, this.#at);
    return this;
  }

  /** A float. */
  float(field: number, value: number): this {
    this.varint(field * 8 + FIXED32);
    this.#makeRoom(4);
    this.#at = this.#bytes.writeFloatLE(value, this.#at);
    return this;
  }

  /** A field of bytes: the memory of an array. */
  bytes(field: number, values: Memory): this {
    return this.open(field, values.byteLength).raw(values);
  }

  /** A field of a part of some bytes. */
  span(field: number, span: ByteSpan): this {
    const length = span.to - span.from;
    this.open(field, length);
    this.#makeRoom(length);
    this.#at = copyBytes(this.#bytes, this.#at, span);
    return this;
  }

  /** A text, as UTF-8. */
  text(field: number, value: string): this {
    const length = Buffer.byteLength(value);
    this.open(field, length);
    this.#makeRoom(length);
    this.#bytes.write(value, this.#at, length);
    this.#at += length;
    return this;
  }

  /** A nested message. */
  message(field: number, write: (message: this) => void): this {
    this.begin(field);
    write(this);
    return this.end();
  }

  /** An entry of a map with a text as key and a message as value. */
  entry(field: number, key: string, write: (value: this) => void): this {
    return this.message(field, (entry) => entry.text(1, key).message(2, write));
  }

  /** Begins a nested message of about `expected` bytes, or a field of bytes: all up to `end()`. */
  begin(field: number, expected = 0): this {
    this.varint(field * 8 + BYTES);
    const lengthBytes = sizeOfVarint(expected);
    this.#makeRoom(lengthBytes);
    this.#at += lengthBytes;
    this.#open.push(this.#at, lengthBytes);
    return this;
  }

  /** Ends the message that was begun last. */
  end(): this {
    const lengthBytes = this.#open.pop()!;
    const start = this.#open.pop()!;
    const length = this.#at - start;
    const moved = sizeOfVarint(length) - lengthBytes;
    if (moved !== 0) {
      if (moved > 0) this.#makeRoom(moved);
      this.#bytes.copyWithin(start + moved, start, this.#at);
    }
    this.#at = start - lengthBytes;
    this.varint(length);
    this.#at += length;
    return this;
  }

  /** Tag and length of a field whose `length` bytes the caller writes next. */
  open(field: number, length: number): this {
    return this.varint(field * 8 + BYTES).varint(length);
  }

  /** Bytes without tag and length. */
  raw(values: Memory): this {
    const { buffer, byteOffset, byteLength } = values;
    this.#makeRoom(byteLength);
    const bytes =
      values instanceof Uint8Array ? values : new Uint8Array(buffer, byteOffset, byteLength);
    this.#bytes.set(bytes, this.#at);
    this.#at += byteLength;
    return this;
  }

  /** A varint without a tag: an integer within ±(2⁵³ − 1). */
  varint(value: number): this {
    if (value >= 0 && value < 0x80 && this.#at < this.#bytes.length) {
      this.#bytes[this.#at] = value;
      this.#at += 1;
      return this;
    }
    return this.words(value >>> 0, Math.floor(value / 2 ** 32) >>> 0);
  }

  /** A varint without a tag: 64 bits as low and high word, both unsigned. */
  words(low: number, high: number): this {
    if (this.#bytes.length - this.#at < VARINT_ROOM) this.#makeRoom(sizeOfWords(low, high));
    const bytes = this.#bytes;
    let at = this.#at;
    let lowLeft = low;
    let highLeft = high;
    while (highLeft !== 0) {
      bytes[at++] = (lowLeft & 0x7f) | 0x80;
      lowLeft = ((lowLeft >>> 7) | (highLeft << 25)) >>> 0;
      highLeft >>>= 7;
    }
    while (lowLeft > 0x7f) {
      bytes[at++] = (lowLeft & 0x7f) | 0x80;
      lowLeft >>>= 7;
    }
    bytes[at++] = lowLeft;
    this.#at = at;
    return this;
  }

  #makeRoom(size: number): void {
    const needed = this.#at + size;
    if (needed <= this.#bytes.length) return;
    const larger = Buffer.allocUnsafe(Math.max(2 * this.#bytes.length, needed + VARINT_ROOM));
    this.#bytes.copy(larger, 0, 0, this.#at);
    this.#bytes = larger;
  }
}
