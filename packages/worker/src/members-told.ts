// Tells every connected router the contacts of the other workers in this worker's membership view. A router
// that is cut off from the store, or restarted while the store is away, thus meets every worker that some
// connected worker knows. A new stream gets all contacts, and later only changes. To the router they are
// hints where to connect, like the records of a store.

import type { Contact, MemberNews, MembershipView, WorkerLink } from "@winnow/cluster";
import type { WorkerId } from "@winnow/core";

/** The contacts that routers have been told, and the routers' streams. */
export class MembersTold {
  readonly #workerId: WorkerId;
  readonly #links = new Set<WorkerLink>();
  #told: ReadonlyMap<WorkerId, Contact> = new Map();

  constructor(workerId: WorkerId) {
    this.#workerId = workerId;
  }

  /** Adds a router's stream: all contacts are sent at once, and changes from then on. */
  addLink(link: WorkerLink): void {
    this.#links.add(link);
    const all = [...newsOf(new Map(), this.#told)];
    if (all.length > 0) link.tellMembers(all);
  }

  removeLink(link: WorkerLink): void {
    this.#links.delete(link);
  }

  /** Takes a new view of this worker's store, and tells what has changed. */
  setView({ contacts }: MembershipView): void {
    const named = new Map<WorkerId, Contact>();
    for (const contact of contacts) {
      if (contact.workerId !== this.#workerId) named.set(contact.workerId, contact);
    }
    const news = [...newsOf(this.#told, named)];
    this.#told = named;
    if (news.length === 0) return;
    for (const link of this.#links) link.tellMembers(news);
  }
}

function* newsOf(
  before: ReadonlyMap<WorkerId, Contact>,
  now: ReadonlyMap<WorkerId, Contact>,
): Iterable<MemberNews> {
  for (const { workerId, address, incarnation } of now.values()) {
    const told = before.get(workerId);
    const isNew = told?.address !== address || told.incarnation !== incarnation;
    if (isNew) yield { workerId, address, incarnation, isGone: false };
  }
  for (const contact of before.values()) {
    if (!now.has(contact.workerId)) yield { ...contact, isGone: true };
  }
}
