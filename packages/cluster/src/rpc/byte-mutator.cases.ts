// Bytes that were right once: cut, spliced, flipped, with lengths that lie. All of it depends on a seed.

/** A stream of choices that depends on its seed alone. */
export class ByteMutator {
  #state: number;

  constructor(seed: number) {
    this.#state = seed >>> 0;
  }

  /** From 0 up to 1. */
  random(): number {
    this.#state = (Math.imul(this.#state, 1_664_525) + 1_013_904_223) >>> 0;
    return this.#state / 2 ** 32;
  }

  chance(probability: number): boolean {
    return this.random() < probability;
  }

  below(limit: number): number {
    return Math.floor(this.random() * limit);
  }

  pick<Item>(items: readonly Item[]): Item {
    return items[this.below(items.length)]!;
  }

  /** One of them, broken in up to four places, or, seldom, as it is. */
  mutated(whole: readonly Buffer[]): Buffer {
    let bytes: Buffer = Buffer.from(this.pick(whole));
    for (let count = this.below(5); count > 0; count -= 1) bytes = this.#broken(bytes, whole);
    return bytes;
  }

  #broken(bytes: Buffer, whole: readonly Buffer[]): Buffer {
    const at = this.below(bytes.length + 1);
    const end = Math.min(bytes.length, at + this.below(9));
    const kind = this.random();
    if (kind < 0.35 && at < bytes.length) {
      bytes[at] = this.chance(0.5) ? bytes[at]! ^ (1 << this.below(8)) : this.pick(EDGE_BYTES);
      return bytes;
    }
    if (kind < 0.45) return bytes.subarray(0, at);
    const parts = [bytes.subarray(0, at), this.#inserted(bytes, whole), bytes.subarray(end)];
    return Buffer.concat(parts).subarray(0, BYTES_MAX);
  }

  #inserted(bytes: Buffer, whole: readonly Buffer[]): Buffer {
    const kind = this.random();
    if (kind < 0.4) return this.pick(EDGE_PIECES);
    const from = kind < 0.7 ? bytes : this.pick(whole);
    const at = this.below(from.length + 1);
    return from.subarray(at, at + this.below(64));
  }
}

/** Of one input. */
const BYTES_MAX = 65_536;
const EDGE_BYTES = [0, 1, 2, 0x0a, 0x12, 0x7f, 0x80, 0xfe, 0xff];
/** Nothing, and varints at the edges of 32, 53 and 64 bits, or without an end. */
const EDGE_PIECES = [
  "",
  "00",
  "ffffffff0f",
  "ffffffffffffff0f",
  "ffffffffffffffffff01",
  "ff".repeat(12),
]
  .concat(["80808080808080808001", "0a00", "1200".repeat(40), "0a8080804012"])
  .map((hex) => Buffer.from(hex, "hex"));
