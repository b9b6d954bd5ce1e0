// The addresses at which this router met its workers, kept across restarts. A router that starts while the
// membership store is away begins with these hints (`contact-book.ts`), and with the workers that the workers
// found there know. As with every hint, only the stream proves which worker is at an address, so an old file
// costs a few failed connections and nothing else.
//
// The file is written a while after something has changed, if its text differs. If it cannot be read or
// written, that is logged once, and the router goes on without it.

import { toWinnowError } from "@winnow/core";
import type { Environment, Timer } from "@winnow/core";
import { readContact } from "@winnow/cluster";
import type { Contact, StateFile, WrittenContact } from "@winnow/cluster";

/** What the file needs. */
export interface SavedContactsParts {
  readonly environment: Environment;
  readonly file: StateFile;
  /**
   * Which cluster the workers belong to, as a text that stays the same. A file written for another cluster is
   * not read, because its workers would be taken for this cluster's.
   */
  readonly cluster: string;
  readonly settings: { readonly saveDelayMs: number; readonly workersMax: number };
  /** The contacts to keep, as of now. Nothing is written while there are none. */
  readonly contacts: () => readonly Contact[];
}

/** A full disk may have room again after this. */
const RETRY_MS = 30_000;
/** Version of the file's format; a file with another one is not read. */
const FORMAT = 1;

/** The file of contacts of a router. */
export class SavedContacts {
  readonly #parts: SavedContactsParts;
  #written = "";
  #timer: Timer | undefined;
  #isFailing = false;
  #isClosed = false;

  constructor(parts: SavedContactsParts) {
    this.#parts = parts;
  }

  /** The contacts that the last run wrote; none if there is no file that can be read. */
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

  /** Contacts may have changed: they are written soon, with further changes until then. */
  changed(): void {
    this.#writeAfter(this.#parts.settings.saveDelayMs);
  }

  /** Writes changes that wait, and nothing after that. */
  close(): void {
    if (this.#isClosed) return;
    this.#isClosed = true;
    if (this.#timer === undefined) return;
    this.#parts.environment.clock.clearTimer(this.#timer);
    this.#timer = undefined;
    void this.#write(); // The process may end before it is written: the file then stays as it was.
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
