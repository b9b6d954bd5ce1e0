// Texts of a page, or of a dictionary: the bytes that hold them, and where each begins and ends. An array of views would take
// a hundred bytes for each, and a page of some KiB may unpack to millions of empty ones.

/** Texts by number. */
export class PageTexts {
  readonly #bytes: Uint8Array;
  readonly #starts: Uint32Array;
  readonly #ends: Uint32Array;

  constructor(bytes: Uint8Array, starts: Uint32Array, ends: Uint32Array) {
    this.#bytes = bytes;
    this.#starts = starts;
    this.#ends = ends;
  }

  /** Texts one after the other, each behind its length; `undefined` where the bytes are not as many of them. */
  static ofPlain(bytes: Uint8Array, count: number): PageTexts | undefined {
    const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
    const starts = new Uint32Array(count);
    const ends = new Uint32Array(count);
    let at = 0;
    for (let text = 0; text < count; text += 1) {
      if (at + 4 > bytes.length) return undefined;
      const start = at + 4;
      at = start + view.getUint32(at, true);
      if (at > bytes.length) return undefined;
      starts[text] = start;
      ends[text] = at;
    }
    return new PageTexts(bytes, starts, ends);
  }

  get length(): number {
    return this.#starts.length;
  }

  /** A view of a text's bytes. */
  at(text: number): Uint8Array {
    return this.#bytes.subarray(this.#starts[text], this.#ends[text]);
  }

  /** Where a text begins: the same for all that were taken from one entry of a dictionary, different for others. */
  startOf(text: number): number {
    return this.#starts[text]!;
  }

  /** The texts at positions, each below `length`. */
  take(positions: Uint32Array): PageTexts {
    const starts = positions.map((position) => this.#starts[position]!);
    return new PageTexts(
      this.#bytes,
      starts,
      positions.map((position) => this.#ends[position]!),
    );
  }
}
