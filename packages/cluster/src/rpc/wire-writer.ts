// Writes protobuf from the last byte to the first. The length of a nested message stands before its
// content; written backwards, the content is there when its length is asked for, so that one pass
// over the data writes it all, and each codec says its format once. The bytes are those of
// protobufjs: fields by ascending number, zeros included. https://protobuf.dev/programming-guides/encoding

/** A field's wire type, in the low bits of its tag. */
export const VARINT = 0;
/** @see VARINT */
export const LENGTH_DELIMITED = 2;

/** Bits of a varint's byte that carry the number. */
const VARINT_BASE = 128;
const VARINT_BYTES_MAX = 10;

interface NumberArray {
  readonly buffer: ArrayBufferLike;
  readonly byteOffset: number;
  readonly byteLength: number;
}

/** A message that grows at its front. Fields are to be written in descending order. */
export class WireWriter {
  #buffer: Buffer;
  #at: number;
  #lengths = new Uint32Array(0);

  /** `bytes`: about how long the message will be; it grows when there is more. */
  constructor(bytes: number) {
    this.#buffer = Buffer.allocUnsafe(bytes + VARINT_BYTES_MAX);
    this.#at = this.#buffer.length;
  }

  /** Bytes written so far: a nested message's length is the difference of two of these. */
  get length(): number {
    return this.#buffer.length - this.#at;
  }

  /** What was written. The writer is not to be used any more. */
  finish(): Buffer {
    return this.#buffer.subarray(this.#at);
  }

  /** A number field, an integer from 0 below 2⁵³. */
  number(field: number, value: number): void {
    this.#varint(value);
    this.#varint(field * 8 + VARINT);
  }

  /** A bool field. */
  flag(field: number, value: boolean): void {
    this.number(field, value ? 1 : 0);
  }

  /** A string field. */
  text(field: number, value: string): void {
    const bytes = Buffer.byteLength(value);
    this.#makeRoom(bytes);
    this.#at -= bytes;
    this.#buffer.write(value, this.#at, bytes);
    this.nested(field, this.length - bytes);
  }

  /** A bytes field: the memory of a typed array. */
  bytes(field: number, values: NumberArray): void {
    const start = this.length;
    this.raw(values);
    this.nested(field, start);
  }

  /** A bytes field: the differences of ascending positions, uint32 little-endian. */
  differences(field: number, positions: Uint32Array): void {
    const count = positions.length - 1;
    if (this.#lengths.length < count) this.#lengths = new Uint32Array(2 * count);
    const lengths = this.#lengths.subarray(0, count);
    for (let index = 0; index < count; index += 1) {
      lengths[index] = positions[index + 1]! - positions[index]!;
    }
    this.bytes(field, lengths);
  }

  /** Bytes without a tag: a piece of a bytes field, the pieces from last to first. */
  raw({ buffer, byteOffset, byteLength }: NumberArray): void {
    this.#makeRoom(byteLength);
    this.#at -= byteLength;
    this.#buffer.set(new Uint8Array(buffer, byteOffset, byteLength), this.#at);
  }

  /** Makes what was written since `length` was `start` the content of a field. */
  nested(field: number, start: number): void {
    this.#varint(this.length - start);
    this.#varint(field * 8 + LENGTH_DELIMITED);
  }

  #varint(value: number): void {
    this.#makeRoom(VARINT_BYTES_MAX);
    let bytes = 1;
    for (let rest = value; rest >= VARINT_BASE; rest = Math.floor(rest / VARINT_BASE)) bytes += 1;
    this.#at -= bytes;
    let rest = value;
    for (let at = this.#at; ; at += 1) {
      if (rest < VARINT_BASE) {
        this.#buffer[at] = rest;
        return;
      }
      this.#buffer[at] = (rest % VARINT_BASE) + VARINT_BASE;
      rest = Math.floor(rest / VARINT_BASE);
    }
  }

  #makeRoom(bytes: number): void {
    if (bytes <= this.#at) return;
    const { length } = this;
    const larger = Buffer.allocUnsafe(2 * (length + bytes + VARINT_BYTES_MAX));
    this.#buffer.copy(larger, larger.length - length, this.#at);
    this.#buffer = larger;
    this.#at = larger.length - length;
  }
}
