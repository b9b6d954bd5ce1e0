// JSON into one growing buffer, laid out as RapidJSON's PrettyWriter does with an indent of four: every value
// on its own line, except inside arrays while `singleLine` is set, where ", " joins them. Objects break lines
// even there, indented by their depth.

import { WinnowError } from "@winnow/core";

const ESCAPE_LETTERS: ReadonlyMap<number, string> = new Map([
  [0x22, '"'],
  [0x5c, "\\"],
  [0x08, "b"],
  [0x09, "t"],
  [0x0a, "n"],
  [0x0c, "f"],
  [0x0d, "r"],
]);
const IS_ESCAPED: Uint8Array = Uint8Array.from({ length: 256 }, (_, byte) =>
  byte < 0x20 || ESCAPE_LETTERS.has(byte) ? 1 : 0,
);
const QUOTE = 0x22;
const SPACE = 0x20;
const INDENT = 4;
const FIRST_BYTES = 1024;
const SHARED_BYTES_MAX = 2048;
const SHORT_BYTES = 48;
/** The longest escape of a byte is `\u001F`. */
const ESCAPED_BYTES_MAX = 6;

interface Level {
  readonly isArray: boolean;
  /** Values written at this level; the name and the value of a member count one each. */
  count: number;
}

/** Builds one JSON text. */
export class JsonWriter {
  /** Whether elements of arrays share a line. */
  singleLine = false;
  /** The text written so far is before `at`; code that writes directly calls `reserve` first. */
  buffer: Buffer;
  at = 0;

  readonly #bytesMax: number;
  readonly #levels: Level[] = [];

  /** `bytes`: a guess of the size; `bytesMax`: the largest size. */
  constructor(options: { readonly bytes?: number; readonly bytesMax?: number } = {}) {
    const bytes = options.bytes ?? FIRST_BYTES;
    // A short text shares a block of memory with others, which is freed with the last of them.
    this.buffer =
      bytes <= SHARED_BYTES_MAX ? Buffer.allocUnsafe(bytes) : Buffer.allocUnsafeSlow(bytes);
    this.#bytesMax = options.bytesMax ?? Infinity;
  }

  /** The text written so far, as a view. */
  finish(): Buffer {
    return this.buffer.subarray(0, this.at);
  }

  /** Makes room for `bytes` more. @throws WinnowError RESOURCE_EXHAUSTED beyond `bytesMax`. */
  reserve(bytes: number): void {
    const needed = this.at + bytes;
    if (needed <= this.buffer.length) return;
    if (needed > this.#bytesMax) {
      throw new WinnowError(
        "RESOURCE_EXHAUSTED",
        `Cannot write an answer of more than ${this.#bytesMax} bytes; ask for less at once`,
      );
    }
    const larger = Buffer.allocUnsafeSlow(Math.max(needed, this.buffer.length * 2));
    this.buffer.copy(larger, 0, 0, this.at);
    this.buffer = larger;
  }

  /** Opens an array or object as the next value. */
  open(bracket: "[" | "{"): void {
    this.raw(bracket);
    this.#levels.push({ isArray: bracket === "[", count: 0 });
  }

  /** Ends the innermost array or object. */
  close(): void {
    const level = this.#levels.pop()!;
    if (level.count > 0 && !(level.isArray && this.singleLine)) this.#newLine();
    this.#ascii(level.isArray ? "]" : "}");
  }

  /** Writes a value whose ASCII text is known: a number or a word. */
  raw(text: string): void {
    this.beginValue();
    this.#ascii(text);
  }

  /** Writes a value that is JSON already. */
  json(bytes: Uint8Array): void {
    this.beginValue();
    this.reserve(bytes.length);
    this.buffer.set(bytes, this.at);
    this.at += bytes.length;
  }

  /** Writes a string, or the name of a member, from bytes that need not be UTF-8. */
  string(bytes: Uint8Array): void {
    this.beginValue();
    this.stringBytes(bytes, 0, bytes.length);
  }

  /** A string from text. */
  text(text: string): void {
    this.string(Buffer.from(text, "utf8"));
  }

  /** Writes what precedes a value: comma, colon, line break, indent. */
  beginValue(): void {
    const level = this.#levels.at(-1);
    if (level === undefined) return;
    const isFirst = level.count === 0;
    const isMemberValue = !level.isArray && level.count % 2 === 1;
    level.count++;
    if (isMemberValue) return this.#ascii(": ");
    if (level.isArray && this.singleLine) {
      if (!isFirst) this.#ascii(", ");
      return;
    }
    if (!isFirst) this.#ascii(",");
    this.#newLine();
  }

  /** Notes that `count` values were written directly into the innermost array. */
  countDirect(count: number): void {
    const level = this.#levels.at(-1);
    if (level !== undefined) level.count += count;
  }

  /** Number of open arrays and objects. */
  get depth(): number {
    return this.#levels.length;
  }

  /** Writes a quoted string, without what precedes it. */
  stringBytes(source: Uint8Array, from: number, to: number): void {
    this.reserve((to - from) * ESCAPED_BYTES_MAX + 2);
    const { buffer } = this;
    let at = this.at;
    buffer[at++] = QUOTE;
    if (to - from > SHORT_BYTES) {
      at = this.#longString(source.subarray(from, to), at);
    } else {
      for (let index = from; index < to; index++) {
        const byte = source[index]!;
        if (IS_ESCAPED[byte] === 1) at = writeEscape(buffer, at, byte);
        else buffer[at++] = byte;
      }
    }
    buffer[at++] = QUOTE;
    this.at = at;
  }

  /** Copies runs of bytes that need no escape. */
  #longString(source: Uint8Array, position: number): number {
    const { buffer } = this;
    let at = position;
    let run = 0;
    for (let index = 0; index < source.length; index++) {
      const byte = source[index]!;
      if (IS_ESCAPED[byte] === 0) continue;
      buffer.set(source.subarray(run, index), at);
      at = writeEscape(buffer, at + index - run, byte);
      run = index + 1;
    }
    buffer.set(source.subarray(run), at);
    return at + source.length - run;
  }

  #ascii(text: string): void {
    this.reserve(text.length);
    for (let index = 0; index < text.length; index++) {
      this.buffer[this.at + index] = text.charCodeAt(index);
    }
    this.at += text.length;
  }

  #newLine(): void {
    const spaces = this.#levels.length * INDENT;
    this.reserve(spaces + 1);
    this.buffer[this.at] = 0x0a;
    this.buffer.fill(SPACE, this.at + 1, this.at + 1 + spaces);
    this.at += spaces + 1;
  }
}

function writeEscape(buffer: Buffer, at: number, byte: number): number {
  const letter = ESCAPE_LETTERS.get(byte);
  const escape =
    letter === undefined ? `u00${byte.toString(16).toUpperCase().padStart(2, "0")}` : letter;
  return at + buffer.write(`\\${escape}`, at, "latin1");
}
