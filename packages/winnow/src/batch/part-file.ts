// The unfinished output, `<output>.part`. Only whole lines count: their number says where a job goes on, a line that was
// cut is dropped. The output itself appears when all lines are there, by a rename.

import { type FileHandle, open } from "node:fs/promises";
import { ERROR_LINE_START } from "./ordered-job.ts";

/** What a file of lines holds. */
export interface WholeLines {
  readonly lines: number;
  readonly errors: number;
  /** Bytes up to the end of the last whole line. */
  readonly bytes: number;
}

const READ_BYTES = 1 << 20;
const LINE_BREAK = 0x0a;
const ERROR_START = Buffer.from(ERROR_LINE_START);

/** Counts whole lines, chunk by chunk. */
export class LineCount {
  #lines = 0;
  #errors = 0;
  #bytes = 0;
  #read = 0;
  /** Beginning of the line that no chunk has ended yet. */
  #start = Buffer.alloc(0);

  /** Takes the next chunk; it is not kept. */
  take(chunk: Buffer): void {
    for (let from = 0; from < chunk.length;) {
      const found = chunk.indexOf(LINE_BREAK, from);
      const end = found < 0 ? chunk.length : found;
      const missing = ERROR_START.length - this.#start.length;
      if (missing > 0) {
        const further = chunk.subarray(from, Math.min(end, from + missing));
        this.#start = Buffer.concat([this.#start, further]);
      }
      if (found < 0) break;
      this.#lines += 1;
      if (this.#start.equals(ERROR_START)) this.#errors += 1;
      this.#bytes = this.#read + found + 1;
      this.#start = Buffer.alloc(0);
      from = found + 1;
    }
    this.#read += chunk.length;
  }

  /** What was counted. */
  get whole(): WholeLines {
    return { lines: this.#lines, errors: this.#errors, bytes: this.#bytes };
  }
}

/** An open file to which whole lines are added. */
export class PartFile {
  readonly #handle: FileHandle;
  readonly before: WholeLines;
  #end: number;

  private constructor(handle: FileHandle, before: WholeLines) {
    this.#handle = handle;
    this.before = before;
    this.#end = before.bytes;
  }

  /** Makes a file; there must be none. @throws Error of the system */
  static async create(file: string): Promise<PartFile> {
    return new PartFile(await open(file, "wx"), new LineCount().whole);
  }

  /** Goes on with a file behind its last whole line. @throws Error of the system */
  static async continue(file: string): Promise<PartFile> {
    const handle = await open(file, "r+");
    const count = new LineCount();
    const buffer = Buffer.alloc(READ_BYTES);
    for (;;) {
      const { bytesRead } = await handle.read(buffer, 0, READ_BYTES);
      if (bytesRead === 0) break;
      count.take(buffer.subarray(0, bytesRead));
    }
    await handle.truncate(count.whole.bytes);
    return new PartFile(handle, count.whole);
  }

  /** Adds lines. @throws Error of the system; what it wrote of them is not counted by the next job, if it is no line */
  async add(text: string): Promise<void> {
    const bytes = Buffer.from(text);
    for (let at = 0; at < bytes.length;) {
      const { bytesWritten } = await this.#handle.write(bytes, at, bytes.length - at, this.#end);
      at += bytesWritten;
      this.#end += bytesWritten;
    }
  }

  /** Closes the file, and has the disk hold it. @throws Error of the system */
  async close(): Promise<void> {
    try {
      await this.#handle.sync();
    } finally {
      await this.#handle.close();
    }
  }
}
