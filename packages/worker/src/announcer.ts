// Announces what this worker holds: in the membership store and, in-band, to every connected
// router. Changes in quick succession (partition after partition) share an announcement, at most
// one per `announceIntervalMs`, and fewer where one takes long to make: who hears it has as much to do.
// The last state is always announced.

import type { Announcement, MembershipStore, WorkerLink } from "@winnow/cluster";
import { settledWithin } from "@winnow/core";
import type { Environment, Timer } from "@winnow/core";

const WITHDRAW_MS_MAX = 2000;
/** Times that making an announcement took until the next one; and ms at most. */
const REST_FACTOR = 20;
const REST_MS_MAX = 1000;

/** What an announcer needs of its worker. */
export interface AnnouncerParts {
  readonly environment: Environment;
  readonly membership: MembershipStore;
  /** Gives the worker's announcement as of the moment of the call. */
  readonly announcement: () => Announcement;
  readonly announceIntervalMs: number;
}

/** Announces until closed. */
export class Announcer {
  readonly #parts: AnnouncerParts;
  readonly #links = new Set<WorkerLink>();
  #told = "";
  #nextAtMs = -Infinity;
  #timer: Timer | undefined;
  #isSuspended = false;
  #isClosed = false;

  constructor(parts: AnnouncerParts) {
    this.#parts = parts;
  }

  /** Adds a router's stream. Changes are sent on it from now on; the caller has already sent the current state. */
  addLink(link: WorkerLink): void {
    this.#links.add(link);
  }

  removeLink(link: WorkerLink): void {
    this.#links.delete(link);
  }

  /** To be called after any change: an announcement follows within `announceIntervalMs`. */
  changed(): void {
    if (this.#isClosed || this.#timer !== undefined) return;
    const { clock } = this.#parts.environment;
    const dueMs = this.#nextAtMs - clock.nowMs();
    if (dueMs <= 0) this.#tell();
    else this.#timer = clock.setTimer(dueMs, () => this.#tell());
  }

  /** Announces the current state at once, for a change that must not wait (a drain). */
  flush(): void {
    if (!this.#isClosed) this.#tell();
  }

  /** While suspended, the lease is not renewed and runs out; connected routers still hear of changes. */
  suspend(isSuspended: boolean): void {
    this.#isSuspended = isSuspended;
    if (isSuspended) this.#parts.membership.suspend();
    else this.#publish(this.#parts.announcement());
  }

  /** Ends every router's stream: their queries fail over to other replicas at once. */
  closeLinks(): void {
    for (const link of this.#links) link.close();
  }

  /** Leaves membership. Waits at most 2 s for the store: without a withdrawal the lease runs out by itself. */
  async withdraw(): Promise<void> {
    const { membership, environment } = this.#parts;
    const { clock, log } = environment;
    const withdrawal = membership.withdraw().catch((error: unknown) => {
      log.warn("withdrawal failed", { error });
    });
    await settledWithin(clock, WITHDRAW_MS_MAX, withdrawal);
  }

  close(): void {
    this.#isClosed = true;
    if (this.#timer !== undefined) this.#parts.environment.clock.clearTimer(this.#timer);
  }

  #tell(): void {
    const { clock } = this.#parts.environment;
    if (this.#timer !== undefined) clock.clearTimer(this.#timer);
    this.#timer = undefined;
    const startedMs = clock.nowMs();
    const announcement = this.#parts.announcement();
    const text = JSON.stringify(announcement);
    if (text === this.#told) return;
    this.#told = text;
    for (const link of this.#links) link.announce(announcement);
    if (!this.#isSuspended) this.#publish(announcement);
    const endedMs = clock.nowMs();
    const restMs = Math.min(REST_MS_MAX, REST_FACTOR * (endedMs - startedMs));
    this.#nextAtMs = endedMs + Math.max(this.#parts.announceIntervalMs, restMs);
  }

  #publish(announcement: Announcement): void {
    const { membership, environment } = this.#parts;
    // Not awaited: if the store does not answer, the next renewal of the lease announces again.
    membership.announce(announcement).catch((error: unknown) => {
      environment.log.warn("announcement failed", { error });
    });
  }
}
