// Reads objects in parts of 4 MiB, several at once, and ahead of the reader as far as it has said that it will
// go: a request takes tens of milliseconds before its first byte, whatever it asks for.
//
//   expected  ├────────────────────────────────────────┤
//   parts     │ read │ asked │ under way │ under way │  not yet
//                    ▲ the reader

import type { ObjectBucket } from "@winnow/core";
import type { ByteRange, ObjectStore, StoredObject } from "./object-store.ts";

/** Bytes of one request, at most. */
const PART_BYTES = 2 ** 22;
/** Read ahead of the reader, at most. */
const AHEAD_BYTES = 6 * PART_BYTES;
/** Stretches whose parts are kept: a reader may go through several tensors side by side. */
const STRETCHES_MAX = 4;

/** What is to be read, and the stretch around it that will be. */
export interface PartsQuestion {
  readonly bucket: ObjectBucket;
  readonly object: Pick<StoredObject, "key" | "etag">;
  readonly start: number;
  /** Contains what is read; the same for all reads of the stretch. */
  readonly expected: ByteRange;
}

/** Parts of one stretch by number, asked for and not yet passed by the reader. */
type Parts = Map<number, Promise<Uint8Array>>;

/** Parts of the stretches read last. */
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
        // One that is read ahead may fail before anybody waits for it.
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
      // Asked for anew when the read is tried again.
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
