// Checks of rows while they are read: the checksum of the stored tensor is extended by them, and
// values are found that a search could not order. This file is plain TypeScript, which defines the
// results; a device may do the same in machine code (accelerator/src/cpu/row-checks.ts).

import { extendRegisterByWords } from "./checksum.ts";
import type { Span } from "./checksum.ts";

/** Loops over float32 values, read as 32-bit words of little-endian memory. */
export interface RowChecks {
  /** The bare CRC-32C register after the words of a span (checksum.ts). */
  extendRegister(register: number, words: Int32Array, span: Span): number;
  /** Position of the first word of a span that is infinite or not a number; -1 if there is none. */
  indexOfInfinite(words: Int32Array, span: Span): number;
}

/** All exponent bits set: infinite or not a number. */
const EXPONENT = 0x7f80_0000;
const EXPONENT_ONE = 0x0080_0000;

const isInfinite = (word: number): boolean => (word & EXPONENT) === EXPONENT;

/** The checks in TypeScript: the reference for other implementations. */
export const plainRowChecks: RowChecks = {
  extendRegister: extendRegisterByWords,
  indexOfInfinite(words, { start, end }) {
    // Adding 1 to an exponent of all ones carries into the sign bit, so one test per span suffices.
    let carried = 0;
    for (let at = start; at < end; at += 1) carried |= (words[at]! & EXPONENT) + EXPONENT_ONE;
    if (carried >= 0) return -1;
    return start + words.subarray(start, end).findIndex(isInfinite);
  },
};
