// How fast are checksums? The reading of a table must not wait for them.

import { bench, describe } from "vitest";
import { checksumShare, crc32c, extendRegister, shiftRegister } from "./checksum.ts";

const megabyte = new Uint8Array(2 ** 20).map((_, index) => index * 7);
const row = megabyte.slice(0, 256);

/** One lookup per byte, as in the usual short implementations. */
const table = Int32Array.from({ length: 256 }, (_, byte) => extendRegister(0, Uint8Array.of(byte)));
function bytewise(bytes: Uint8Array): number {
  let register = -1;
  for (const byte of bytes) register = (register >>> 8) ^ table[(register ^ byte) & 255]!;
  return ~register >>> 0;
}

describe("Does slicing by 16 beat a lookup per byte? 1 MiB, one thread", () => {
  bench("slicing by 16", () => void crc32c(megabyte));
  bench("a lookup per byte", () => void bytewise(megabyte));
});

describe("What does the share of one scattered row cost? 256 bytes, 2.5 GB after it", () => {
  bench("share", () => void checksumShare(row, 2_560_000_000));
  bench("the shift alone", () => void shiftRegister(0x12345678, 2_560_000_000));
});
