// Protocol Buffers without a schema compiler: a cursor over the fields of one message. The few
// TensorFlow messages Winnow reads are walked by field number; unknown fields are skipped by not
// asking for them. Nothing is copied, and nothing outside the message is ever read.
//
//   const node = new ProtobufReader(bytes, "saved_model.pb");
//   while (node.next()) {
//     if (node.field === 1) name = node.text();
//     else if (node.field === 3) inputs.push(node.text());   // repeated: once per occurrence
//     else if (node.field === 5) readEntry(node.message());  // a cursor over the nested message
//     else if (node.field === 7) node.ints(shape);           // repeated numbers, packed or not
//   }
//
// Encoding: https://protobuf.dev/programming-guides/encoding. Damage is DATA_LOSS with file and
// byte offset, never a crash or a loop: every step moves forward or throws.

import { WinnowError } from "@winnow/core";

const VARINT = 0;
const FIXED64 = 1;
const BYTES = 2;
const FIXED32 = 5;
const WIRE_NAMES = ["a varint", "8 bytes", "a length", "a group", "a group end", "4 bytes"];

const decoder = new TextDecoder();

/** What nested cursors share. */
interface Origin {
  readonly bytes: Uint8Array;
  readonly view: DataView;
  readonly file: string;
}

/** A cursor over the fields of one message. */
export class ProtobufReader {
  readonly #origin: Origin;
  readonly #end: number;
  #position: number;
  #wire = VARINT;
  /** Where the current field's value lies; for a varint only its start is meaningful. */
  #valueStart = 0;
  #valueEnd = 0;
  /** Low and high 32 bits of the last varint. */
  #low = 0;
  #high = 0;

  /** Number of the current field; 0 before the first `next()`. */
  field = 0;

  /** Reads `bytes` as one message; `file` stands in error messages. */
  constructor(bytes: Uint8Array, file: string);
  constructor(origin: Origin, range: { readonly start: number; readonly end: number });
  constructor(
    source: Uint8Array | Origin,
    where: string | { readonly start: number; readonly end: number },
  ) {
    if (source instanceof Uint8Array) {
      const view = new DataView(source.buffer, source.byteOffset, source.byteLength);
      this.#origin = { bytes: source, view, file: where as string };
      this.#position = 0;
      this.#end = source.length;
    } else {
      const range = where as { readonly start: number; readonly end: number };
      this.#origin = source;
      this.#position = range.start;
      this.#end = range.end;
    }
  }

  /** Position of the current field's value in the file, for messages and for reading it in place. */
  get offset(): number {
    return this.#valueStart;
  }

  /** Moves to the next field; false at the end of the message. @throws WinnowError DATA_LOSS */
  next(): boolean {
    if (this.#position >= this.#end) return false;
    const start = this.#position;
    this.#readVarint(this.#end);
    this.#wire = this.#low & 7;
    this.field = this.#low >>> 3;
    if (this.field === 0 || this.#high !== 0) throw this.#damage("an impossible field", start);
    this.#valueStart = this.#position;
    this.#skipValue();
    return true;
  }

  /** A length-delimited value: a view that shares the file's memory. */
  bytes(): Uint8Array {
    this.#expect(BYTES);
    return this.#origin.bytes.subarray(this.#valueStart, this.#valueEnd);
  }

  /** A length-delimited value as UTF-8 text. */
  text(): string {
    return decoder.decode(this.bytes());
  }

  /** A cursor over a nested message. */
  message(): ProtobufReader {
    this.#expect(BYTES);
    return new ProtobufReader(this.#origin, { start: this.#valueStart, end: this.#valueEnd });
  }

  /** Key and value cursors of a map entry with a string key; the value stays where it stands. */
  mapEntry(): { readonly key: string; readonly value: ProtobufReader | undefined } {
    const entry = this.message();
    let key = "";
    let value: ProtobufReader | undefined;
    while (entry.next()) {
      if (entry.field === 1) key = entry.text();
      else if (entry.field === 2) value = entry.#copy();
    }
    return { key, value };
  }

  /** int32, int64 or enum. @throws WinnowError DATA_LOSS outside ±(2⁵³ − 1) */
  int(): number {
    const value = Number(this.int64());
    if (!Number.isSafeInteger(value)) throw this.#damage("a number beyond 2^53", this.#valueStart);
    return value;
  }

  /** int64 as it is. */
  int64(): bigint {
    return BigInt.asIntN(64, this.uint64());
  }

  /** uint64 as it is. */
  uint64(): bigint {
    this.#expect(VARINT);
    return (BigInt(this.#high) << 32n) | BigInt(this.#low);
  }

  /** A bool. */
  bool(): boolean {
    this.#expect(VARINT);
    return this.#low !== 0 || this.#high !== 0;
  }

  /** A float. */
  float(): number {
    this.#expect(FIXED32);
    return this.#origin.view.getFloat32(this.#valueStart, true);
  }

  /** A double. */
  double(): number {
    this.#expect(FIXED64);
    return this.#origin.view.getFloat64(this.#valueStart, true);
  }

  /** A fixed32. */
  fixed32(): number {
    this.#expect(FIXED32);
    return this.#origin.view.getUint32(this.#valueStart, true);
  }

  /** Appends this occurrence of a repeated int32, int64 or enum field, packed or not. */
  ints(into: number[]): void {
    if (this.#wire === VARINT) into.push(this.int());
    else for (const value of this.#packedVarints()) into.push(this.#safe(value));
  }

  /** Appends this occurrence of a repeated int64 or uint64 field, packed or not, as int64. */
  int64s(into: bigint[]): void {
    if (this.#wire === VARINT) into.push(this.int64());
    else for (const value of this.#packedVarints()) into.push(value);
  }

  /** Appends this occurrence of a repeated float field, packed or not. */
  floats(into: number[]): void {
    if (this.#wire === FIXED32) into.push(this.float());
    else {
      for (const at of this.#packedPositions(4)) into.push(this.#origin.view.getFloat32(at, true));
    }
  }

  /** Appends this occurrence of a repeated double field, packed or not. */
  doubles(into: number[]): void {
    if (this.#wire === FIXED64) into.push(this.double());
    else {
      for (const at of this.#packedPositions(8)) into.push(this.#origin.view.getFloat64(at, true));
    }
  }

  /** Moves past the current value, checking that it ends within the message. */
  #skipValue(): void {
    if (this.#wire === VARINT) {
      this.#readVarint(this.#end);
    } else if (this.#wire === BYTES) {
      this.#readVarint(this.#end);
      const size = this.#high * 2 ** 32 + this.#low;
      this.#valueStart = this.#position;
      this.#advance(size);
    } else if (this.#wire === FIXED64 || this.#wire === FIXED32) {
      this.#advance(this.#wire === FIXED64 ? 8 : 4);
    } else {
      throw this.#damage(`field ${this.field} of unknown wire type ${this.#wire}`, this.#position);
    }
    this.#valueEnd = this.#position;
  }

  #advance(size: number): void {
    if (size > this.#end - this.#position) {
      const left = this.#end - this.#position;
      const what = `field ${this.field} of ${size} bytes where ${left} are left`;
      throw this.#damage(what, this.#position);
    }
    this.#position += size;
  }

  /** Reads a varint of at most 10 bytes before `end` into `#low` and `#high`. */
  #readVarint(end: number): void {
    const { bytes } = this.#origin;
    let low = 0;
    let high = 0;
    for (let index = 0; index < 10 && this.#position < end; index += 1) {
      const byte = bytes[this.#position]!;
      this.#position += 1;
      const bits = byte & 0x7f;
      if (index < 4) low |= bits << (7 * index);
      else if (index === 4) {
        low |= bits << 28;
        high = bits >>> 4;
      } else if (index < 9) high |= bits << (7 * index - 32);
      else high |= bits << 31;
      if (byte < 0x80) {
        this.#low = low >>> 0;
        this.#high = high >>> 0;
        return;
      }
    }
    throw this.#damage("an unfinished number", this.#position);
  }

  *#packedVarints(): Generator<bigint, void, undefined> {
    this.#expect(BYTES);
    const after = this.#position;
    const end = this.#valueEnd;
    this.#position = this.#valueStart;
    try {
      while (this.#position < end) {
        this.#readVarint(end);
        yield BigInt.asIntN(64, (BigInt(this.#high) << 32n) | BigInt(this.#low));
      }
    } finally {
      this.#position = after;
    }
  }

  *#packedPositions(size: number): Generator<number, void, undefined> {
    this.#expect(BYTES);
    if ((this.#valueEnd - this.#valueStart) % size !== 0) {
      throw this.#damage(`packed field ${this.field} with a part of a number`, this.#valueStart);
    }
    for (let at = this.#valueStart; at < this.#valueEnd; at += size) yield at;
  }

  #safe(value: bigint): number {
    const number = Number(value);
    if (Number.isSafeInteger(number)) return number;
    throw this.#damage("a number beyond 2^53", this.#valueStart);
  }

  #copy(): ProtobufReader {
    const copy = new ProtobufReader(this.#origin, { start: this.#position, end: this.#end });
    copy.field = this.field;
    copy.#wire = this.#wire;
    copy.#valueStart = this.#valueStart;
    copy.#valueEnd = this.#valueEnd;
    copy.#low = this.#low;
    copy.#high = this.#high;
    return copy;
  }

  #expect(wire: number): void {
    if (this.field !== 0 && this.#wire === wire) return;
    const found = WIRE_NAMES[this.#wire] ?? "nothing";
    const what = `field ${this.field} holding ${found} where ${WIRE_NAMES[wire]} belongs`;
    throw this.#damage(what, this.#valueStart);
  }

  #damage(what: string, offset: number): WinnowError {
    const message = `Cannot read ${this.#origin.file}: ${what} at byte ${offset}`;
    return new WinnowError("DATA_LOSS", message);
  }
}
