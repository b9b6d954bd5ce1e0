// Many byte strings in two typed arrays. TensorFlow strings are bytes, not text. A column has no
// object per string: a vocabulary of ten million keys takes its bytes plus four bytes per key, is
// sliced without copying, and goes to threads and the wire as it is in memory.
//
//   offsets: [0, 3, 3, 8]      bytes: t h e w o r l d       → "the", "", "world"

import { WinnowError } from "../errors/errors.ts";

const encoder = new TextEncoder();
const decoder = new TextDecoder("utf-8", { ignoreBOM: true });
const BYTES_MAX = 2 ** 32 - 1;

/** An immutable sequence of byte strings. */
export class StringColumn {
  /** `length + 1` ascending positions in `bytes`; the first need not be 0 in a slice. */
  readonly offsets: Uint32Array;
  readonly bytes: Uint8Array;

  /** Wraps arrays without a copy; the caller must not change them after that. */
  constructor(offsets: Uint32Array, bytes: Uint8Array) {
    this.offsets = offsets;
    this.bytes = bytes;
  }

  /** Encodes JavaScript strings as UTF-8. */
  static fromText(texts: readonly string[]): StringColumn {
    const blocks: StringColumn[] = [];
    for (let from = 0; from < texts.length;) {
      const end = endOfBlock(texts, from);
      blocks.push(
        encoded(blocks.length === 0 && end === texts.length ? texts : texts.slice(from, end)),
      );
      from = end;
    }
    return blocks.length === 1 ? blocks[0]! : StringColumn.joined(blocks);
  }

  /** Joins byte strings. @throws WinnowError RESOURCE_EXHAUSTED over 4 GiB in all. */
  static fromBytes(strings: readonly Uint8Array[]): StringColumn {
    const offsets = new Uint32Array(strings.length + 1);
    let end = 0;
    for (let index = 0; index < strings.length; index += 1) {
      end += strings[index]!.length;
      if (end > BYTES_MAX) throw tooLong();
      offsets[index + 1] = end;
    }
    const bytes = new Uint8Array(end);
    for (let index = 0; index < strings.length; index += 1) {
      bytes.set(strings[index]!, offsets[index]);
    }
    return new StringColumn(offsets, bytes);
  }

  /** Parts of some bytes, as a copy: two positions each, the first included and the second not. */
  static ofParts(source: Uint8Array, places: readonly number[]): StringColumn {
    const offsets = new Uint32Array(places.length / 2 + 1);
    for (let part = 0; 2 * part < places.length; part += 1) {
      offsets[part + 1] = offsets[part]! + places[2 * part + 1]! - places[2 * part]!;
    }
    const bytes = new Uint8Array(offsets.at(-1)!);
    for (let part = 0; 2 * part < places.length; part += 1) {
      const length = offsets[part + 1]! - offsets[part]!;
      copyPart(source, bytes, { first: places[2 * part]!, to: offsets[part]!, length });
    }
    return new StringColumn(offsets, bytes);
  }

  /** One column after the other, as a copy. @throws WinnowError RESOURCE_EXHAUSTED over 4 GiB in all. */
  static joined(columns: readonly StringColumn[]): StringColumn {
    const steps = StringColumn.joining(columns);
    let step = steps.next();
    while (step.done !== true) step = steps.next();
    return step.value;
  }

  /** As `joined`, but pauses after each column and gives the bytes that it has copied of it. */
  static *joining(columns: readonly StringColumn[]): Generator<number, StringColumn> {
    const end = columns.reduce((sum, { byteLength }) => sum + byteLength, 0);
    if (end > BYTES_MAX) throw tooLong();
    const offsets = new Uint32Array(columns.reduce((sum, { length }) => sum + length, 1));
    const bytes = new Uint8Array(end);
    let count = 0;
    for (const column of columns) {
      const { offsets: own, length, byteLength } = column;
      const [first, at] = [own[0]!, offsets[count]!];
      bytes.set(column.bytes.subarray(first, first + byteLength), at);
      for (let index = 1; index <= length; index += 1) {
        offsets[count + index] = at + own[index]! - first;
      }
      count += length;
      yield byteLength + 4 * length;
    }
    return new StringColumn(offsets, bytes);
  }

  /** Number of strings. */
  get length(): number {
    return this.offsets.length - 1;
  }

  /** Bytes of all strings of this column together. */
  get byteLength(): number {
    return this.offsets[this.length]! - this.offsets[0]!;
  }

  /** Bytes of one string of the column. */
  lengthAt(index: number): number {
    return this.offsets[index + 1]! - this.offsets[index]!;
  }

  /** The bytes of one string, a view. @throws RangeError outside the column. */
  at(index: number): Uint8Array {
    if (index < 0 || index >= this.length) throw this.#outside(index);
    return this.bytes.subarray(this.offsets[index], this.offsets[index + 1]);
  }

  /** One string as UTF-8 text; invalid bytes become U+FFFD. For messages, never for keys. */
  textAt(index: number): string {
    return decoder.decode(this.at(index));
  }

  /** All strings as text, see `textAt`. */
  toText(): string[] {
    return Array.from({ length: this.length }, (_, index) => this.textAt(index));
  }

  /** Strings `from` (included) to `to` (excluded), sharing this column's bytes. */
  slice(from: number, to: number): StringColumn {
    return new StringColumn(this.offsets.subarray(from, to + 1), this.bytes);
  }

  /** The strings at these positions, in this order, as a copy. */
  take(indices: ArrayLike<number>): StringColumn {
    const offsets = new Uint32Array(indices.length + 1);
    let end = 0;
    for (let at = 0; at < indices.length; at += 1) {
      const index = indices[at]!;
      if (index < 0 || index >= this.length) throw this.#outside(index);
      end += this.offsets[index + 1]! - this.offsets[index]!;
      if (end > BYTES_MAX) throw tooLong();
      offsets[at + 1] = end;
    }
    const bytes = new Uint8Array(end);
    for (let at = 0; at < indices.length; at += 1) {
      const [first, to] = [this.offsets[indices[at]!]!, offsets[at]!];
      const length = offsets[at + 1]! - to;
      copyPart(this.bytes, bytes, { first, to, length });
    }
    return new StringColumn(offsets, bytes);
  }

  #outside(index: number): RangeError {
    return new RangeError(`string ${index} of a column of ${this.length}`);
  }
}

function copyPart(
  source: Uint8Array,
  target: Uint8Array,
  { first, to, length }: { readonly first: number; readonly to: number; readonly length: number },
): void {
  if (length > SHORT_BYTES) target.set(source.subarray(first, first + length), to);
  else for (let byte = 0; byte < length; byte += 1) target[to + byte] = source[first + byte]!;
}

/** Strings up to this length are copied byte by byte: that takes less than a view of them. */
const SHORT_BYTES = 64;

const tooLong = (): WinnowError =>
  new WinnowError("RESOURCE_EXHAUSTED", "A column of strings holds at most 4 GiB");

/** Texts that are encoded at once, at most, and their characters. */
const BLOCK_TEXTS = 2 ** 16;
const BLOCK_LENGTH = 2 ** 22;

/** The end of the texts from `from` on that are encoded at once: one at least. */
function endOfBlock(texts: readonly string[], from: number): number {
  let length = texts[from]!.length;
  let end = from + 1;
  while (end < texts.length && end - from < BLOCK_TEXTS) {
    length += texts[end]!.length;
    if (length > BLOCK_LENGTH) break;
    end += 1;
  }
  return end;
}

/** The column of a block. Texts that are all ASCII are encoded at once: an array for each costs more than its bytes. */
function encoded(texts: readonly string[]): StringColumn {
  const offsets = new Uint32Array(texts.length + 1);
  let end = 0;
  for (let index = 0; index < texts.length; index += 1) {
    end += texts[index]!.length;
    offsets[index + 1] = end;
  }
  const bytes = encoder.encode(texts.join(""));
  // Every character that is not ASCII takes more bytes than it counts.
  if (bytes.length === end) return new StringColumn(offsets, bytes);
  return StringColumn.fromBytes(texts.map((text) => encoder.encode(text)));
}
