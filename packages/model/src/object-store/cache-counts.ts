// What a cache of models has done, counted by the threads that read and told by the one that shows metrics.

/** Ranges of objects, and their bytes, from one side. */
interface CacheReads {
  readonly reads: number;
  readonly bytes: number;
}

/** Since the process began. */
export interface CacheTallies {
  readonly fromCache: CacheReads;
  /** Of objects that the cache is for. */
  readonly fromStore: CacheReads;
  /** In the directory, which others may share, as this process saw it last. */
  readonly heldBytes: number;
}

const CACHE_READS = 0;
const CACHE_BYTES = 1;
const STORE_READS = 2;
const STORE_BYTES = 3;
const HELD_BYTES = 4;
const SLOTS = 5;

/** Counters in memory that threads share. */
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
