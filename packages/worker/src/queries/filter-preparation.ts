// Queries whose filters a worker may not have met yet: these are found out before the query waits for the device,
// so that no other query waits for them. Which filters are known is remembered by their texts; one that was
// dropped meanwhile is found out again where it is used.

import { toWinnowError } from "@winnow/core";
import type { WinnowError } from "@winnow/core";

/** Texts that are remembered, and their characters. */
const KNOWN_MAX = 4096;
const KNOWN_CHARACTERS_MAX = 2 ** 22;

/** A query, and how its filters are found out. */
export interface Preparation {
  /** What the filters are of: a content, a table, partitions. */
  readonly scope: string;
  readonly texts: readonly string[];
  readonly rows: number;
  /** Finds out some of them; to be stopped when nobody waits any more. */
  readonly prepare: (texts: readonly string[], signal: AbortSignal) => Promise<void>;
  readonly onReady: () => void;
  readonly onFailure: (error: WinnowError) => void;
}

interface Waiting {
  readonly rows: number;
  readonly stop: AbortController;
}

/** Queries that wait for their filters. */
export class FilterPreparations {
  readonly #rowsMax: number;
  /** In order of last use. */
  readonly #known = new Set<string>();
  #knownCharacters = 0;
  readonly #waiting = new Map<object, Waiting>();
  #rows = 0;

  /** `rowsMax`: rows of all queries that may wait here; one alone may have more. */
  constructor(rowsMax: number) {
    this.#rowsMax = rowsMax;
  }

  /** Rows that wait. */
  get rows(): number {
    return this.#rows;
  }

  /**
   * Whether a query waits here now, under `key`, or is refused for want of room; otherwise its filters are known
   * and it may go on at once.
   */
  take(key: object, preparation: Preparation): "waits" | "refused" | "ready" {
    const { scope, rows } = preparation;
    const unknown = [...new Set(preparation.texts)].filter((text) => !this.#knows(scope, text));
    if (unknown.length === 0) return "ready";
    if (this.#rows > 0 && this.#rows + rows > this.#rowsMax) return "refused";
    const stop = new AbortController();
    this.#waiting.set(key, { rows, stop });
    this.#rows += rows;
    void this.#run(key, { ...preparation, texts: unknown }, stop.signal);
    return "waits";
  }

  /** Finds out unknown texts, and tells whoever still waits; never rejects. */
  async #run(
    key: object,
    { scope, texts, prepare, onReady, onFailure }: Preparation,
    signal: AbortSignal,
  ): Promise<void> {
    try {
      await prepare(texts, signal);
    } catch (error) {
      if (this.#end(key) !== undefined) onFailure(toWinnowError(error));
      return;
    }
    for (const text of texts) this.#remember(scope, text);
    if (this.#end(key) !== undefined) onReady();
  }

  /** Nobody waits for the query any more: its filters are not found out further. Whether it waited here. */
  forget(key: object): boolean {
    const waiting = this.#end(key);
    waiting?.stop.abort();
    return waiting !== undefined;
  }

  #end(key: object): Waiting | undefined {
    const waiting = this.#waiting.get(key);
    if (waiting === undefined) return undefined;
    this.#waiting.delete(key);
    this.#rows -= waiting.rows;
    return waiting;
  }

  #knows(scope: string, text: string): boolean {
    const name = `${scope} ${text}`;
    if (!this.#known.delete(name)) return false;
    this.#known.add(name);
    return true;
  }

  #remember(scope: string, text: string): void {
    const name = `${scope} ${text}`;
    if (this.#known.has(name)) return;
    this.#known.add(name);
    this.#knownCharacters += name.length;
    for (const oldest of this.#known) {
      const isWithin =
        this.#known.size <= KNOWN_MAX && this.#knownCharacters <= KNOWN_CHARACTERS_MAX;
      if (isWithin) break;
      this.#known.delete(oldest);
      this.#knownCharacters -= oldest.length;
    }
  }
}
