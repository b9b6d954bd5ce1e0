// A cluster's members, as commands see them while they run.

import type { MembershipStore, MembershipView } from "@winnow/cluster";
import { WinnowError, sleep, systemClock } from "@winnow/core";

/** Longest wait for something that should happen soon. */
const WAIT_MS = 10_000;
const LOOK_INTERVAL_MS = 100;

/** The members as they are, or as they were when the store last answered. */
export class MemberWatch {
  #view: MembershipView | undefined;

  constructor(membership: Pick<MembershipStore, "watch">) {
    membership.watch((seen) => {
      if (seen.healthy || this.#view !== undefined) this.#view = seen;
    });
  }

  /** The last view. @throws WinnowError UNAVAILABLE if nobody has answered yet */
  get view(): MembershipView {
    if (this.#view !== undefined) return this.#view;
    throw new WinnowError("UNAVAILABLE", "Neither Redis nor any listed member answers");
  }

  /** Waits until there is a view for which `isDone` holds, or until the wait is over. */
  async until(isDone: (view: MembershipView) => boolean, waitMs: number = WAIT_MS): Promise<void> {
    const endMs = systemClock.nowMs() + waitMs;
    const isOver = (): boolean => systemClock.nowMs() >= endMs;
    while (!this.#isSeen(isDone) && !isOver()) await sleep(systemClock, LOOK_INTERVAL_MS);
  }

  #isSeen(isDone: (view: MembershipView) => boolean): boolean {
    return this.#view?.healthy === true && isDone(this.#view);
  }
}
