// JSON bytes → a flat list of values, in one pass and without an object per value. The dialect and the errors
// are RapidJSON's with the flags TensorFlow Serving sets (iterative, NaN and Infinity, stop when done): a
// byte order mark is skipped, text behind the first value is ignored, a NUL byte is the end, raw control
// characters are refused, UTF-8 is not checked. Strings stay bytes.
//
//   {"a": [1, "x"]}   value  kind    from        to
//                     0      object  1 member    5 = the value after it
//                     1      string  "a" at 2    3
//                     2      array   2 elements  5
//                     3      number  at 7        8          numbers[3] = 1
//                     4      string  "x" at 11   12
//
// Children follow their parent, so the n plain values of a list are the next n entries. Nesting uses no
// stack: an open container keeps its parent in `to`. Escapes are replaced in place, in the body.

import { WinnowError } from "@winnow/core";
import { NumberScanner } from "./json-number.ts";
import { readEscape, stringEnd } from "./json-string.ts";
import { JsonSyntaxError } from "./json-syntax-error.ts";

/** The kind of a value. An integer fits 64 bits. */
export const KIND = {
  null: 0,
  false: 1,
  true: 2,
  object: 3,
  array: 4,
  string: 5,
  integer: 6,
  double: 7,
} as const;

/** Position of a value in a document; 0 is the root. */
export type ValueIndex = number;

const QUOTE = 0x22;
const COMMA = 0x2c;
const COLON = 0x3a;
const OPEN_ARRAY = 0x5b;
const CLOSE_ARRAY = 0x5d;
const OPEN_OBJECT = 0x7b;
const CLOSE_OBJECT = 0x7d;
/** Bytes that cannot begin a document; elsewhere the number scanner refuses them. NUL is the end. */
const NO_VALUES: ReadonlySet<number> = new Set([0, COMMA, COLON, CLOSE_ARRAY, CLOSE_OBJECT]);
const BYTE_ORDER_MARK = [0xef, 0xbb, 0xbf];
const NO_PARENT = -1;
const FIRST_CAPACITY = 1024;
const KEPT_CAPACITY_MAX = 1 << 20;

/** Parses bodies one by one; its arrays hold the last document until the next `parse`. */
export class JsonReader {
  /** The body, with the escapes of its strings replaced in place. */
  bytes: Uint8Array = new Uint8Array(0);
  kinds: Uint8Array = new Uint8Array(FIRST_CAPACITY);
  /** First byte of a string or number; members of an object; elements of an array. */
  from: Int32Array = new Int32Array(FIRST_CAPACITY);
  /** Byte after a string or number; entry after a container and all its content. */
  to: Int32Array = new Int32Array(FIRST_CAPACITY);
  /** Values of numbers. Integers beyond 2^53 are rounded here; their exact digits are in the text. */
  numbers: Float64Array = new Float64Array(FIRST_CAPACITY);

  readonly #valuesMax: number;
  readonly #scanner: NumberScanner = new NumberScanner();
  #count = 0;
  /** Entries that the arrays have room for, at most as many as are allowed. */
  #room = 0;
  #end = 0;
  #parent = NO_PARENT;

  constructor(options: { readonly valuesMax: number }) {
    this.#valuesMax = options.valuesMax;
    this.#room = Math.min(FIRST_CAPACITY, options.valuesMax);
  }

  /**
   * Reads the first value of `bytes`; the caller must not use the bytes afterwards.
   * @throws JsonSyntaxError, or WinnowError RESOURCE_EXHAUSTED for more than `valuesMax` values.
   */
  parse(bytes: Uint8Array): void {
    if (this.kinds.length > KEPT_CAPACITY_MAX) this.#allocate(FIRST_CAPACITY);
    this.bytes = bytes;
    this.#end = bytes.length;
    this.#count = 0;
    this.#parent = NO_PARENT;
    let at = 0;
    for (const byte of BYTE_ORDER_MARK) if (this.#peek(at) === byte) at++;
    at = this.#skipSpace(at);
    do at = this.#finish(this.#value(at));
    while (at >= 0);
  }

  /** The entry after this value and all its content. */
  next(value: ValueIndex): ValueIndex {
    const kind = this.kinds[value]!;
    return kind === KIND.object || kind === KIND.array ? this.to[value]! : value + 1;
  }

  /** The elements of an array; of an object, names and values by turns. */
  children(parent: ValueIndex): ValueIndex[] {
    const children: ValueIndex[] = [];
    const end = this.to[parent]!;
    for (let child = parent + 1; child < end; child = this.next(child)) children.push(child);
    return children;
  }

  /** The first member of this name, or -1. `object` must be an object. */
  member(object: ValueIndex, name: Uint8Array): ValueIndex {
    const end = this.to[object]!;
    for (let key = object + 1; key < end; key = this.next(key + 1)) {
      if (this.isText(key, name)) return key + 1;
    }
    return -1;
  }

  /** Whether a string consists of these bytes. */
  isText(value: ValueIndex, text: Uint8Array): boolean {
    const from = this.from[value]!;
    const length = this.to[value]! - from;
    if (length !== text.length) return false;
    for (let index = 0; index < length; index++) {
      if (this.bytes[from + index] !== text[index]) return false;
    }
    return true;
  }

  /** The bytes of a string or number, a view. */
  bytesOf(value: ValueIndex): Uint8Array {
    return this.bytes.subarray(this.from[value], this.to[value]);
  }

  #peek(at: number): number {
    return at < this.#end ? this.bytes[at]! : 0;
  }

  #skipSpace(from: number): number {
    const { bytes } = this;
    const end = this.#end;
    let at = from;
    while (at < end) {
      const byte = bytes[at]!;
      if (byte !== 0x20 && byte !== 0x0a && byte !== 0x0d && byte !== 0x09) break;
      at++;
    }
    return at;
  }

  /** Adds the value at `at`; gives the position after it or, for a container, after its first bracket. */
  #value(at: number): number {
    switch (this.#peek(at)) {
      case QUOTE:
        return this.#string(at);
      case OPEN_OBJECT:
        return this.#open(KIND.object, at);
      case OPEN_ARRAY:
        return this.#open(KIND.array, at);
      case 0x74:
        return this.#word("true", KIND.true, at);
      case 0x66:
        return this.#word("false", KIND.false, at);
      case 0x6e:
        return this.#word("null", KIND.null, at);
      default:
        return this.#number(at);
    }
  }

  /** Goes on after a value to where the next one begins; -1 when the document is complete. */
  #finish(behind: number): number {
    let at = behind;
    let isNew = this.#isJustOpened();
    for (;;) {
      const parent = this.#parent;
      if (parent === NO_PARENT) return -1;
      at = this.#skipSpace(at);
      const byte = this.#peek(at);
      const isArray = this.kinds[parent] === KIND.array;
      if (!isNew) this.from[parent]!++;
      if (byte === (isArray ? CLOSE_ARRAY : CLOSE_OBJECT)) {
        this.#close(parent);
        at++;
        isNew = false;
        continue;
      }
      if (isNew) return isArray ? at : this.#key(at);
      if (byte !== COMMA) {
        throw new JsonSyntaxError(
          isArray
            ? "Missing a comma or ']' after an array element."
            : "Missing a comma or '}' after an object member.",
          at,
        );
      }
      at = this.#skipSpace(at + 1);
      return isArray ? at : this.#key(at);
    }
  }

  #isJustOpened(): boolean {
    return this.#parent !== NO_PARENT && this.#parent === this.#count - 1;
  }

  #open(kind: number, at: number): number {
    const value = this.#add(kind);
    this.from[value] = 0;
    this.to[value] = this.#parent;
    this.#parent = value;
    return at + 1;
  }

  #close(container: ValueIndex): void {
    this.#parent = this.to[container]!;
    this.to[container] = this.#count;
  }

  #key(at: number): number {
    if (this.#peek(at) !== QUOTE) {
      throw new JsonSyntaxError("Missing a name for object member.", at);
    }
    const colon = this.#skipSpace(this.#string(at));
    if (this.#peek(colon) !== COLON) {
      throw new JsonSyntaxError("Missing a colon after a name of object member.", colon);
    }
    return this.#skipSpace(colon + 1);
  }

  #string(quote: number): number {
    const value = this.#add(KIND.string);
    const from = quote + 1;
    const end = stringEnd(this.bytes, from, this.#end);
    this.from[value] = from;
    this.to[value] = end;
    return this.bytes[end] === QUOTE && end < this.#end ? end + 1 : this.#escaped(value, end);
  }

  /** Goes on at the first escape of a string, and moves what follows down. */
  #escaped(value: ValueIndex, first: number): number {
    const { bytes } = this;
    let written = first;
    let at = first;
    for (;;) {
      const escape = readEscape(bytes, at, this.#end);
      for (const byte of escape.bytes) bytes[written++] = byte;
      const next = stringEnd(bytes, escape.end, this.#end);
      bytes.copyWithin(written, escape.end, next);
      written += next - escape.end;
      at = next;
      if (at < this.#end && bytes[at] === QUOTE) break;
    }
    this.to[value] = written;
    return at + 1;
  }

  #number(at: number): number {
    const scanner = this.#scanner;
    if (this.#count === 0 && NO_VALUES.has(this.#peek(at))) {
      throw new JsonSyntaxError("The document is empty.", at);
    }
    scanner.scan(this.bytes, at, this.#end);
    const value = this.#add(scanner.kind === "integer" ? KIND.integer : KIND.double);
    this.from[value] = at;
    this.to[value] = scanner.end;
    this.numbers[value] = scanner.value;
    return scanner.end;
  }

  #word(word: string, kind: number, from: number): number {
    for (let index = 1; index < word.length; index++) {
      if (this.#peek(from + index) !== word.charCodeAt(index)) {
        throw new JsonSyntaxError("Invalid value.", from + index);
      }
    }
    this.#add(kind);
    return from + word.length;
  }

  #add(kind: number): ValueIndex {
    const value = this.#count++;
    if (value >= this.#room) this.#grow();
    this.kinds[value] = kind;
    return value;
  }

  #grow(): void {
    if (this.#count > this.#valuesMax) {
      throw new WinnowError(
        "RESOURCE_EXHAUSTED",
        `Cannot read a body of more than ${this.#valuesMax} JSON values`,
      );
    }
    const { kinds, from, to, numbers } = this;
    this.#allocate(kinds.length * 2);
    this.kinds.set(kinds);
    this.from.set(from);
    this.to.set(to);
    this.numbers.set(numbers);
  }

  #allocate(capacity: number): void {
    this.#room = Math.min(capacity, this.#valuesMax);
    this.kinds = new Uint8Array(capacity);
    this.from = new Int32Array(capacity);
    this.to = new Int32Array(capacity);
    this.numbers = new Float64Array(capacity);
  }
}
