// Values by ids that others have chosen. A Map would do, except for the way in which V8's garbage collector
// treats a Map whose entries are added and deleted all the time (`outstanding.ts`): its old hash tables keep
// values alive that were deleted long ago. Here ids are in an array of numbers, each at its hash or in the
// next free place after it, and a deleted value leaves nothing behind: the values after it move up.

const CAPACITY_MIN = 16;
/** 2³² ÷ the golden ratio: spreads neighbouring ids (Knuth, volume 3, section 6.4). */
const SPREAD = 0x9e3779b1;
const WORD = 2 ** 32;

/** Values of type `T` by whole numbers from 0 to 2⁵³ − 1. */
export class IdTable<T extends object> {
  /** A power of two of places, at most half of them in use. */
  #values: (T | undefined)[] = emptyValues(CAPACITY_MIN);
  /** The id of the value in each place that is in use. */
  #ids = new Float64Array(CAPACITY_MIN);
  #size = 0;

  /** How many values there are. */
  get size(): number {
    return this.#size;
  }

  /** Whether there is a value with this id. */
  has(id: number): boolean {
    return this.get(id) !== undefined;
  }

  /** The value with this id. */
  get(id: number): T | undefined {
    return this.#values[this.#placeOf(id)];
  }

  /** Adds a value, or replaces the one with this id. */
  set(id: number, value: T): void {
    if (this.#size * 2 >= this.#values.length) this.#grow();
    const place = this.#placeOf(id);
    if (this.#values[place] === undefined) this.#size += 1;
    this.#values[place] = value;
    this.#ids[place] = id;
  }

  /** Removes a value; `false` if there is none with this id (any more). */
  delete(id: number): boolean {
    let free = this.#placeOf(id);
    if (this.#values[free] === undefined) return false;
    this.#size -= 1;
    const last = this.#values.length - 1;
    for (let place = (free + 1) & last; ; place = (place + 1) & last) {
      const value = this.#values[place];
      if (value === undefined) break;
      // A value may move to the free place unless that is before the place of its hash.
      const home = this.#homeOf(this.#ids[place]!);
      if (((place - home) & last) < ((place - free) & last)) continue;
      this.#values[free] = value;
      this.#ids[free] = this.#ids[place]!;
      free = place;
    }
    this.#values[free] = undefined;
    return true;
  }

  /** All ids, in arbitrary order. */
  ids(): number[] {
    return Array.from(this.#ids).filter((_id, place) => this.#values[place] !== undefined);
  }

  /** The place of the value with this id, or the place where it would be. */
  #placeOf(id: number): number {
    const last = this.#values.length - 1;
    let place = this.#homeOf(id);
    while (this.#values[place] !== undefined && this.#ids[place] !== id) place = (place + 1) & last;
    return place;
  }

  #homeOf(id: number): number {
    const hash = Math.imul(id ^ (id / WORD), SPREAD) >>> 0;
    return Math.floor((hash / WORD) * this.#values.length);
  }

  #grow(): void {
    const [values, ids] = [this.#values, this.#ids];
    this.#values = emptyValues(values.length * 2);
    this.#ids = new Float64Array(values.length * 2);
    this.#size = 0;
    for (const [place, value] of values.entries()) {
      if (value !== undefined) this.set(ids[place]!, value);
    }
  }
}

function emptyValues<T>(count: number): (T | undefined)[] {
  return Array.from({ length: count }, () => undefined);
}
