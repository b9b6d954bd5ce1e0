// All bytes of a region in pieces, for code that must see each byte once, such as the computation of a
// checksum that is not stored.

import { extendRegister } from "@winnow/core";
import type { RowChecks } from "@winnow/core";
import type { Region } from "../../storage/region.ts";

const PIECE_BYTES = 2 ** 22;

/** Pieces of whole elements; each is valid until the next one is asked for. */
export function* regionBytes(region: Region, elementBytes = 1): Generator<Uint8Array> {
  const whole = Math.max(1, Math.floor(PIECE_BYTES / elementBytes)) * elementBytes;
  const buffer = new Uint8Array(Math.min(whole, region.size));
  for (let at = 0; at < region.size; at += buffer.length) {
    const piece = buffer.subarray(0, Math.min(buffer.length, region.size - at));
    region.read(at, piece);
    yield piece;
  }
}

/** CRC-32C of a region. */
export function checksumOf(region: Region, checks: RowChecks): number {
  let register = -1;
  for (const piece of regionBytes(region)) {
    const words = piece.length >>> 2;
    const view = new Int32Array(piece.buffer, 0, words);
    register = checks.extendRegister(register, view, { start: 0, end: words });
    register = extendRegister(register, piece.subarray(words * 4));
  }
  return ~register >>> 0;
}
