// Evaluates filters that a worker may not know yet, before their queries wait for the device, so that no
// other query waits for a filter. Known filters are remembered by their texts. A filter that the cache has
// dropped since is evaluated again where it is used.

import { toWinnowError } from "@winnow/core";
import type { WinnowError } from "@winnow/core";

/** Texts that are remembered, at most, and their characters together. */
const KNOWN_MAX = 4096;
const KNOWN_CHARACTERS_MAX = 2 ** 22;

/** A query, and how its filters are evaluated. */
export interface Preparation {
  /** What the filters belong to: a content, a table and partitions. */
  readonly scope: string;
  readonly texts: readonly string[];
  readonly rows: number;
  /** Evaluates some filters. The signal aborts once nobody waits for them any more. */
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
  /** The least recently used first. */
  readonly #known = new Set<string>();
  #knownCharacters = 0;
  readonly #waiting = new Map<object, Waiting>();
  #rows = 0;

  /** `rowsMax` bounds the rows of all queries that wait here; a single query may have more. */
  constructor(rowsMax: number) {
    this.#rowsMax = rowsMax;
  }

  /** Rows of the queries that wait here. */
  get rows(): number {
    return this.#rows;
  }

  /**
   * `ready`: the filters are known, and the query may go on at once; `waits`: the query waits here under
   * `key`; `refused`: too many rows wait here already.
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

  /** Evaluates unknown filters, then calls those queries that still wait; never rejects. */
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

  /** Nobody waits for the query any more: evaluation of its filters stops. Gives whether it waited here. */
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
