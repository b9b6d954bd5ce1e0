// Membership in one process: a Map that every worker of a test announces to and watches.

import type { Announcement, MembershipStore, MembershipView } from "@winnow/cluster";
import type { WorkerId } from "@winnow/core";

/** Joins the workers of one test. */
export class MembershipHub {
  readonly announcements = new Map<WorkerId, Announcement>();
  /** Pings in doubt that workers reported. */
  doubts = 0;
  readonly #listeners = new Set<(view: MembershipView) => void>();

  /** One worker's store. */
  store(): MembershipStore {
    let own: WorkerId | undefined;
    const stops: (() => void)[] = [];
    return {
      announce: async (announcement) => {
        own = announcement.workerId;
        this.announcements.set(own, announcement);
        this.#publish();
      },
      lastIncarnation: async (id) => this.announcements.get(id)?.incarnation,
      suspend: () => undefined,
      withdraw: async () => {
        if (own !== undefined) this.announcements.delete(own);
        this.#publish();
      },
      readAtMs: () => 0,
      doubt: () => (this.doubts += 1),
      watch: (listener) => {
        this.#listeners.add(listener);
        setImmediate(() => listener(this.#view()));
        const stop = (): void => void this.#listeners.delete(listener);
        stops.push(stop);
        return stop;
      },
      close: async () => {
        for (const stop of stops) stop();
      },
    };
  }

  #publish(): void {
    setImmediate(() => {
      for (const listener of this.#listeners) listener(this.#view());
    });
  }

  #view(): MembershipView {
    const workers = [...this.announcements.values()].toSorted((a, b) =>
      a.workerId < b.workerId ? -1 : 1,
    );
    const placed = workers.filter(({ state }) => state !== "draining");
    return {
      workers,
      contacts: workers,
      readAtMs: 0,
      healthy: true,
      silent: [],
      placementWorkers: placed.map(({ workerId }) => workerId),
    };
  }
}
