// Time and chance of a simulated world: events in the order of their time, equal times in random
// order, and one turn of the event loop after each, so that all it set off has settled before the
// next. Nothing here reads the machine's clock; the same seed gives the same world.

/** Uniform in [0, 1). */
export type Random = () => number;

/** A generator of its own for each purpose, so that one more draw in one shifts no other. */
export function seededRandom(seed: number, purpose: string): Random {
  let state = seed | 0;
  for (const character of purpose) state = mixed(state ^ (character.codePointAt(0) ?? 0));
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    return mixed(state) / 2 ** 32;
  };
}

function mixed(value: number): number {
  let hash = Math.imul(value ^ (value >>> 15), 0x2c1b3c6d);
  hash = Math.imul(hash ^ (hash >>> 12), 0x297a2d39);
  return (hash ^ (hash >>> 15)) >>> 0;
}

/** A number between two. */
export const between = (random: Random, least: number, most: number): number =>
  least + random() * (most - least);

/** One of several. */
export function oneOf<Item>(random: Random, items: readonly Item[]): Item {
  const item = items[Math.floor(random() * items.length)];
  if (item === undefined) throw new RangeError("nothing to choose from");
  return item;
}

/** Something that will happen, unless it is called off. */
export interface ComingEvent {
  readonly atMs: number;
  readonly rank: number;
  run: (() => void) | undefined;
}

/** The order of all events. */
export class VirtualTime {
  nowMs = 0;
  /** Events that have run. */
  events = 0;
  readonly #random: Random;
  readonly #heap: ComingEvent[] = [];

  constructor(random: Random) {
    this.#random = random;
  }

  /** Something happens then, or now if that is past. */
  at(atMs: number, run: () => void): ComingEvent {
    const event = { atMs: Math.max(atMs, this.nowMs), rank: this.#random(), run };
    this.#heap.push(event);
    this.#rise(this.#heap.length - 1);
    return event;
  }

  /** Something happens after a while. */
  after(delayMs: number, run: () => void): ComingEvent {
    return this.at(this.nowMs + delayMs, run);
  }

  /** Lets time pass. */
  async runUntil(untilMs: number): Promise<void> {
    await turn();
    for (let next = this.#heap[0]; next !== undefined; next = this.#heap[0]) {
      if (next.atMs > untilMs) break;
      this.#takeFirst();
      if (next.run === undefined) continue;
      this.nowMs = next.atMs;
      this.events += 1;
      next.run();
      await turn();
    }
    this.nowMs = untilMs;
  }

  #takeFirst(): void {
    const last = this.#heap.pop();
    if (last === undefined || this.#heap.length === 0) return;
    this.#heap[0] = last;
    this.#sink(0);
  }

  #rise(from: number): void {
    for (let at = from; at > 0;) {
      const parent = (at - 1) >> 1;
      if (!isBefore(this.#heap[at]!, this.#heap[parent]!)) return;
      this.#swap(at, parent);
      at = parent;
    }
  }

  #sink(from: number): void {
    for (let at = from; ;) {
      const left = 2 * at + 1;
      if (left >= this.#heap.length) return;
      const isRightFirst =
        left + 1 < this.#heap.length && isBefore(this.#heap[left + 1]!, this.#heap[left]!);
      const child = isRightFirst ? left + 1 : left;
      if (!isBefore(this.#heap[child]!, this.#heap[at]!)) return;
      this.#swap(at, child);
      at = child;
    }
  }

  #swap(a: number, b: number): void {
    const moved = this.#heap[a]!;
    this.#heap[a] = this.#heap[b]!;
    this.#heap[b] = moved;
  }
}

function isBefore(a: ComingEvent, b: ComingEvent): boolean {
  return a.atMs === b.atMs ? a.rank < b.rank : a.atMs < b.atMs;
}

/** Promises settle, and immediates they set run. */
function turn(): Promise<void> {
  return new Promise((resolve) => {
    setImmediate(resolve);
  });
}
