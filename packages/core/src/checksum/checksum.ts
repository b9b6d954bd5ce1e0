// CRC-32C, and what one piece of a region contributes to the CRC of the whole. A table's file
// stores one checksum per tensor, but a worker reads only its own partitions. The CRC register is
// linear over GF(2): run from zero, the register of a region is the XOR of the registers of its
// pieces, each shifted by the bytes that follow it. That shifted register is the piece's *share*.
// The shares of all pieces give the CRC of the region, although no process has read it whole.
//
//   register(A B C) = shift(register(A), |B|+|C|) ^ shift(register(B), |C|) ^ register(C)
//   crc(region)     = shift(0xffffffff, |region|) ^ register(region) ^ 0xffffffff
//
// Castagnoli polynomial, reflected (RFC 3720, appendix B.4). The table method is "slicing by 16"
// (Kounavis and Berry 2005), about 2.7 GB/s; the shift operators are those of zlib's crc32_combine,
// expanded to byte tables so that a shift costs four look-ups per set bit of the distance.

const POLYNOMIAL = 0x82f63b78;
const SLICES = 16;
const MASK_DELTA = 0xa282ead8;

const slices = buildSlices();
const shifts: Int32Array[] = [];

/** CRC-32C of bytes; `previous` is the CRC of the bytes before them. */
export function crc32c(bytes: Uint8Array, previous = 0): number {
  return ~extendRegister(~previous, bytes) >>> 0;
}

/** TensorFlow's and LevelDB's form of a CRC that is stored beside the data it covers. */
export function maskChecksum(crc: number): number {
  return (((crc >>> 15) | (crc << 17)) + MASK_DELTA) >>> 0;
}

/** The CRC behind its stored form. */
export function unmaskChecksum(masked: number): number {
  const rotated = (masked - MASK_DELTA) >>> 0;
  return ((rotated >>> 17) | (rotated << 15)) >>> 0;
}

/** CRC of two adjacent regions, from their CRCs and the length of the second in bytes. */
export function combineChecksums(first: number, second: number, secondBytes: number): number {
  return (shiftRegister(first, secondBytes) ^ second) >>> 0;
}

/** Bits after which a shifted register is what it was: the order of x modulo the polynomial. */
const SHIFT_PERIOD = 2 ** 31 - 1;

/** CRC of a region that another one follows, from the CRC of both, that of the second and its length in bytes. */
export function checksumBefore(both: number, second: number, secondBytes: number): number {
  // A period in bits is one in bytes too, and a shift by the rest of it takes a shift back.
  const back = SHIFT_PERIOD - (secondBytes % SHIFT_PERIOD);
  return shiftRegister(both ^ second, back) >>> 0;
}

/** Share of a piece in the CRC of its region; `bytesAfter`: from its end to the region's end. */
export function checksumShare(piece: Uint8Array, bytesAfter: number): number {
  return shiftRegister(extendRegister(0, piece), bytesAfter) >>> 0;
}

/**
 * The constant that turns the XOR of all shares into the CRC of the region. One of the pieces
 * includes it in its share, so that the XOR of all announced shares is the CRC itself.
 */
export function checksumConstant(regionBytes: number): number {
  return ~shiftRegister(-1, regionBytes) >>> 0;
}

/** CRC of a region of this many bytes from the XOR of the shares of all its pieces. */
export function wholeOf(shares: number, regionBytes: number): number {
  return (shares ^ checksumConstant(regionBytes)) >>> 0;
}

/** Runs the bare register over bytes: no initial value, no final inversion. */
export function extendRegister(register: number, bytes: Uint8Array): number {
  const start = Math.min(-bytes.byteOffset & 3, bytes.length);
  const words = (bytes.length - start) >>> 2;
  let result = extendByBytes(register, bytes, { start: 0, end: start });
  if (words > 0) {
    const view = new Int32Array(bytes.buffer, bytes.byteOffset + start, words);
    result = extendRegisterByWords(result, view, { start: 0, end: words });
  }
  return extendByBytes(result, bytes, { start: start + words * 4, end: bytes.length });
}

/** A range of positions in an array, end excluded. */
export interface Span {
  readonly start: number;
  readonly end: number;
}

/** Runs the bare register over 32-bit words of little-endian memory. */
export function extendRegisterByWords(register: number, words: Int32Array, span: Span): number {
  let result = register;
  let at = span.start;
  for (const end = span.end - 3; at < end; at += 4) {
    const a = words[at]! ^ result;
    const b = words[at + 1]!;
    const c = words[at + 2]!;
    const d = words[at + 3]!;
    result =
      slices[3840 + (a & 255)]! ^
      slices[3584 + ((a >>> 8) & 255)]! ^
      slices[3328 + ((a >>> 16) & 255)]! ^
      slices[3072 + (a >>> 24)]! ^
      (slices[2816 + (b & 255)]! ^
        slices[2560 + ((b >>> 8) & 255)]! ^
        slices[2304 + ((b >>> 16) & 255)]! ^
        slices[2048 + (b >>> 24)]!) ^
      (slices[1792 + (c & 255)]! ^
        slices[1536 + ((c >>> 8) & 255)]! ^
        slices[1280 + ((c >>> 16) & 255)]! ^
        slices[1024 + (c >>> 24)]!) ^
      (slices[768 + (d & 255)]! ^
        slices[512 + ((d >>> 8) & 255)]! ^
        slices[256 + ((d >>> 16) & 255)]! ^
        slices[d >>> 24]!);
  }
  for (; at < span.end; at += 1) {
    const word = words[at]! ^ result;
    result =
      slices[768 + (word & 255)]! ^
      slices[512 + ((word >>> 8) & 255)]! ^
      slices[256 + ((word >>> 16) & 255)]! ^
      slices[word >>> 24]!;
  }
  return result;
}

function extendByBytes(register: number, bytes: Uint8Array, span: Span): number {
  let result = register;
  for (let at = span.start; at < span.end; at += 1) {
    result = (result >>> 8) ^ slices[(result ^ bytes[at]!) & 255]!;
  }
  return result;
}

/** The register after this many more zero bytes (any count up to 2⁵³). */
export function shiftRegister(register: number, zeroBytes: number): number {
  let result = register;
  let left = zeroBytes;
  for (let level = 0; left > 0 && result !== 0; level += 1) {
    const half = Math.floor(left / 2);
    if (left !== half * 2) {
      const table = shifts[level] ?? buildShift(level);
      result =
        table[result & 255]! ^
        table[256 + ((result >>> 8) & 255)]! ^
        table[512 + ((result >>> 16) & 255)]! ^
        table[768 + (result >>> 24)]!;
    }
    left = half;
  }
  return result;
}

function buildSlices(): Int32Array {
  const table = new Int32Array(SLICES * 256);
  for (let byte = 0; byte < 256; byte += 1) {
    let register = byte;
    for (let bit = 0; bit < 8; bit += 1) {
      register = (register >>> 1) ^ (register & 1 ? POLYNOMIAL : 0);
    }
    table[byte] = register;
  }
  for (let index = 256; index < table.length; index += 1) {
    const previous = table[index - 256]!;
    table[index] = (previous >>> 8) ^ table[previous & 255]!;
  }
  return table;
}

/** Byte tables of the shift by 2^level bytes: the shift by half of it, done twice. */
function buildShift(level: number): Int32Array {
  const shifted = (register: number): number => {
    if (level === 0) return (register >>> 8) ^ slices[register & 255]!;
    const half = 2 ** (level - 1);
    return shiftRegister(shiftRegister(register, half), half);
  };
  const table = new Int32Array(4 * 256);
  for (let place = 0; place < 4; place += 1) {
    for (let byte = 1; byte < 256; byte += 1) {
      table[place * 256 + byte] = shifted(byte << (8 * place));
    }
  }
  shifts[level] = table;
  return table;
}
