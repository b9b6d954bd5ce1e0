// Writes Protocol Buffers field by field into memory that grows, or that is allocated once if the
// caller knows the size. The length of a nested message precedes its content: `begin` leaves room
// for an expected length, and `end` moves the content if the actual length takes more or fewer
// bytes. So one pass over the data is enough.
//
//   writer.int(1, id).text(2, name);
//   writer.begin(3, 200);             // about 200 bytes: the content is seldom moved
//   writer.bytes(1, vectors);
//   writer.end();
//
// Fields are written in the order of the calls; wire types are explained in `wire-format.ts`.

import { copyBytes } from "../memory/byte-copy.ts";
import type { ByteSpan } from "../memory/byte-copy.ts";
import { VARINT_BYTES_MAX, WIRE, sizeOfVarint, sizeOfWords } from "./wire-format.ts";

const { varint: VARINT, bytes: BYTES, fixed32: FIXED32 } = WIRE;
/** Bytes in which any varint fits. */
const VARINT_ROOM = VARINT_BYTES_MAX;
/** `#open` holds (start of the content) × this + (bytes left for the length). */
const LENGTH_BYTES_BASE = 16;
const MOVED_BY_LOOP_MAX = 128;

interface Memory {
  readonly buffer: ArrayBufferLike;
  readonly byteOffset: number;
  readonly byteLength: number;
}

/** A message that is being written. */
export class ProtobufWriter {
  #bytes: Buffer;
  #at = 0;
  /** For each unfinished message: the start of its content, and the bytes left for its length. */
  readonly #open: number[] = [];

  /** `capacity`: the expected bytes of the message; the memory grows if there are more. */
  constructor(capacity = 256) {
    this.#bytes = Buffer.allocUnsafe(capacity);
  }

  /** The written bytes, as a view. The writer must not be used after this. */
  finish(): Buffer {
    return this.#bytes.subarray(0, this.#at);
  }

  /** Bytes written so far. */
  get size(): number {
    return this.#at;
  }

  /** An integer: int32, int64, enum or uint64. A negative one takes ten bytes. */
  int(field: number, value: number | bigint): this {
    const tag = field * 8 + VARINT;
    if (typeof value === "number") {
      return this.#writePair(tag, value) ? this : this.varint(tag).varint(value);
    }
    this.varint(tag);
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
  bytes(field: number, { buffer, byteOffset, byteLength }: Memory): this {
    this.open(field, byteLength);
    return this.#put(buffer, byteOffset, byteLength);
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

  /** Begins a nested message or a bytes field of about `expected` bytes; it extends to `end()`. */
  begin(field: number, expected = 0): this {
    this.varint(field * 8 + BYTES);
    const lengthBytes = expected < 0x80 ? 1 : sizeOfVarint(expected);
    this.#makeRoom(lengthBytes);
    this.#at += lengthBytes;
    this.#open.push(this.#at * LENGTH_BYTES_BASE + lengthBytes);
    return this;
  }

  /** Ends the message that was begun last. */
  end(): this {
    const open = this.#open.pop()!;
    const lengthBytes = open % LENGTH_BYTES_BASE;
    const start = (open - lengthBytes) / LENGTH_BYTES_BASE;
    const length = this.#at - start;
    const moved = (length < 0x80 ? 1 : sizeOfVarint(length)) - lengthBytes;
    if (moved !== 0) {
      if (moved > 0) this.#makeRoom(moved);
      this.#move(start, moved);
    }
    this.#at = start - lengthBytes;
    this.varint(length);
    this.#at += length;
    return this;
  }

  /** Tag and length of a field whose `length` bytes the caller writes next. */
  open(field: number, length: number): this {
    const tag = field * 8 + BYTES;
    return this.#writePair(tag, length) ? this : this.varint(tag).varint(length);
  }

  /** Bytes without tag and length. */
  raw({ buffer, byteOffset, byteLength }: Memory): this {
    return this.#put(buffer, byteOffset, byteLength);
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

  #put(buffer: ArrayBufferLike, byteOffset: number, byteLength: number): this {
    this.#makeRoom(byteLength);
    this.#bytes.set(new Uint8Array(buffer, byteOffset, byteLength), this.#at);
    this.#at += byteLength;
    return this;
  }

  /** Writes two varints if each takes one byte, as most do, and there is room; else false. */
  #writePair(first: number, second: number): boolean {
    const bytes = this.#bytes;
    const at = this.#at;
    if (first >= 0x80 || second >= 0x80 || second < 0 || at + 2 > bytes.length) return false;
    bytes[at] = first;
    bytes[at + 1] = second;
    this.#at = at + 2;
    return true;
  }

  /** Moves the bytes from `start` on by `by` positions; few bytes by a loop, which is faster. */
  #move(start: number, by: number): void {
    const bytes = this.#bytes;
    const end = this.#at;
    if (end - start > MOVED_BY_LOOP_MAX) bytes.copyWithin(start + by, start, end);
    else if (by < 0) for (let at = start; at < end; at += 1) bytes[at + by] = bytes[at]!;
    else for (let at = end - 1; at >= start; at -= 1) bytes[at + by] = bytes[at]!;
  }

  #makeRoom(size: number): void {
    const needed = this.#at + size;
    if (needed <= this.#bytes.length) return;
    const larger = Buffer.allocUnsafe(Math.max(2 * this.#bytes.length, needed + VARINT_ROOM));
    this.#bytes.copy(larger, 0, 0, this.#at);
    this.#bytes = larger;
  }
}
