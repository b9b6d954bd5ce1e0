// Writes a checkpoint as a stream: tensors go to the data files one after the other, checksums are
// computed on the way, and the index is written last. Memory holds one piece, whatever a table's
// size.

import { closeSync, openSync, writeFileSync, writeSync } from "node:fs";
import path from "node:path";
import {
  ProtobufWriter,
  elementCount,
  extendRegister,
  makeDirectorySync,
  maskChecksum,
  type StringColumn,
} from "@winnow/core";
import { columnBytes, dataFileName, encodeStringHeader } from "@winnow/model";
import { numberOfDtype, sliceKeyOf } from "@winnow/model";
import type { StoredDtype } from "@winnow/model";
import { type WrittenEntry, encodeTable } from "./table-writer.ts";

const encoder = new TextEncoder();
const WRITE_BYTES_MAX = 2 ** 28;
/** `VersionDef` of the tensor bundle format. */
const PRODUCER = 1;

/** A tensor to be written, or a slice of one. */
export interface WrittenTensor {
  readonly key: string;
  readonly shape: readonly number[];
  /** Of a slice: where it begins in the tensor of this key, and that tensor's shape. */
  readonly sliceOf?: { readonly shape: readonly number[]; readonly start: readonly number[] };
  readonly content:
    | { readonly kind: "strings"; readonly strings: StringColumn }
    | {
        readonly kind: "numbers";
        readonly dtype: Exclude<StoredDtype, "string">;
        /** Values in row-major order, in pieces of any size; half and bfloat16 as uint16. */
        readonly pieces: () => Iterable<ArrayBufferView>;
      };
}

/** A checkpoint being written. `finish()` or `abandon()` ends it. */
export class BundleWriter {
  readonly #directory: string;
  readonly #parts: number;
  readonly #handles: number[];
  readonly #offsets: number[];
  readonly #entries: WrittenEntry[] = [];
  /** Slices written so far, by the key of their tensor. */
  readonly #slices = new Map<string, WrittenTensor[]>();
  #next = 0;

  /** Creates `directory`/variables with this many data files, which tensors fill in rotation. */
  constructor(directory: string, parts: number) {
    makeDirectorySync(path.join(directory, "variables"));
    this.#directory = directory;
    this.#parts = parts;
    this.#offsets = Array.from({ length: parts }, () => 0);
    this.#handles = this.#offsets.map((_, part) =>
      openSync(path.join(directory, dataFileName(part, parts)), "w"),
    );
  }

  /** Appends a tensor. @throws RangeError when the pieces do not fill the shape */
  write(tensor: WrittenTensor): void {
    const part = this.#next % this.#parts;
    this.#next += 1;
    const offset = this.#offsets[part]!;
    const register = this.#writeContent(tensor, part);
    const size = this.#offsets[part]! - offset;
    const { content } = tensor;
    const dtype = content.kind === "strings" ? "string" : content.dtype;
    const entry = headOf(dtype, tensor.shape)
      .int(3, part)
      .int(4, offset)
      .int(5, size)
      .fixed32(6, maskChecksum(~register >>> 0));
    const { sliceOf, shape } = tensor;
    if (sliceOf === undefined) {
      this.#entries.push({ key: encoder.encode(tensor.key), value: entry.finish() });
      return;
    }
    const key = sliceKeyOf(tensor.key, { start: sliceOf.start, length: shape });
    this.#entries.push({ key, value: entry.finish() });
    this.#slices.set(tensor.key, [...(this.#slices.get(tensor.key) ?? []), tensor]);
  }

  /** Writes the index. */
  finish(): void {
    this.#close();
    const header = new ProtobufWriter()
      .int(1, this.#parts)
      .message(3, (version) => version.int(1, PRODUCER));
    const entries = [...this.#entries];
    for (const [key, slices] of this.#slices) {
      entries.push({ key: encoder.encode(key), value: wholeEntryOf(slices) });
    }
    entries.push({ key: new Uint8Array(), value: header.finish() });
    entries.sort((a, b) => Buffer.compare(a.key, b.key));
    writeFileSync(path.join(this.#directory, "variables/variables.index"), encodeTable(entries));
  }

  /** Closes the data files after a failure. */
  abandon(): void {
    this.#close();
  }

  #writeContent({ key, shape, content }: WrittenTensor, part: number): number {
    if (content.kind === "strings") {
      const { header, register } = encodeStringHeader(content.strings);
      const bytes = columnBytes(content.strings);
      this.#append(part, header);
      this.#append(part, bytes);
      return extendRegister(register, bytes);
    }
    let register = -1;
    let elements = 0;
    for (const piece of content.pieces()) {
      const bytes = new Uint8Array(piece.buffer, piece.byteOffset, piece.byteLength);
      this.#append(part, bytes);
      register = extendRegister(register, bytes);
      elements += (piece as Float32Array).length;
    }
    if (elements !== elementCount(shape)) {
      throw new RangeError(`${elements} values for ${key} of shape [${shape.join(",")}]`);
    }
    return register;
  }

  #append(part: number, bytes: Uint8Array): void {
    for (let done = 0; done < bytes.length;) {
      const length = Math.min(WRITE_BYTES_MAX, bytes.length - done);
      done += writeSync(this.#handles[part]!, bytes, done, length);
    }
    this.#offsets[part]! += bytes.length;
  }

  #close(): void {
    for (const handle of this.#handles.splice(0)) closeSync(handle);
  }
}

function headOf(dtype: StoredDtype, shape: readonly number[]): ProtobufWriter {
  return new ProtobufWriter().int(1, numberOfDtype(dtype)).message(2, (message) => {
    for (const length of shape) message.message(2, (dim) => dim.int(1, length));
  });
}

/** The entry of a tensor that is stored in slices: its type and shape, and which slices there are. */
function wholeEntryOf(slices: readonly WrittenTensor[]): Uint8Array {
  const { content, sliceOf } = slices[0]!;
  const entry = headOf(content.kind === "strings" ? "string" : content.dtype, sliceOf!.shape);
  for (const { shape, sliceOf: place } of slices) {
    entry.message(7, (slice) => {
      for (const [axis, length] of shape.entries()) {
        slice.message(1, (extent) => extent.int(1, place!.start[axis]!).int(2, length));
      }
    });
  }
  return entry.finish();
}
