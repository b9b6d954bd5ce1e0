// How fast a table has been scanned lately, to say beforehand how long a scan will take. Memory of one machine may
// be twice as fast as that of another, or as its own a minute later.

/** The part of the estimate that each scan replaces: one that was interrupted must not count for much. */
const WEIGHT = 1 / 8;

/** The pace of one table's scans. */
export class ScanPace {
  #msPerValue: number | undefined;

  /** Notes that a scan of so many values (rows × dim × queries) took `ms`. */
  note(values: number, ms: number): void {
    const found = ms / values;
    this.#msPerValue ??= found;
    this.#msPerValue += WEIGHT * (found - this.#msPerValue);
  }

  /** How many ms a scan will take; infinite before any has been noted. */
  predictMs(values: number): number {
    return this.#msPerValue === undefined ? Number.POSITIVE_INFINITY : this.#msPerValue * values;
  }
}
