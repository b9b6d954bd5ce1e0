// Reads objects in parts of 4 MiB, several at a time, ahead of the reader but not beyond the stretch that it
// has announced: a request takes tens of milliseconds before its first byte, whatever its size.
//
//   expected  ├────────────────────────────────────────┤
//   parts     │ read │ asked │ under way │ under way │  not yet
//                    ▲ the reader

import type { ObjectBucket } from "@winnow/core";
import type { ByteRange, ObjectStore, StoredObject } from "./object-store.ts";

/** Bytes of one request, at most. */
const PART_BYTES = 2 ** 22;
/** Bytes that are read ahead of the reader, at most. */
const AHEAD_BYTES = 6 * PART_BYTES;
/** Stretches whose parts are kept: a reader may read several tensors at the same time. */
const STRETCHES_MAX = 4;

/** A range to read, and the stretch around it that is expected to be read. */
export interface PartsQuestion {
  readonly bucket: ObjectBucket;
  readonly object: Pick<StoredObject, "key" | "etag">;
  readonly start: number;
  /** Contains the range; equal for all reads of one stretch. */
  readonly expected: ByteRange;
}

/** Parts of one stretch by number, requested and not yet passed by the reader. */
type Parts = Map<number, Promise<Uint8Array>>;

/** Parts of the stretches that were read last. */
export class RangeParts {
  readonly #store: Pick<ObjectStore, "read">;
  readonly #stretches = new Map<string, Parts>();

  constructor(store: Pick<ObjectStore, "read">) {
    this.#store = store;
  }

  /** Fills `target` from a position of an object. @throws WinnowError as the store does */
  async read(question: PartsQuestion, target: Uint8Array): Promise<void> {
    const { bucket, object, start, expected } = question;
    const name = JSON.stringify([
      bucket.scheme,
      bucket.bucket,
      object.key,
      object.etag,
      expected.start,
      expected.end,
    ]);
    const parts = this.#partsOf(name);
    const end = start + target.length;
    const askedEnd = Math.min(expected.end, end + AHEAD_BYTES);
    const first = Math.floor((start - expected.start) / PART_BYTES);
    try {
      for (let part = first; rangeOf(part, expected).start < askedEnd; part += 1) {
        if (parts.has(part)) continue;
        const bytes = this.#store.read(bucket, object, rangeOf(part, expected));
        // A part that is read ahead may fail before anybody waits for it.
        bytes.catch(() => undefined);
        parts.set(part, bytes);
      }
      for (let part = first; rangeOf(part, expected).start < end; part += 1) {
        const range = rangeOf(part, expected);
        const bytes = await parts.get(part)!;
        const from = Math.max(start, range.start);
        const to = Math.min(end, range.end);
        target.set(bytes.subarray(from - range.start, to - range.start), from - start);
        if (range.end <= end) parts.delete(part);
      }
      if (end === expected.end) this.#stretches.delete(name);
    } catch (error) {
      // Requested again when the read is repeated.
      this.#stretches.delete(name);
      throw error;
    }
  }

  #partsOf(name: string): Parts {
    const parts = this.#stretches.get(name) ?? new Map<number, Promise<Uint8Array>>();
    this.#stretches.delete(name);
    this.#stretches.set(name, parts);
    if (this.#stretches.size > STRETCHES_MAX) {
      const [oldest] = this.#stretches.keys();
      this.#stretches.delete(oldest!);
    }
    return parts;
  }
}

function rangeOf(part: number, expected: ByteRange): ByteRange {
  const start = expected.start + part * PART_BYTES;
  return { start, end: Math.min(expected.end, start + PART_BYTES) };
}
