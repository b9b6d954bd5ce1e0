// Reads frames field by field. Arrays of a frame are copied into one buffer for the whole frame,
// because a received field lies at any offset, a typed array needs an aligned one, and one
// ArrayBuffer per field would cost the garbage collector too much. A malformed message throws;
// nothing outside of the message is ever read, and the memory that a frame takes is bounded by
// `frame-limits.ts`. Codecs match a field by its tag, so a known field number with another wire
// type is skipped like a field of a newer peer.

import { ProtobufReader, StringColumn } from "@winnow/core";
import type { ProtobufFault, ProtobufRules, WinnowError } from "@winnow/core";
import { NESTED_MESSAGES_MAX, POSITIONS_MAX } from "./frame-limits.ts";
import { malformed } from "./malformed-frame.ts";

const RULES: ProtobufRules = {
  refuse,
  decoder: new TextDecoder(),
  groups: "refused",
  prefixes: "long",
};

const UINT32_MAX = 2 ** 32 - 1;
/** Every array begins at a multiple of so many bytes. */
const ALIGNMENT = 8;
const SHORT_BYTES = 32;

// Values of absent fields, made once: an empty typed array costs as much to make as a filled one.
/** No bytes. */
export const NO_BYTES: Uint8Array<ArrayBuffer> = new Uint8Array(0);
/** No 16-bit numbers. */
export const NO_SHORTS: Uint16Array<ArrayBuffer> = new Uint16Array(0);
/** No 32-bit numbers. */
export const NO_UINTS: Uint32Array<ArrayBuffer> = new Uint32Array(0);
/** No floating-point numbers. */
export const NO_FLOATS: Float32Array<ArrayBuffer> = new Float32Array(0);

/** Memory for the arrays of one frame. */
class FieldMemory {
  buffer: ArrayBuffer;
  #bytes: Uint8Array;
  #at = 0;

  constructor(bytes: number) {
    this.buffer = new ArrayBuffer(bytes);
    this.#bytes = new Uint8Array(this.buffer);
  }

  /** Reserves `bytes` bytes; gives their offset in `buffer`, which another call may replace. */
  take(bytes: number): number {
    if (this.#at + bytes > this.#bytes.length) {
      this.buffer = new ArrayBuffer(Math.max(bytes, this.#bytes.length));
      this.#bytes = new Uint8Array(this.buffer);
      this.#at = 0;
    }
    const at = this.#at;
    this.#at += Math.ceil(bytes / ALIGNMENT) * ALIGNMENT;
    return at;
  }

  /** Copies bytes of a frame; gives their offset in `buffer`. */
  copy(frame: Buffer, from: number, to: number): number {
    const at = this.take(to - from);
    // For few bytes a loop is faster than the call of `Buffer.copy`.
    if (to - from <= SHORT_BYTES) {
      for (let index = from; index < to; index += 1) this.#bytes[at + index - from] = frame[index]!;
    } else frame.copy(this.#bytes, at, from, to);
    return at;
  }
}

/** The fields of a frame and of the messages in it, first to last. */
export class FrameReader extends ProtobufReader {
  readonly #frame: Buffer;
  readonly #memory: FieldMemory;
  #messages = 0;
  #positions = 0;

  /** Reads a frame. */
  constructor(frame: Buffer) {
    super(frame, RULES);
    this.#frame = frame;
    this.#memory = new FieldMemory(frame.length);
  }

  /** An integer field. @throws WinnowError INVALID_ARGUMENT from 2⁵³ on, where it is not exact */
  number(field: string): number {
    const value = this.varint();
    if (!Number.isSafeInteger(value)) throw malformed(field, "is not below 2^53");
    return value;
  }

  /** A bool field. */
  flag(): boolean {
    return this.varint() !== 0;
  }

  /** An integer field. @throws WinnowError INVALID_ARGUMENT for more than 32 bits */
  uint32(field: string): number {
    const value = this.varint();
    if (value > UINT32_MAX) throw malformed(field, "exceeds 32 bits");
    return value;
  }

  /** A string field. */
  override text(): string {
    return this.#frame.toString("utf8", this.from, this.to);
  }

  /**
   * Reads a nested message: all its fields, by `read`.
   * @throws WinnowError INVALID_ARGUMENT for a frame of too many messages
   */
  override nested<Value>(read: (reader: this) => Value): Value {
    this.#messages += 1;
    if (this.#messages > NESTED_MESSAGES_MAX) {
      throw malformed("frame", `holds more than ${NESTED_MESSAGES_MAX} messages`);
    }
    return super.nested(read);
  }

  /**
   * Counts candidates for which an answer claims room.
   * @throws WinnowError INVALID_ARGUMENT beyond the frame's limit
   */
  takePositions(count: number, field: string): void {
    this.#positions += count;
    if (this.#positions > POSITIONS_MAX) {
      throw malformed(field, `a frame has room for ${POSITIONS_MAX} candidates`);
    }
  }

  /** A bytes field, copied. */
  byteArray(): Uint8Array<ArrayBuffer> {
    const at = this.#copy(1, "bytes");
    return new Uint8Array(this.#memory.buffer, at, this.to - this.from);
  }

  /** A bytes field as little-endian numbers. @throws WinnowError INVALID_ARGUMENT */
  float32Array(field: string): Float32Array<ArrayBuffer> {
    const at = this.#copy(4, field);
    return new Float32Array(this.#memory.buffer, at, (this.to - this.from) / 4);
  }

  /** @see float32Array */
  uint16Array(field: string): Uint16Array<ArrayBuffer> {
    const at = this.#copy(2, field);
    return new Uint16Array(this.#memory.buffer, at, (this.to - this.from) / 2);
  }

  /** @see float32Array */
  uint32Array(field: string): Uint32Array<ArrayBuffer> {
    const at = this.#copy(4, field);
    return new Uint32Array(this.#memory.buffer, at, (this.to - this.from) / 4);
  }

  /** @see float32Array */
  int32Array(field: string): Int32Array<ArrayBuffer> {
    const at = this.#copy(4, field);
    return new Int32Array(this.#memory.buffer, at, (this.to - this.from) / 4);
  }

  /** @see float32Array */
  int64Array(field: string): BigInt64Array<ArrayBuffer> {
    const at = this.#copy(8, field);
    return new BigInt64Array(this.#memory.buffer, at, (this.to - this.from) / 8);
  }

  /**
   * Byte strings from their lengths.
   * @throws WinnowError INVALID_ARGUMENT if the lengths do not add up to the data's
   */
  strings(lengths: Uint32Array, data: Uint8Array, field: string): StringColumn {
    const at = this.#memory.take(4 * (lengths.length + 1));
    const offsets = new Uint32Array(this.#memory.buffer, at, lengths.length + 1);
    let end = 0;
    for (let index = 0; index < lengths.length && end <= data.length; index += 1) {
      end += lengths[index]!;
      offsets[index + 1] = end;
    }
    if (end !== data.length) throw malformed(field, "its lengths do not give its data");
    return new StringColumn(offsets, data);
  }

  /** Copies a bytes field; gives its offset in the memory of the frame. */
  #copy(unitBytes: number, field: string): number {
    const bytes = this.to - this.from;
    if (bytes % unitBytes !== 0) {
      throw malformed(field, `${bytes} bytes are not whole numbers of ${unitBytes} bytes`);
    }
    return this.#memory.copy(this.#frame, this.from, this.to);
  }
}

function refuse(fault: ProtobufFault): WinnowError {
  const { kind } = fault;
  if (kind === "tag") return malformed("frame", `${fault.tag} is no field`);
  if (kind === "wire") return malformed("frame", `wire type ${fault.wire} is not known`);
  if (kind === "size" || (kind === "varint" && fault.isCut))
    return malformed("frame", "is cut off");
  if (kind === "varint") return malformed("frame", "a number has more than ten bytes");
  return malformed("frame", `a field cannot be read: ${kind}`);
}
