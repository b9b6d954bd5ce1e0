// Which model is next if several share one process: the model that has used the least of its time
// ("Start-time fair queueing", Goyal, Vin and Cheng 1996, with measured costs). Costs are known only after a
// run, so a run is charged what the last runs of its model took, and the difference once it has ended. A
// model that returns after a pause begins at the time of the run that was taken last: it saves up no time
// while it asks for nothing.
//
//   push ─▶ waiting, by model ── take: least spent first ─▶ under way ── settle: the measured time

/** Bounds of a queue. */
export interface FairQueueLimits {
  /** Items of one model. */
  readonly itemsMax: number;
  /** Bytes of all models together. */
  readonly bytesMax: number;
}

/** An item of the queue. */
export interface Queued {
  readonly bytes: number;
}

interface Line<Item> {
  readonly items: Item[];
  /** Time used, in ms, on the scale of `#nowMs`. */
  spentMs: number;
  /** Mean time of a run, by the last runs; `undefined` before the first. */
  meanMs: number | undefined;
}

const MEAN_SHARE_OF_LAST = 0.25;
/** Models without items whose mean is kept. */
const IDLE_LINES_MAX = 1024;

/** Items by model, taken in fair turns. */
export class FairQueue<Item extends Queued> {
  readonly #limits: FairQueueLimits;
  readonly #lines = new Map<string, Line<Item>>();
  /** The lines with items, by model, in the order in which they came to have some. */
  readonly #waiting = new Map<string, Line<Item>>();
  #bytes = 0;
  #count = 0;
  /** Time used by the model that was taken last. */
  #nowMs = 0;

  constructor(limits: FairQueueLimits) {
    this.#limits = limits;
  }

  /** Items that wait. */
  get length(): number {
    return this.#count;
  }

  /** Why one more item cannot wait; `undefined` if it can. */
  refusalOf(model: string, item: Item): string | undefined {
    const { itemsMax, bytesMax } = this.#limits;
    const waiting = this.#lines.get(model)?.items.length ?? 0;
    if (waiting >= itemsMax) return `${waiting} dense runs are waiting; at most that many may`;
    if (this.#count === 0 || this.#bytes + item.bytes <= bytesMax) return undefined;
    return `dense runs of ${this.#bytes} bytes are waiting; ${bytesMax} may`;
  }

  /** Adds an item after the others of its model, or before them if it has waited already. */
  push(model: string, item: Item, { isFirst = false }: { readonly isFirst?: boolean } = {}): void {
    const line = this.#line(model);
    if (line.items.length === 0) {
      line.spentMs = Math.max(line.spentMs, this.#nowMs);
      this.#waiting.set(model, line);
    }
    if (isFirst) line.items.unshift(item);
    else line.items.push(item);
    this.#bytes += item.bytes;
    this.#count += 1;
  }

  /** The item to be taken next. Models without items cost nothing here: each run looks a few times. */
  peek(): { readonly model: string; readonly item: Item } | undefined {
    let next: { readonly model: string; readonly line: Line<Item> } | undefined;
    for (const [model, line] of this.#waiting) {
      if (next === undefined || line.spentMs < next.line.spentMs) next = { model, line };
    }
    return next === undefined ? undefined : { model: next.model, item: next.line.items[0]! };
  }

  /** Takes the item of `peek`, and gives the ms that it was charged: the mean of its model's runs. */
  take(): number {
    const next = this.peek();
    if (next === undefined) return 0;
    const line = this.#lines.get(next.model)!;
    this.#nowMs = Math.max(this.#nowMs, line.spentMs);
    line.items.shift();
    this.#forget(next.model, next.item);
    const chargedMs = line.meanMs ?? 0;
    line.spentMs += chargedMs;
    return chargedMs;
  }

  /** A run that was charged `chargedMs` has taken `ms`. */
  settle(model: string, chargedMs: number, ms: number): void {
    const line = this.#line(model);
    line.spentMs += ms - chargedMs;
    const { meanMs = ms } = line;
    line.meanMs = meanMs + (ms - meanMs) * MEAN_SHARE_OF_LAST;
  }

  /** Mean ms of a model's runs, by the last ones; `undefined` if none has ended. */
  meanMsOf(model: string): number | undefined {
    return this.#lines.get(model)?.meanMs;
  }

  /** Removes a waiting item; `false` if it does not wait. */
  remove(model: string, item: Item): boolean {
    const items = this.#waiting.get(model)?.items ?? [];
    const at = items.indexOf(item);
    if (at < 0) return false;
    items.splice(at, 1);
    this.#forget(model, item);
    return true;
  }

  /** Removes and gives waiting items; those of one model are in order. */
  removeAll(isRemoved: (item: Item) => boolean = () => true): Item[] {
    const all: Item[] = [];
    for (const [model, { items }] of this.#waiting) {
      const removed = items.filter(isRemoved);
      items.splice(0, items.length, ...items.filter((item) => !isRemoved(item)));
      for (const item of removed) this.#forget(model, item);
      all.push(...removed);
    }
    return all;
  }

  #forget(model: string, item: Item): void {
    this.#bytes -= item.bytes;
    this.#count -= 1;
    if (this.#waiting.get(model)?.items.length === 0) this.#waiting.delete(model);
  }

  #line(model: string): Line<Item> {
    const known = this.#lines.get(model);
    if (known !== undefined) return known;
    this.#dropIdle();
    const line: Line<Item> = { items: [], spentMs: this.#nowMs, meanMs: undefined };
    this.#lines.set(model, line);
    return line;
  }

  /** This loses only a model's past: its line begins anew when the model asks again. */
  #dropIdle(): void {
    if (this.#lines.size < IDLE_LINES_MAX) return;
    for (const [model, { items }] of this.#lines) if (items.length === 0) this.#lines.delete(model);
  }
}
