// Values that are under way, from their beginning to their end, by ids that are given once. A Map or a Set
// would do, except for the way in which V8's garbage collector treats one whose entries are added and deleted
// all the time. A hash table that has gained or lost enough entries is replaced by a new one, and the old
// table keeps a pointer to the new one, for iterators. Once an old table has been promoted to the old
// generation, where garbage stays until a full collection, it keeps the next table alive, that table the one
// after it, and each of them all values that were under way when it was replaced. So minor collections copy
// and promote requests that ended long ago. A WeakMap does much the same with entries that are left to their keys' end,
// and does no harm where they are deleted. Here a value is in an array, at its id modulo the array's length,
// and leaves nothing behind when it is deleted.

const CAPACITY_MIN = 16;
/** Marks the end of the order. */
const NONE = -1;

/** Values of type `T`, in the order in which they were added. */
export class Outstanding<T extends object> {
  #places: Places<T> = emptyPlaces(CAPACITY_MIN);
  #first = NONE;
  #last = NONE;
  #size = 0;
  #lastId = 0;

  /** Number of values. */
  get size(): number {
    return this.#size;
  }

  /** The value that was added first; `undefined` if there is none. */
  get oldest(): T | undefined {
    return this.#first === NONE ? undefined : this.#places.values[this.#first];
  }

  /** Adds a value and gives its id, which is larger than any before it. */
  add(value: T): number {
    // With at most half of the places in use, the next free one is near.
    if (this.#size * 2 >= this.#places.values.length) this.#grow();
    const { values } = this.#places;
    do this.#lastId += 1;
    while (values[placeOf(this.#lastId, values)] !== undefined);
    this.#append(this.#lastId, value);
    return this.#lastId;
  }

  /** The value with this id; `undefined` once it is deleted. */
  get(id: number): T | undefined {
    const { values, ids } = this.#places;
    const place = placeOf(id, values);
    return ids[place] === id ? values[place] : undefined;
  }

  /** Removes a value; `false` if there is none with this id (any more). */
  delete(id: number): boolean {
    if (this.get(id) === undefined) return false;
    const { values, before, after } = this.#places;
    const place = placeOf(id, values);
    values[place] = undefined;
    const [previous, next] = [before[place]!, after[place]!];
    if (previous === NONE) this.#first = next;
    else after[previous] = next;
    if (next === NONE) this.#last = previous;
    else before[next] = previous;
    this.#size -= 1;
    return true;
  }

  /**
   * Ids and values, oldest first. Values may be added and deleted in the meantime: one that is deleted before
   * its turn is left out, and so are values that were added.
   */
  *entries(): Generator<readonly [id: number, value: T], void> {
    for (const id of this.#idsInOrder()) {
      const value = this.get(id);
      if (value !== undefined) yield [id, value];
    }
  }

  /** The values of `entries`. */
  *[Symbol.iterator](): Generator<T, void> {
    for (const [, value] of this.entries()) yield value;
  }

  #append(id: number, value: T): void {
    const { values, ids, before, after } = this.#places;
    const place = placeOf(id, values);
    values[place] = value;
    ids[place] = id;
    before[place] = this.#last;
    after[place] = NONE;
    if (this.#last === NONE) this.#first = place;
    else after[this.#last] = place;
    this.#last = place;
    this.#size += 1;
  }

  #idsInOrder(): number[] {
    const inOrder: number[] = [];
    const { ids, after } = this.#places;
    for (let place = this.#first; place !== NONE; place = after[place]!) inOrder.push(ids[place]!);
    return inOrder;
  }

  #grow(): void {
    const { values, ids, after } = this.#places;
    let place = this.#first;
    this.#places = emptyPlaces(values.length * 2);
    [this.#first, this.#last, this.#size] = [NONE, NONE, 0];
    for (; place !== NONE; place = after[place]!) this.#append(ids[place]!, values[place]!);
  }
}

interface Places<T> {
  /** A power of two of places; the value of `id` is at `id` modulo their number. */
  readonly values: (T | undefined)[];
  /** The id of each value, an exact integer. */
  readonly ids: Float64Array;
  /** The places of the values that were added before and after that of each place, or `NONE`. */
  readonly before: Int32Array;
  readonly after: Int32Array;
}

/** `&` takes the lowest 32 bits of an id, however large it is. */
function placeOf(id: number, { length }: { readonly length: number }): number {
  return id & (length - 1);
}

function emptyPlaces<T>(count: number): Places<T> {
  return {
    values: Array.from({ length: count }, () => undefined),
    ids: new Float64Array(count),
    before: new Int32Array(count),
    after: new Int32Array(count),
  };
}
