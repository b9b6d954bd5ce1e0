// Where this router met its workers, kept across restarts: a router that starts while the membership
// store is away begins with these hints (`contact-book.ts`), and with whom the workers found there know.
// Who lives at an address is for the stream to say, as with every hint, so an old file costs a few calls
// in vain and nothing else.
//
// Written seldom: a while after something has changed, if the text differs. A file that cannot be read
// or written is said once, and done without.

import { toWinnowError } from "@winnow/core";
import type { Environment, Timer } from "@winnow/core";
import { readContact } from "@winnow/cluster";
import type { Contact, StateFile, WrittenContact } from "@winnow/cluster";

/** Dependencies of the file. */
export interface SavedContactsParts {
  readonly environment: Environment;
  readonly file: StateFile;
  /**
   * Which cluster the workers belong to, in words that stay the same. What was written for another one
   * is not read: its workers would be taken for this cluster's.
   */
  readonly cluster: string;
  readonly settings: { readonly saveDelayMs: number; readonly workersMax: number };
  /** What is to be kept, of this moment; nothing is written while it is nothing. */
  readonly contacts: () => readonly Contact[];
}

/** A disk that is full may have room again. */
const RETRY_MS = 30_000;
/** The form of the text; another one is not read. */
const FORMAT = 1;

/** A router's file of contacts. */
export class SavedContacts {
  readonly #parts: SavedContactsParts;
  #written = "";
  #timer: Timer | undefined;
  #isFailing = false;
  #isClosed = false;

  constructor(parts: SavedContactsParts) {
    this.#parts = parts;
  }

  /** What the last run wrote; nothing where there is no file, or none that can be read. */
  async read(): Promise<readonly Contact[]> {
    const { file, environment } = this.#parts;
    try {
      const text = await file.read();
      return text === undefined ? [] : this.#decode(text);
    } catch (error) {
      environment.log.warn("saved workers not read", { message: toWinnowError(error).message });
      return [];
    }
  }

  /** Something may have changed: it is written soon, with what changes until then. */
  changed(): void {
    this.#writeAfter(this.#parts.settings.saveDelayMs);
  }

  /** Writes what waits to be written; nothing after that. */
  close(): void {
    if (this.#isClosed) return;
    this.#isClosed = true;
    if (this.#timer === undefined) return;
    this.#parts.environment.clock.clearTimer(this.#timer);
    this.#timer = undefined;
    void this.#write(); // The process may end first: the file is then as it was.
  }

  #writeAfter(delayMs: number): void {
    if (this.#isClosed || this.#timer !== undefined) return;
    this.#timer = this.#parts.environment.clock.setTimer(delayMs, () => {
      this.#timer = undefined;
      void this.#write(); // Never rejects: what could not be written is said there.
    });
  }

  async #write(): Promise<void> {
    const { environment, file, contacts } = this.#parts;
    const kept = contacts();
    const text = this.#encode(kept);
    if (kept.length === 0 || text === this.#written) return;
    try {
      await file.write(text);
      this.#written = text;
      this.#isFailing = false;
    } catch (error) {
      const { message } = toWinnowError(error);
      if (!this.#isFailing) environment.log.warn("workers not saved", { message });
      this.#isFailing = true;
      this.#writeAfter(RETRY_MS);
    }
  }

  #encode(contacts: readonly Contact[]): string {
    const { cluster } = this.#parts;
    const workers = contacts
      .map(({ workerId: id, address, incarnation = 0 }) => ({ id, address, incarnation }))
      .toSorted((a, b) => (a.id < b.id ? -1 : 1));
    return JSON.stringify({ format: FORMAT, cluster, workers });
  }

  #decode(text: string): Contact[] {
    const { cluster, settings, environment } = this.#parts;
    const saved = JSON.parse(text) as Partial<SavedText>;
    if (saved.format !== FORMAT || saved.cluster !== cluster || !Array.isArray(saved.workers)) {
      const { format, cluster: other } = saved;
      environment.log.info("saved workers are another cluster's", { format, cluster: other });
      return [];
    }
    this.#written = text;
    const workers = saved.workers.slice(0, settings.workersMax);
    return workers.flatMap((worker) => (worker && readContact(worker)) ?? []);
  }
}

interface SavedText {
  readonly format: number;
  readonly cluster: string;
  readonly workers: readonly (WrittenContact | null)[];
}
