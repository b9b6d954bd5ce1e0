// Checksums: published vectors, and shares against the plain CRC over any cut.

import fc from "fast-check";
import { describe, expect, test } from "vitest";
import {
  checksumBefore,
  checksumConstant,
  checksumShare,
  combineChecksums,
  crc32c,
  extendRegister,
  maskChecksum,
  shiftRegister,
  unmaskChecksum,
  wholeOf,
} from "./checksum.ts";

/** CRC-32C bit by bit, from its definition. */
function plainCrc(bytes: Uint8Array): number {
  let register = 0xffffffff;
  for (const byte of bytes) {
    register ^= byte;
    for (let bit = 0; bit < 8; bit += 1) {
      register = (register >>> 1) ^ (register & 1 ? 0x82f63b78 : 0);
    }
  }
  return ~register >>> 0;
}

const ascending = Uint8Array.from({ length: 32 }, (_, index) => index);
const bytesOf = (max: number): fc.Arbitrary<Uint8Array> => fc.uint8Array({ maxLength: max });

describe("crc32c()", () => {
  test.each([
    ["32 zero bytes", new Uint8Array(32), 0x8a9136aa],
    ["32 bytes of ones", new Uint8Array(32).fill(0xff), 0x62a8ab43],
    ["32 ascending bytes", ascending, 0x46dd794e],
    ["32 descending bytes", ascending.toReversed(), 0x113fdb5c],
    ["the digits 1 to 9", new TextEncoder().encode("123456789"), 0xe3069283],
    ["nothing", new Uint8Array(), 0],
  ])("gives the published value of %s", (_, bytes, expected) => {
    expect(crc32c(bytes)).toBe(expected);
  });

  test("equals the definition at any alignment and length, in one go or in two", () => {
    fc.assert(
      fc.property(bytesOf(300), fc.nat(300), fc.nat(7), (bytes, cut, skew) => {
        const skewed = new Uint8Array(bytes.length + skew).subarray(skew);
        skewed.set(bytes);

        const expected = plainCrc(bytes);

        expect(crc32c(skewed)).toBe(expected);
        expect(crc32c(bytes.subarray(cut), crc32c(skewed.subarray(0, cut)))).toBe(expected);
      }),
    );
  });
});

test("a masked checksum is unmasked again, and follows TensorFlow's formula", () => {
  fc.assert(
    fc.property(fc.nat(0xffffffff), (crc) => {
      expect(unmaskChecksum(maskChecksum(crc))).toBe(crc);
    }),
  );
  expect(maskChecksum(0)).toBe(0xa282ead8);
});

test("checksumBefore() takes the second of two regions away", () => {
  fc.assert(
    fc.property(fc.uint8Array(), fc.uint8Array(), (first, second) => {
      const both = crc32c(second, crc32c(first));

      expect(checksumBefore(both, crc32c(second), second.length)).toBe(crc32c(first));
    }),
  );
  // Regions that are longer than the period of a shift.
  for (const bytes of [2 ** 31 - 2, 2 ** 31 - 1, 2 ** 31, 3 * 2 ** 33 + 5]) {
    const both = combineChecksums(0x12345678, 0x9abcdef0, bytes);
    expect(checksumBefore(both, 0x9abcdef0, bytes)).toBe(0x12345678);
  }
});

test("combineChecksums() joins two regions", () => {
  fc.assert(
    fc.property(bytesOf(100), bytesOf(100), (first, second) => {
      const joined = combineChecksums(crc32c(first), crc32c(second), second.length);

      expect(joined).toBe(crc32c(Uint8Array.from([...first, ...second])));
    }),
  );
});

test("shiftRegister() equals running over zero bytes, and adds up for distances beyond 2^32", () => {
  fc.assert(
    fc.property(fc.nat(0xffffffff), fc.nat(3000), (register, distance) => {
      const expected = extendRegister(register, new Uint8Array(distance));

      expect(shiftRegister(register, distance) | 0).toBe(expected | 0);
    }),
  );
  fc.assert(
    fc.property(
      fc.integer(),
      fc.maxSafeNat(),
      fc.double({ min: 0, max: 1, noNaN: true }),
      (r, n, f) => {
        const near = Math.floor(n * f);

        expect(shiftRegister(shiftRegister(r, near), n - near) | 0).toBe(shiftRegister(r, n) | 0);
      },
    ),
  );
});

describe("checksum shares", () => {
  test("of contiguous pieces add up to the CRC of the region", () => {
    fc.assert(
      fc.property(bytesOf(500), fc.array(fc.nat(500), { maxLength: 8 }), (region, cuts) => {
        const ends = [...cuts.map((cut) => Math.min(cut, region.length)), region.length];
        ends.sort((a, b) => a - b);
        let shares = 0;
        let start = 0;
        for (const end of ends) {
          shares ^= checksumShare(region.subarray(start, end), region.length - end);
          start = end;
        }

        expect(wholeOf(shares, region.length)).toBe(crc32c(region));
        expect((shares ^ checksumConstant(region.length)) >>> 0).toBe(crc32c(region));
      }),
    );
  });

  test("of scattered rows add up whoever holds which row", () => {
    const holders = fc.array(fc.nat(6), { minLength: 1, maxLength: 40 });
    fc.assert(
      fc.property(holders, fc.integer({ min: 1, max: 33 }), (holderOfRow, rowBytes) => {
        const region = Uint8Array.from({ length: holderOfRow.length * rowBytes }, (_, i) => i * 37);
        const shares = new Map<number, number>();
        for (const [row, holder] of holderOfRow.entries()) {
          const end = (row + 1) * rowBytes;
          const piece = region.subarray(end - rowBytes, end);
          const share = checksumShare(piece, region.length - end);
          shares.set(holder, (shares.get(holder) ?? 0) ^ share);
        }

        const all = [...shares.values()].reduce((sum, share) => sum ^ share, 0);

        expect(wholeOf(all, region.length)).toBe(crc32c(region));
      }),
    );
  });

  test("of a changed piece do not", () => {
    const region = Uint8Array.from({ length: 64 }, (_, index) => index);
    const damaged = region.slice();
    damaged[40]! ^= 1;

    const shares =
      checksumShare(region.subarray(0, 32), 32) ^ checksumShare(damaged.subarray(32), 0);

    expect(wholeOf(shares, 64)).not.toBe(crc32c(region));
  });
});
