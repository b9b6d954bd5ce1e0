// The changes that versions which are open were read with, so that the next content of a directory reads only the lines that
// were appended meanwhile. It holds nothing that these versions do not hold themselves.

import type { ItemUpdates } from "./update-file.ts";

interface Held {
  /** The version that brings them. */
  readonly holder: object;
  readonly updates: ItemUpdates;
}

/** Changes by the directory of their version: those of the one opened last, while it is open. */
export class OpenUpdates {
  readonly #byDirectory = new Map<string, Held>();

  /** What was read last. */
  of(directory: string): ItemUpdates | undefined {
    return this.#byDirectory.get(directory)?.updates;
  }

  add(directory: string, held: Held): void {
    this.#byDirectory.set(directory, held);
  }

  /** To be called when a version is closed. */
  remove(directory: string, holder: object): void {
    if (this.#byDirectory.get(directory)?.holder === holder) this.#byDirectory.delete(directory);
  }
}
