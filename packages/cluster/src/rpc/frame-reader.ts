// Reads frames field by field. Numbers and strings of a frame are copied into memory that the whole
// frame shares: a received field lies at any offset, a typed array needs an aligned one, and an
// ArrayBuffer per field is what the garbage collector would spend its time on. Whatever cannot be a
// message throws; nothing outside the message is ever read, and what a frame becomes is bounded by
// `frame-limits.ts`. Codecs ask for a field by its tag, so a known number with another wire type is
// skipped like a field of a newer peer.

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

  /** @throws WinnowError INVALID_ARGUMENT for an integer that is not exact here */
  number(field: string): number {
    const value = this.varint();
    if (!Number.isSafeInteger(value)) throw malformed(field, "is not below 2^53");
    return value;
  }

  /** A bool field. */
  flag(): boolean {
    return this.varint() !== 0;
  }

  /** @throws WinnowError INVALID_ARGUMENT for one of more than 32 bits */
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
  byteArray(): Uint8Array<ArrayBuffer> {
    const { buffer, at, bytes } = this.#copy(1, "bytes");
    return new Uint8Array(buffer, at, bytes);
  }

  /** A bytes field as little-endian numbers. @throws WinnowError INVALID_ARGUMENT */
  float32Array(field: string): Float32Array<ArrayBuffer> {
    const { buffer, at, bytes } = this.#copy(4, field);
    return new Float32Array(buffer, at, bytes / 4);
  }

  /** @see float32Array */
  uint16Array(field: string): Uint16Array<ArrayBuffer> {
    const { buffer, at, bytes } = this.#copy(2, field);
    return new Uint16Array(buffer, at, bytes / 2);
  }

  /** @see float32Array */
  uint32Array(field: string): Uint32Array<ArrayBuffer> {
    const { buffer, at, bytes } = this.#copy(4, field);
    return new Uint32Array(buffer, at, bytes / 4);
  }

  /** @see float32Array */
  int32Array(field: string): Int32Array<ArrayBuffer> {
    const { buffer, at, bytes } = this.#copy(4, field);
    return new Int32Array(buffer, at, bytes / 4);
  }

  /** @see float32Array */
  int64Array(field: string): BigInt64Array<ArrayBuffer> {
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

  #copy(unitBytes: number, field: string): { buffer: ArrayBuffer; at: number; bytes: number } {
    const bytes = this.to - this.from;
    if (bytes % unitBytes !== 0) {
      throw malformed(field, `${bytes} bytes are not whole numbers of ${unitBytes} bytes`);
    }
    const { buffer, at } = this.#memory.take(bytes);
    this.#frame.copy(new Uint8Array(buffer, at, bytes), 0, this.from, this.to);
    return { buffer, at, bytes };
  }
}

function refuse(fault: ProtobufFault): WinnowError {
  switch (fault.kind) {
    case "tag":
      return malformed("frame", `${fault.tag} is no field`);
    case "wire":
      return malformed("frame", `wire type ${fault.wire} is not known`);
    case "varint":
      if (!fault.isCut) return malformed("frame", "a number has more than ten bytes");
      return malformed("frame", "is cut off");
    case "size":
      return malformed("frame", "is cut off");
    case "group":
    case "integer":
    case "layout":
    case "packed":
    case "prefix":
    case "text":
      return malformed("frame", `a field cannot be read: ${fault.kind}`);
  }
}
