// Reads Protocol Buffers without a schema compiler: a cursor over the fields of one message.
// Nothing is copied, nothing outside of the message is read, and every step moves forward or
// throws. A general decoder makes an object per message and a JavaScript number per float; here
// they stay bytes.
//
//   const reader = new ProtobufReader(bytes, rules);
//   while (reader.next()) {
//     if (reader.field === 1) name = reader.text();
//     else if (reader.field === 3) inputs.push(reader.text());    // repeated: once per occurrence
//     else if (reader.field === 5) readSpec(reader.message());    // a cursor over the nested message
//     else if (reader.field === 7) reader.ints(shape);            // repeated numbers, packed or not
//   }                                               other fields are skipped
//
// The caller's `ProtobufRules` decide how strict the reading is and what errors say, because the
// errors of a damaged file, a damaged request and a damaged frame go to different people. Wire
// types are explained in `wire-format.ts`.

import { VARINT_BYTES_MAX, WIRE } from "./wire-format.ts";

/** Why bytes are not a message, and at which byte. */
export type ProtobufFault = { readonly at: number } & (
  | /** A varint without an end: the message ends within it (`isCut`), or it has over ten bytes. */
    {
      readonly kind: "varint";
      readonly isCut: boolean;
    } /** A tag of no field: its number is 0, or it takes more than 32 bits. */
  | {
      readonly kind: "tag";
      readonly tag: number;
    } /** A tag or a length of more than 32 bits, or more than 5 bytes, where `prefixes` is "short". */
  | {
      readonly kind: "prefix";
    } /** A field whose tag has a wire type that does not exist or is not read. */
  | {
      readonly kind: "wire";
      readonly field: number;
      readonly wire: number;
    } /** A field of `size` bytes where the message has `left`. */
  | {
      readonly kind: "size";
      readonly field: number;
      readonly size: number;
      readonly left: number;
    } /** A group that does not end, or more than 100 in each other. */
  | { readonly kind: "group" } /** A value of one wire type, asked for as another. */
  | {
      readonly kind: "layout";
      readonly field: number;
      readonly wire: number;
      readonly expected: number;
    } /** Packed numbers of a fixed size that end within a number. */
  | {
      readonly kind: "packed";
      readonly field: number;
    } /** An integer outside ±(2⁵³ − 1), asked for as a number. */
  | { readonly kind: "integer" } /** More fields than the rules leave. */
  | { readonly kind: "fields" } /** A text that the decoder refused. */
  | { readonly kind: "text"; readonly cause: unknown }
);

/** How strictly messages of one kind are read. */
export interface ProtobufRules {
  /** Makes the error for a fault; the reader throws it. */
  readonly refuse: (fault: ProtobufFault) => Error;
  /** Decodes texts: a `TextDecoder`; a `fatal` one refuses bytes that are not UTF-8. */
  readonly decoder: { decode(bytes: Uint8Array): string };
  /** Whether an unknown field may be a group. */
  readonly groups: "skipped" | "refused";
  /**
   * Which tags and lengths are accepted. "short": at most 5 bytes and 32 bits, as in the C++
   * library. "long": up to ten bytes, but a tag of more than 32 bits is a fault. "cut": like
   * "long", but of such a tag the low 32 bits are used.
   */
  readonly prefixes: "short" | "long" | "cut";
  /**
   * How many more fields are read, those of nested messages and of groups among them: a field takes two bytes, and its
   * reader at least 10 ns. Default: any number.
   */
  readonly fields?: { left: number };
}

const { varint: VARINT, fixed64: FIXED64, bytes: BYTES, fixed32: FIXED32 } = WIRE;
const { group: GROUP, groupEnd: GROUP_END } = WIRE;
const PREFIX_BYTES_MAX = 5;
const GROUPS_MAX = 100;
/** Value of bit 63, the lowest bit of a varint's tenth byte, in the word that starts at bit 32. */
const TENTH_BYTE = 2 ** 31;

/** A cursor over the fields of one message. */
export class ProtobufReader {
  readonly bytes: Uint8Array;
  readonly #rules: ProtobufRules;
  #view: DataView | undefined;
  #position: number;
  #end: number;
  /** Bits 0 to 31 of the last varint. */
  #low = 0;
  /** Bits of the last varint from 32 on, including any above bit 63. */
  #high = 0;

  /** Tag of the current field, `field * 8 + wire`; 0 before the first `next()`. */
  tag = 0;
  /** Range of the current field's value in `bytes`, without the length before it. */
  from = 0;
  to = 0;

  /** Reads `bytes`, or a part of them, as one message. */
  constructor(
    bytes: Uint8Array,
    rules: ProtobufRules,
    part: { readonly from: number; readonly to: number } = { from: 0, to: bytes.length },
  ) {
    this.bytes = bytes;
    this.#rules = rules;
    this.#position = part.from;
    this.#end = part.to;
  }

  /** Number of the current field; 0 before the first `next()`. */
  get field(): number {
    return this.tag >>> 3;
  }

  /** Wire type of the current field. */
  get wire(): number {
    return this.tag & 7;
  }

  /** Position of the next field, or of the next bare varint. */
  get position(): number {
    return this.#position;
  }

  /** Moves to the next field; false at the end of the message. Throws for a fault of the field. */
  next(): boolean {
    const start = this.#position;
    const end = this.#end;
    if (start >= end) return false;
    this.#countField();
    const { bytes } = this;
    let at = start + 1;
    let tag = bytes[start]!;
    if (tag >= 0x80) {
      tag = this.#readTag(start);
      at = this.#position;
    }
    this.tag = tag;
    if (tag < 8) throw this.#rules.refuse({ kind: "tag", tag, at: start });
    if (at < end) {
      // Fast paths for nearly every value: a short length-delimited one, and a one-byte varint.
      const first = bytes[at]!;
      if (first < 0x80) {
        const wire = tag & 7;
        if (wire === BYTES && first < end - at) {
          this.from = at + 1;
          this.to = this.#position = at + 1 + first;
          return true;
        }
        if (wire === VARINT) {
          this.from = at;
          this.to = this.#position = at + 1;
          this.#low = first;
          this.#high = 0;
          return true;
        }
      }
    }
    this.from = this.#position = at;
    this.#skipValue();
    this.to = this.#position;
    return true;
  }

  /** A length-delimited value: a view, which shares the memory of `bytes`. */
  view(): Uint8Array {
    this.#expect(BYTES);
    return this.bytes.subarray(this.from, this.to);
  }

  /** A length-delimited value as text. */
  text(): string {
    const bytes = this.view();
    try {
      return this.#rules.decoder.decode(bytes);
    } catch (cause) {
      throw this.#rules.refuse({ kind: "text", cause, at: this.from });
    }
  }

  /** A new cursor over a nested message; this cursor does not move. */
  message(): ProtobufReader {
    this.#expect(BYTES);
    return new ProtobufReader(this.bytes, this.#rules, this);
  }

  /** Reads a nested message with this cursor, which is after it then and has no current field. */
  nested<Value>(read: (reader: this) => Value): Value {
    this.#expect(BYTES);
    const outerEnd = this.#end;
    const after = this.to;
    this.#position = this.from;
    this.#end = after;
    const value = read(this);
    this.#position = after;
    this.#end = outerEnd;
    return value;
  }

  /** Key and value of a map entry with a text as key; `value` is a cursor at the value's field. */
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

  /** A varint as an unsigned number: exact below 2⁵³, at least 2⁵³ for every other. */
  varint(): number {
    this.#expect(VARINT);
    return this.#high === 0 ? this.#low : this.#high * 2 ** 32 + this.#low;
  }

  /** An int32, int64 or enum. Throws outside ±(2⁵³ − 1). */
  int(): number {
    this.#expect(VARINT);
    return this.#safeInt(this.from);
  }

  /** An int32 or enum: the low 32 bits. */
  int32(): number {
    this.#expect(VARINT);
    return this.#low | 0;
  }

  /** An int64. */
  int64(): bigint {
    this.#expect(VARINT);
    return this.#int64();
  }

  /** A bool. */
  bool(): boolean {
    this.#expect(VARINT);
    return this.#low !== 0 || this.#high >>> 0 !== 0;
  }

  /** A float. */
  float(): number {
    this.#expect(FIXED32);
    return this.#data().getFloat32(this.from, true);
  }

  /** A double. */
  double(): number {
    this.#expect(FIXED64);
    return this.#data().getFloat64(this.from, true);
  }

  /** A fixed32. */
  fixed32(): number {
    this.#expect(FIXED32);
    return this.#data().getUint32(this.from, true);
  }

  /** Appends this occurrence of a repeated int32, int64 or enum, packed or not; as `int()`. */
  ints(into: number[]): void {
    if (this.wire !== VARINT) this.#expect(BYTES);
    for (let at = this.from; at < this.to;) {
      at = this.#readVarint(at, this.to);
      into.push(this.#safeInt(this.from));
    }
  }

  /** Appends this occurrence of a repeated int64 or uint64, packed or not; as int64. */
  int64s(into: bigint[]): void {
    if (this.wire !== VARINT) this.#expect(BYTES);
    for (let at = this.from; at < this.to;) {
      at = this.#readVarint(at, this.to);
      into.push(this.#int64());
    }
  }

  /** Appends this occurrence of a repeated float, packed or not. */
  floats(into: number[]): void {
    this.#expectPacked(FIXED32, 4);
    for (let at = this.from; at < this.to; at += 4) into.push(this.#data().getFloat32(at, true));
  }

  /** Appends this occurrence of a repeated double, packed or not. */
  doubles(into: number[]): void {
    this.#expectPacked(FIXED64, 8);
    for (let at = this.from; at < this.to; at += 8) into.push(this.#data().getFloat64(at, true));
  }

  /**
   * Writes the low 32 bits of this occurrence's varints, packed or not, to `into` from index
   * `filled` up to `end`; gives the new number of filled values, and moves `from` behind what was
   * read, so that the next call goes on there. The caller has checked the wire type.
   */
  fill32(into: { [index: number]: number }, filled: number, end: number): number {
    const { bytes, to } = this;
    let at = this.from;
    let count = filled;
    for (; at < to && count < end; count += 1) {
      const first = bytes[at]!;
      if (first < 0x80) {
        into[count] = first;
        at += 1;
      } else {
        at = this.#readVarint(at, to);
        into[count] = this.#low;
      }
    }
    this.from = at;
    return count;
  }

  /** As `fill32`, with 64 bits: `into` takes low and high words in turn, two for each value. */
  fill64(into: Uint32Array, filled: number, end: number): number {
    const { to } = this;
    let at = this.from;
    let count = filled;
    for (; at < to && count < end; count += 1) {
      at = this.#readVarint(at, to);
      into[2 * count] = this.#low;
      into[2 * count + 1] = this.#high;
    }
    this.from = at;
    return count;
  }

  /**
   * Reads a varint that has no tag (some formats have lists of them) and gives its low 32 bits,
   * unsigned. Must not be mixed with `next()`.
   */
  bareUint32(): number {
    this.#position = this.#readVarint(this.#position, this.#end);
    return this.#low;
  }

  /** Reads a tag of several bytes, and moves past it. */
  #readTag(start: number): number {
    this.#readPrefix(start);
    if (this.#high === 0 || this.#rules.prefixes === "cut") return this.#low;
    throw this.#rules.refuse({ kind: "tag", tag: this.#high * 2 ** 32 + this.#low, at: start });
  }

  /** Reads a tag or length, and moves past it. */
  #readPrefix(start: number): void {
    this.#position = this.#readVarint(start, this.#end);
    if (this.#rules.prefixes !== "short") return;
    if (this.#high !== 0 || this.#position - start > PREFIX_BYTES_MAX) {
      throw this.#rules.refuse({ kind: "prefix", at: start });
    }
  }

  /** Moves past the current value, which must end within the message. */
  #skipValue(): void {
    switch (this.wire) {
      case VARINT:
        this.#position = this.#readVarint(this.#position, this.#end);
        return;
      case BYTES:
        this.#readPrefix(this.#position);
        this.from = this.#position;
        return this.#advance(this.#high * 2 ** 32 + this.#low);
      case FIXED64:
        return this.#advance(8);
      case FIXED32:
        return this.#advance(4);
      case GROUP:
        if (this.#rules.groups === "skipped") return this.#skipGroup();
    }
    const { field, wire } = this;
    throw this.#rules.refuse({ kind: "wire", field, wire, at: this.#position });
  }

  /** Moves past a group; the numbers of its fields are not checked. */
  #skipGroup(): void {
    const { tag, from } = this;
    for (let open = 1; open > 0;) {
      if (open > GROUPS_MAX || this.#position >= this.#end) {
        throw this.#rules.refuse({ kind: "group", at: this.#position });
      }
      this.#countField();
      this.#readPrefix(this.#position);
      this.tag = this.#low;
      const { wire } = this;
      if (wire === GROUP) open += 1;
      else if (wire === GROUP_END) open -= 1;
      else this.#skipValue();
    }
    this.tag = tag;
    this.from = from;
  }

  #countField(): void {
    const { fields, refuse } = this.#rules;
    if (fields === undefined || --fields.left >= 0) return;
    throw refuse({ kind: "fields", at: this.#position });
  }

  #advance(size: number): void {
    const left = this.#end - this.#position;
    if (size > left) {
      const { field } = this;
      throw this.#rules.refuse({ kind: "size", field, size, left, at: this.#position });
    }
    this.#position += size;
  }

  /** Reads the varint at `from` into two words; gives its end, which is at most `end`. */
  #readVarint(from: number, end: number): number {
    const { bytes } = this;
    const last = Math.min(end, from + VARINT_BYTES_MAX);
    let low = 0;
    let high = 0;
    for (let at = from, shift = 0; at < last; at += 1, shift += 7) {
      const byte = bytes[at]!;
      const bits = byte & 0x7f;
      if (shift < 28) low |= bits << shift;
      else if (shift === 28) {
        low |= bits << 28;
        high = bits >>> 4;
      } else if (shift < 63) high |= bits << (shift - 32);
      else high += bits * TENTH_BYTE;
      if (byte < 0x80) {
        this.#low = low >>> 0;
        this.#high = high;
        return at + 1;
      }
    }
    throw this.#rules.refuse({ kind: "varint", isCut: last === end, at: last });
  }

  /** The last varint as int64. */
  #int64(): bigint {
    return (BigInt(this.#high | 0) << 32n) | BigInt(this.#low);
  }

  /** The last varint as an int64 that is exact as a number. */
  #safeInt(at: number): number {
    const value = (this.#high | 0) * 2 ** 32 + this.#low;
    if (!Number.isSafeInteger(value)) throw this.#rules.refuse({ kind: "integer", at });
    return value;
  }

  #data(): DataView {
    const { buffer, byteOffset, byteLength } = this.bytes;
    return (this.#view ??= new DataView(buffer, byteOffset, byteLength));
  }

  #copy(): ProtobufReader {
    const copy = new ProtobufReader(this.bytes, this.#rules, {
      from: this.#position,
      to: this.#end,
    });
    copy.tag = this.tag;
    copy.from = this.from;
    copy.to = this.to;
    copy.#low = this.#low;
    copy.#high = this.#high;
    return copy;
  }

  #expect(expected: number): void {
    if (this.tag >= 8 && (this.tag & 7) === expected) return;
    const { field, wire } = this;
    throw this.#rules.refuse({ kind: "layout", field, wire, expected, at: this.from });
  }

  /** Expects one number of this wire type, or whole numbers of `size` bytes. */
  #expectPacked(single: number, size: number): void {
    if (this.wire === single) return;
    this.#expect(BYTES);
    if ((this.to - this.from) % size === 0) return;
    throw this.#rules.refuse({ kind: "packed", field: this.field, at: this.from });
  }
}
