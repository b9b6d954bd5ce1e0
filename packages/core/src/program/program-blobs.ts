// The two halves of an encoded program: a JSON header, and the blobs it points into.
//
//   u32 magic │ u32 header bytes │ header (JSON, UTF-8) │ padding to 8 │ blob │ padding │ blob …
//
// A blob reference in the header is [offset, bytes], counted from the first blob. Blobs are
// little-endian and begin at multiples of 8, so that an array is one copy. Everything that is read
// is checked, because the bytes come over a network.

import { WinnowError } from "../errors/errors.ts";

/** Position and size of a blob, `[offset, bytes]`. */
export type BlobReference = readonly [number, number];

const MAGIC = 0x314e4e57;
const PREFIX_BYTES = 8;
const ALIGNMENT = 8;
const HEADER_BYTES_MAX = 2 ** 28;

const aligned = (bytes: number): number => Math.ceil(bytes / ALIGNMENT) * ALIGNMENT;

/** Collects blobs while the header is made. */
export class BlobWriter {
  readonly #blobs: Uint8Array[] = [];
  #bytes = 0;

  /** Adds the bytes of an array; they are copied by `finish`. */
  add(array: {
    readonly buffer: ArrayBufferLike;
    readonly byteOffset: number;
    readonly byteLength: number;
  }): BlobReference {
    const blob = new Uint8Array(array.buffer, array.byteOffset, array.byteLength);
    const reference = [this.#bytes, blob.length] as const;
    this.#blobs.push(blob);
    this.#bytes += aligned(blob.length);
    return reference;
  }

  /** Header and blobs as one message. */
  finish(header: unknown): Uint8Array {
    const text = new TextEncoder().encode(JSON.stringify(header));
    const start = aligned(PREFIX_BYTES + text.length);
    const message = new Uint8Array(start + this.#bytes);
    const view = new DataView(message.buffer);
    view.setUint32(0, MAGIC, true);
    view.setUint32(4, text.length, true);
    message.set(text, PREFIX_BYTES);
    let at = start;
    for (const blob of this.#blobs) {
      message.set(blob, at);
      at += aligned(blob.length);
    }
    return message;
  }
}

/** Splits a message into its header and its blobs. */
export class BlobReader {
  readonly header: unknown;
  readonly #blobs: Uint8Array;

  /** @throws WinnowError DATA_LOSS */
  constructor(message: Uint8Array) {
    if (message.length < PREFIX_BYTES) throw damaged("it is shorter than its prefix");
    const view = new DataView(message.buffer, message.byteOffset, message.byteLength);
    if (view.getUint32(0, true) !== MAGIC) throw damaged("it does not start as a program does");
    const headerBytes = view.getUint32(4, true);
    const start = aligned(PREFIX_BYTES + headerBytes);
    if (headerBytes > HEADER_BYTES_MAX || start > message.length)
      throw damaged("its header is cut off");
    this.header = parsed(message.subarray(PREFIX_BYTES, PREFIX_BYTES + headerBytes));
    this.#blobs = message.subarray(start);
  }

  /** A copy of a blob, at an aligned address. @throws WinnowError DATA_LOSS */
  copy(reference: BlobReference): ArrayBuffer {
    return new Uint8Array(this.#at(reference)).buffer;
  }

  /**
   * The bytes of a blob: a copy, or, of one that is most of the message, its place in there. Copying hundreds of
   * megabytes takes a tenth of a second for each, and keeping so little besides costs less.
   * @throws WinnowError DATA_LOSS
   */
  bytes(reference: BlobReference): Uint8Array {
    const blob = this.#at(reference);
    return 2 * blob.length > this.#blobs.length ? blob : new Uint8Array(blob);
  }

  #at([offset, bytes]: BlobReference): Uint8Array {
    const isInside = offset % ALIGNMENT === 0 && offset + bytes <= this.#blobs.length;
    if (!isInside) throw damaged(`a blob of ${bytes} bytes at ${offset} lies outside of it`);
    return this.#blobs.subarray(offset, offset + bytes);
  }
}

function parsed(bytes: Uint8Array): unknown {
  try {
    return JSON.parse(new TextDecoder("utf-8", { fatal: true }).decode(bytes)) as unknown;
  } catch (error) {
    throw damaged("its header is not JSON", error);
  }
}

/** The error for a message that no encoder wrote. */
export function damaged(reason: string, cause?: unknown): WinnowError {
  return new WinnowError("DATA_LOSS", `Cannot decode the program: ${reason}`, { cause });
}
