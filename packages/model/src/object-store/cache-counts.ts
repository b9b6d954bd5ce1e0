// What a cache of models has done, counted by the threads that read and shown by the thread that serves metrics.

/** Number of ranges of objects, and their bytes, from one source. */
interface CacheReads {
  readonly reads: number;
  readonly bytes: number;
}

/** Counts since the process started. */
export interface CacheTallies {
  readonly fromCache: CacheReads;
  /** From objects that are cached. */
  readonly fromStore: CacheReads;
  /** Bytes in the directory, which processes may share, as this process last saw them. */
  readonly heldBytes: number;
}

const CACHE_READS = 0;
const CACHE_BYTES = 1;
const STORE_READS = 2;
const STORE_BYTES = 3;
const HELD_BYTES = 4;
const SLOTS = 5;

/** Counters in memory that all threads share. */
export class CacheCounts {
  readonly buffer: SharedArrayBuffer;
  readonly #slots: BigInt64Array;

  constructor(
    buffer: SharedArrayBuffer = new SharedArrayBuffer(SLOTS * BigInt64Array.BYTES_PER_ELEMENT),
  ) {
    this.buffer = buffer;
    this.#slots = new BigInt64Array(buffer);
  }

  addRead(from: "cache" | "store", bytes: number): void {
    Atomics.add(this.#slots, from === "cache" ? CACHE_READS : STORE_READS, 1n);
    Atomics.add(this.#slots, from === "cache" ? CACHE_BYTES : STORE_BYTES, BigInt(bytes));
  }

  addHeld(bytes: number): void {
    Atomics.add(this.#slots, HELD_BYTES, BigInt(bytes));
  }

  setHeld(bytes: number): void {
    Atomics.store(this.#slots, HELD_BYTES, BigInt(bytes));
  }

  get tallies(): CacheTallies {
    const at = (slot: number): number => Number(Atomics.load(this.#slots, slot));
    return {
      fromCache: { reads: at(CACHE_READS), bytes: at(CACHE_BYTES) },
      fromStore: { reads: at(STORE_READS), bytes: at(STORE_BYTES) },
      heldBytes: at(HELD_BYTES),
    };
  }
}
