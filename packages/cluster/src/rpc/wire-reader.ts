// Reads protobuf field by field. Numbers and strings of a frame are copied into memory that the whole
// frame shares: a received field lies at any offset, a typed array needs an aligned one, and an
// ArrayBuffer per field is what the garbage collector would spend its time on. Whatever cannot be a
// message throws; nothing outside the message is ever read, and what a frame becomes is bounded by
// `frame-limits.ts`.

import { StringColumn } from "@winnow/core";
import { NESTED_MESSAGES_MAX, POSITIONS_MAX } from "./frame-limits.ts";
import { malformed } from "./malformed-frame.ts";
import { LENGTH_DELIMITED, VARINT } from "./wire-writer.ts";

/** Wire types that no field of ours has, to be skipped in a newer peer's frames. */
const FIXED_64 = 1;
const FIXED_32 = 5;

const UINT32_MAX = 2 ** 32 - 1;
/** Every array of numbers begins at a multiple of this. */
const ALIGNMENT = 8;

/** Memory for the arrays of one frame. */
class FieldMemory {
  #buffer: ArrayBuffer;
  #at = 0;

  constructor(bytes: number) {
    this.#buffer = new ArrayBuffer(bytes);
  }

  /** Room for so many bytes; the array's own is to be taken from the returned place on. */
  take(bytes: number): { readonly buffer: ArrayBuffer; readonly at: number } {
    if (this.#at + bytes > this.#buffer.byteLength) {
      this.#buffer = new ArrayBuffer(Math.max(bytes, this.#buffer.byteLength));
      this.#at = 0;
    }
    const at = this.#at;
    this.#at += Math.ceil(bytes / ALIGNMENT) * ALIGNMENT;
    return { buffer: this.#buffer, at };
  }
}

/** The fields of one message, first to last. */
export class WireReader {
  readonly #bytes: Buffer;
  readonly #memory: FieldMemory;
  #at: number;
  #end: number;
  #messages = 0;
  #positions = 0;

  private constructor(bytes: Buffer, memory: FieldMemory, at: number) {
    this.#bytes = bytes;
    this.#memory = memory;
    this.#at = at;
    this.#end = bytes.length;
  }

  /** A reader of a frame. */
  static of(frame: Buffer): WireReader {
    return new WireReader(frame, new FieldMemory(frame.length), 0);
  }

  /** The tag of the next field, `field * 8 + wire type`; 0 at the end of the message. */
  tag(): number {
    if (this.#at >= this.#end) return 0;
    const tag = this.#varint();
    if (tag < 8 || tag > UINT32_MAX) throw malformed("frame", `${tag} is no field`);
    return tag;
  }

  /** @throws WinnowError INVALID_ARGUMENT for an integer that is not exact here */
  number(field: string): number {
    const value = this.#varint();
    if (!Number.isSafeInteger(value)) throw malformed(field, "is not below 2^53");
    return value;
  }

  /** A bool field. */
  flag(): boolean {
    return this.#varint() !== 0;
  }

  /** @throws WinnowError INVALID_ARGUMENT for one of more than 32 bits */
  uint32(field: string): number {
    const value = this.#varint();
    if (value > UINT32_MAX) throw malformed(field, "exceeds 32 bits");
    return value;
  }

  /** A string field. */
  text(): string {
    const end = this.#contentEnd();
    const text = this.#bytes.toString("utf8", this.#at, end);
    this.#at = end;
    return text;
  }

  /**
   * Reads a nested message: all its fields, by `read`.
   * @throws WinnowError INVALID_ARGUMENT for a frame of too many messages
   */
  nested<Value>(read: (reader: WireReader) => Value): Value {
    this.#messages += 1;
    if (this.#messages > NESTED_MESSAGES_MAX) {
      throw malformed("frame", `holds more than ${NESTED_MESSAGES_MAX} messages`);
    }
    const outerEnd = this.#end;
    const end = this.#contentEnd();
    this.#end = end;
    const value = read(this);
    this.#at = end;
    this.#end = outerEnd;
    return value;
  }

  /**
   * Takes room for so many candidates, of which a frame has a limit.
   * @throws WinnowError INVALID_ARGUMENT beyond it
   */
  takePositions(count: number, field: string): void {
    this.#positions += count;
    if (this.#positions > POSITIONS_MAX) {
      throw malformed(field, `a frame has room for ${POSITIONS_MAX} candidates`);
    }
  }

  /** A bytes field, copied. */
  bytes(): Uint8Array<ArrayBuffer> {
    const { buffer, at, bytes } = this.#copy(1, "bytes");
    return new Uint8Array(buffer, at, bytes);
  }

  /** A bytes field as little-endian numbers. @throws WinnowError INVALID_ARGUMENT */
  floats(field: string): Float32Array<ArrayBuffer> {
    const { buffer, at, bytes } = this.#copy(4, field);
    return new Float32Array(buffer, at, bytes / 4);
  }

  /** @see floats */
  uint16s(field: string): Uint16Array<ArrayBuffer> {
    const { buffer, at, bytes } = this.#copy(2, field);
    return new Uint16Array(buffer, at, bytes / 2);
  }

  /** @see floats */
  uint32s(field: string): Uint32Array<ArrayBuffer> {
    const { buffer, at, bytes } = this.#copy(4, field);
    return new Uint32Array(buffer, at, bytes / 4);
  }

  /** @see floats */
  int32s(field: string): Int32Array<ArrayBuffer> {
    const { buffer, at, bytes } = this.#copy(4, field);
    return new Int32Array(buffer, at, bytes / 4);
  }

  /** @see floats */
  int64s(field: string): BigInt64Array<ArrayBuffer> {
    const { buffer, at, bytes } = this.#copy(8, field);
    return new BigInt64Array(buffer, at, bytes / 8);
  }

  /** Byte strings from their lengths. @throws WinnowError INVALID_ARGUMENT if they do not give the data */
  strings(lengths: Uint32Array, data: Uint8Array, field: string): StringColumn {
    const { buffer, at } = this.#memory.take(4 * (lengths.length + 1));
    const offsets = new Uint32Array(buffer, at, lengths.length + 1);
    let end = 0;
    for (let index = 0; index < lengths.length && end <= data.length; index += 1) {
      end += lengths[index]!;
      offsets[index + 1] = end;
    }
    if (end !== data.length) throw malformed(field, "its lengths do not give its data");
    return new StringColumn(offsets, data);
  }

  /** Skips the field of this tag: a newer peer sent it. */
  skip(tag: number): void {
    switch (tag % 8) {
      case VARINT:
        this.#varint();
        return;
      case LENGTH_DELIMITED:
        this.#at = this.#contentEnd();
        return;
      case FIXED_32:
      case FIXED_64:
        this.#at += tag % 8 === FIXED_32 ? 4 : 8;
        if (this.#at > this.#end) throw cutOff();
        return;
      default:
        throw malformed("frame", `wire type ${tag % 8} is not known`);
    }
  }

  /** Where the content of a field ends, after its length has been read. */
  #contentEnd(): number {
    const end = this.#varint() + this.#at;
    if (end > this.#end) throw cutOff();
    return end;
  }

  #copy(unitBytes: number, field: string): { buffer: ArrayBuffer; at: number; bytes: number } {
    const end = this.#contentEnd();
    const bytes = end - this.#at;
    if (bytes % unitBytes !== 0) {
      throw malformed(field, `${bytes} bytes are not whole numbers of ${unitBytes} bytes`);
    }
    const { buffer, at } = this.#memory.take(bytes);
    this.#bytes.copy(new Uint8Array(buffer, at, bytes), 0, this.#at, end);
    this.#at = end;
    return { buffer, at, bytes };
  }

  #varint(): number {
    let value = 0;
    let unit = 1;
    for (let count = 0; count < 10; count += 1) {
      if (this.#at >= this.#end) throw cutOff();
      const byte = this.#bytes[this.#at]!;
      this.#at += 1;
      if (byte < 128) return value + byte * unit;
      value += (byte - 128) * unit;
      unit *= 128;
    }
    throw malformed("frame", "a number has more than ten bytes");
  }
}

const cutOff = (): Error => malformed("frame", "is cut off");
