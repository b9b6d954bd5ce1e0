// Copies bytes: for the few bytes of an id, a loop is several times as fast as a view and `set`.

const LOOP_BYTES_MAX = 48;

/** A part of some bytes: `bytes[from, to)`. */
export interface ByteSpan {
  readonly bytes: Uint8Array;
  readonly from: number;
  readonly to: number;
}

/** Copies a span to `at` in `target`, which has room for it; gives the position after it. */
export function copyBytes(target: Uint8Array, at: number, { bytes, from, to }: ByteSpan): number {
  if (to - from > LOOP_BYTES_MAX) {
    target.set(bytes.subarray(from, to), at);
    return at + to - from;
  }
  let position = at;
  for (let index = from; index < to; index += 1) target[position++] = bytes[index]!;
  return position;
}
