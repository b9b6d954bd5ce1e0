// What commands see of a cluster's members while they run.

import type { MembershipStore, MembershipView } from "@winnow/cluster";
import { WinnowError, sleep, systemClock } from "@winnow/core";

/** Longest wait for what should come soon. */
const WAIT_MS = 10_000;
const LOOK_INTERVAL_MS = 100;

/** The members as they are seen now, or were when somebody answered last. */
export class MemberWatch {
  #view: MembershipView | undefined;

  constructor(membership: Pick<MembershipStore, "watch">) {
    membership.watch((seen) => {
      if (seen.healthy || this.#view !== undefined) this.#view = seen;
    });
  }

  /** The last one seen. @throws WinnowError UNAVAILABLE where nobody has answered yet */
  get view(): MembershipView {
    if (this.#view !== undefined) return this.#view;
    throw new WinnowError("UNAVAILABLE", "Neither Redis nor any listed member answers");
  }

  /** Waits until the members are seen and `isDone`, or until the wait is over. */
  async until(isDone: (view: MembershipView) => boolean, waitMs: number = WAIT_MS): Promise<void> {
    const endMs = systemClock.nowMs() + waitMs;
    const isOver = (): boolean => systemClock.nowMs() >= endMs;
    while (!this.#isSeen(isDone) && !isOver()) await sleep(systemClock, LOOK_INTERVAL_MS);
  }

  #isSeen(isDone: (view: MembershipView) => boolean): boolean {
    return this.#view?.healthy === true && isDone(this.#view);
  }
}
