// The lines of an input of any size: chunks of bytes in, lines out. At most one line is held, and of a line beyond the
// limit nothing but its number, so a file without line breaks takes no more memory than any other.

/** A line of the input. */
export interface InputLine {
  /** Counted from 1, empty lines too. */
  readonly number: number;
  /** Without the line break; `undefined` for a line beyond the limit. */
  readonly bytes: Buffer | undefined;
  /** Bytes of the input up to and with this line. */
  readonly endByte: number;
}

const LINE_BREAK = 0x0a;

/** Cuts the input into lines; each result has the lines that one chunk ends, and the last one what no line break ends. */
export async function* linesOf(
  chunks: AsyncIterable<Buffer>,
  lineBytesMax: number,
): AsyncGenerator<readonly InputLine[], void> {
  const cutter = new LineCutter(lineBytesMax);
  for await (const chunk of chunks) yield cutter.take(chunk);
  yield cutter.end();
}

class LineCutter {
  readonly #bytesMax: number;
  #number = 0;
  #endByte = 0;
  /** The pieces of the line that has begun; dropped once they are too many. */
  #pieces: Buffer[] = [];
  #bytes = 0;

  constructor(bytesMax: number) {
    this.#bytesMax = bytesMax;
  }

  take(chunk: Buffer): InputLine[] {
    const lines: InputLine[] = [];
    let start = 0;
    for (;;) {
      const at = chunk.indexOf(LINE_BREAK, start);
      if (at < 0) break;
      this.#add(chunk.subarray(start, at));
      lines.push(this.#cut(1));
      start = at + 1;
    }
    if (start < chunk.length) this.#add(chunk.subarray(start));
    return lines;
  }

  end(): InputLine[] {
    return this.#bytes === 0 ? [] : [this.#cut(0)];
  }

  #add(piece: Buffer): void {
    this.#bytes += piece.length;
    if (this.#bytes > this.#bytesMax) this.#pieces = [];
    else this.#pieces.push(piece);
  }

  #cut(breakBytes: number): InputLine {
    const isTooLong = this.#bytes > this.#bytesMax;
    const bytes = this.#pieces.length === 1 ? this.#pieces[0]! : Buffer.concat(this.#pieces);
    this.#number += 1;
    this.#endByte += this.#bytes + breakBytes;
    this.#pieces = [];
    this.#bytes = 0;
    return { number: this.#number, bytes: isTooLong ? undefined : bytes, endByte: this.#endByte };
  }
}
