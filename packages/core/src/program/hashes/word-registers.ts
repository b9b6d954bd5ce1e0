// 64-bit registers in 32-bit halves, for hash functions: BigInt operations allocate, these do not.
// Registers are numbered, and each hash function has numbers of its own. All share one set of
// registers, because a hash is computed synchronously.

const REGISTERS = 64;
const low = new Int32Array(REGISTERS);
const high = new Int32Array(REGISTERS);

/** Sets a register to a constant. */
export function setWord(to: number, value: bigint): void {
  low[to] = Number(value & 0xffffffffn);
  high[to] = Number((value >> 32n) & 0xffffffffn);
}

/** Sets a register to an integer in 0…2³²-1. */
export function setSmall(to: number, value: number): void {
  low[to] = value;
  high[to] = 0;
}

/** The lower 32 bits of a register, unsigned. */
export function lowOf(from: number): number {
  return low[from]! >>> 0;
}

/** A register as an unsigned BigInt. */
export function wordOf(from: number): bigint {
  return (BigInt(high[from]! >>> 0) << 32n) | BigInt(low[from]! >>> 0);
}

/** A register, unsigned, modulo `buckets`. */
export function wordModulo(from: number, buckets: number): number {
  // Exact in doubles while (buckets - 1)·2³² + 2³² stays within 2⁵³.
  if (buckets <= 2 ** 21) {
    return (((high[from]! >>> 0) % buckets) * 2 ** 32 + (low[from]! >>> 0)) % buckets;
  }
  return Number(wordOf(from) % BigInt(buckets));
}

/** to = from */
export function copy(to: number, from: number): void {
  low[to] = low[from]!;
  high[to] = high[from]!;
}

/** Exchanges two registers. */
export function swap(a: number, b: number): void {
  const lowA = low[a]!;
  const highA = high[a]!;
  copy(a, b);
  low[b] = lowA;
  high[b] = highA;
}

/** to = a + b modulo 2⁶⁴ */
export function add(to: number, a: number, b: number): void {
  const sum = (low[a]! >>> 0) + (low[b]! >>> 0);
  high[to] = high[a]! + high[b]! + (sum > 0xffffffff ? 1 : 0);
  low[to] = sum | 0;
}

/** to = a ^ b */
export function exclusiveOr(to: number, a: number, b: number): void {
  low[to] = low[a]! ^ low[b]!;
  high[to] = high[a]! ^ high[b]!;
}

/** to = a · b modulo 2⁶⁴ */
export function multiply(to: number, a: number, b: number): void {
  const lowA = low[a]!;
  const lowB = low[b]!;
  const a0 = lowA & 0xffff;
  const a1 = lowA >>> 16;
  const b0 = lowB & 0xffff;
  const b1 = lowB >>> 16;
  const middle = a1 * b0 + ((a0 * b0) >>> 16);
  const other = (middle & 0xffff) + a0 * b1;
  const carried = a1 * b1 + (middle >>> 16) + (other >>> 16);
  high[to] = (carried + Math.imul(high[a]!, lowB) + Math.imul(lowA, high[b]!)) | 0;
  low[to] = Math.imul(lowA, lowB);
}

/** to = a rotated right by 1…63 bits */
export function rotateRight(to: number, a: number, bits: number): void {
  const isFar = bits >= 32;
  const first = isFar ? high[a]! : low[a]!;
  const second = isFar ? low[a]! : high[a]!;
  const shift = bits & 31;
  if (shift === 0) {
    low[to] = first;
    high[to] = second;
    return;
  }
  low[to] = (first >>> shift) | (second << (32 - shift));
  high[to] = (second >>> shift) | (first << (32 - shift));
}

/** to = a ^ (a >>> 47) */
export function foldTop(to: number, a: number): void {
  low[to] = low[a]! ^ (high[a]! >>> 15);
  high[to] = high[a]!;
}

/** to = the eight bytes at `at`, little-endian */
export function fetch(to: number, bytes: Uint8Array, at: number): void {
  low[to] = word32At(bytes, at);
  high[to] = word32At(bytes, at + 4);
}

/** The four bytes at `at`, little-endian, as a signed number. */
export function word32At(bytes: Uint8Array, at: number): number {
  return bytes[at]! | (bytes[at + 1]! << 8) | (bytes[at + 2]! << 16) | (bytes[at + 3]! << 24);
}
