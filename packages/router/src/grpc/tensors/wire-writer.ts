// Writes protobuf fields into memory whose size was computed before, so that an answer of megabytes
// is allocated once and its floats are copied once.

import { copyBytes } from "./byte-copy.ts";
import type { ByteSpan } from "./byte-copy.ts";

/** Layouts used in answers. */
const VARINT = 0;
const BYTES = 2;

/** Writes one message. */
export class WireWriter {
  readonly bytes: Buffer;
  #at = 0;

  /** `size` is exactly what will be written. */
  constructor(size: number) {
    this.bytes = Buffer.allocUnsafe(size);
  }

  /** Tag and length of a nested message, or of anything whose bytes follow. */
  open(field: number, length: number): void {
    this.varint(field * 8 + BYTES);
    this.varint(length);
  }

  /** A field that is a small number. */
  number(field: number, value: number): void {
    this.varint(field * 8 + VARINT);
    this.varint(value);
  }

  /** A field of bytes. */
  field(field: number, bytes: Uint8Array): void {
    this.open(field, bytes.length);
    this.raw(bytes);
  }

  /** A field of a part of some bytes. */
  span(field: number, span: ByteSpan): void {
    this.open(field, span.to - span.from);
    this.#at = copyBytes(this.bytes, this.#at, span);
  }

  /** Bytes as they are. */
  raw(bytes: Uint8Array): void {
    this.bytes.set(bytes, this.#at);
    this.#at += bytes.length;
  }

  /** An unsigned integer up to 2⁵³ − 1. */
  varint(value: number): void {
    this.words(value >>> 0, Math.floor(value / 2 ** 32));
  }

  /** 64 bits as low and high word, unsigned. */
  words(low: number, high: number): void {
    const { bytes } = this;
    let at = this.#at;
    let [lowLeft, highLeft] = [low, high];
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
  }
}

/** Bytes of an unsigned integer up to 2⁵³ − 1. */
export function sizeOfVarint(value: number): number {
  return sizeOfWords(value >>> 0, Math.floor(value / 2 ** 32));
}

/** Bytes of 64 bits. */
export function sizeOfWords(low: number, high: number): number {
  if (high === 0) return low < 0x80 ? 1 : Math.ceil((32 - Math.clz32(low)) / 7);
  return Math.ceil((64 - Math.clz32(high)) / 7);
}

/** Bytes of a field that holds `length` bytes, tag and length included. */
export function sizeOfField(field: number, length: number): number {
  return sizeOfVarint(field * 8) + sizeOfVarint(length) + length;
}
