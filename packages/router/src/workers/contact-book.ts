// Addresses at which workers may be, and where each came from. All of them are hints (`Contact`); the best
// come first:
//
//   stored   the membership store, as it last answered
//   told     workers that this router is connected to, telling of each other
//   saved    this router's state file, from its last run
//
// A worker that a healthy store does not name is looked for a while longer and then forgotten, since other
// workers may learn of it earlier or later than this process does through the store.

import type { WorkerId } from "@winnow/core";
import type { Contact, MemberNews, MembershipView } from "@winnow/cluster";

/** Addresses that other workers told for one worker, at most. */
const TOLD_PER_WORKER_MAX = 2;

/** Hints by worker. */
export class ContactBook {
  readonly #workersMax: number;
  readonly #told = new Map<WorkerId, readonly Contact[]>();
  #stored: ReadonlyMap<WorkerId, Contact> = new Map();
  #saved: ReadonlyMap<WorkerId, Contact> = new Map();
  #isStoreHealthy = false;

  /** `workersMax` bounds the workers that others name; beyond it, those named first are forgotten. */
  constructor({ workersMax }: { readonly workersMax: number }) {
    this.#workersMax = workersMax;
  }

  /** Whether the store answers at present. */
  get isStoreHealthy(): boolean {
    return this.#isStoreHealthy;
  }

  /** All workers that any source names. */
  names(): ReadonlySet<WorkerId> {
    return new Set([...this.#stored.keys(), ...this.#told.keys(), ...this.#saved.keys()]);
  }

  /** Whether the store named the worker when it last answered. */
  isStored(id: WorkerId): boolean {
    return this.#stored.has(id);
  }

  /** Addresses where the worker may be, the best first, each once. */
  hintsOf(id: WorkerId): readonly Contact[] {
    const said = [this.#stored.get(id), ...(this.#told.get(id) ?? []), this.#saved.get(id)];
    const byAddress = new Map<string, Contact>();
    for (const hint of said) {
      if (hint === undefined) continue;
      const known = byAddress.get(hint.address);
      const isNewer = (hint.incarnation ?? 0) > (known?.incarnation ?? 0);
      if (known === undefined || isNewer) byAddress.set(hint.address, hint);
    }
    return [...byAddress.values()];
  }

  /** Replaces the contacts of the membership store. */
  setStored({ contacts, healthy }: MembershipView): void {
    this.#stored = new Map(contacts.map((contact) => [contact.workerId, contact]));
    this.#isStoreHealthy = healthy;
  }

  /** Where the last run met the worker, if that contact is still kept. */
  savedOf(id: WorkerId): Contact | undefined {
    return this.#saved.get(id);
  }

  /** Sets the contacts that the last run of this process saved. */
  setSaved(contacts: readonly Contact[]): void {
    this.#saved = new Map(contacts.map((contact) => [contact.workerId, contact]));
  }

  /** Adds contacts that a connected worker has told. */
  tell(news: readonly MemberNews[]): void {
    for (const { isGone, ...contact } of news) {
      const { workerId, incarnation = 0 } = contact;
      const known = this.#told.get(workerId) ?? [];
      this.#told.delete(workerId);
      const others = isGone
        ? known.filter((hint) => (hint.incarnation ?? 0) > incarnation)
        : known.filter((hint) => hint.address !== contact.address);
      const hints = isGone ? others : [contact, ...others].slice(0, TOLD_PER_WORKER_MAX);
      if (hints.length > 0) this.#told.set(workerId, hints);
    }
    for (const id of this.#told.keys()) {
      if (this.#told.size <= this.#workersMax) break;
      this.#told.delete(id);
    }
  }

  /** Drops a contact at which no worker answers and that the store does not name. */
  forget(id: WorkerId): void {
    this.#told.delete(id);
    if (!this.#saved.has(id)) return;
    this.#saved = new Map([...this.#saved].filter(([saved]) => saved !== id));
  }
}
