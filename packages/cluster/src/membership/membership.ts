// Membership is a hint: it says who announced what they hold and where to connect. Routing follows
// what workers say on their own streams. A store that is down, flushed or lying never shrinks the
// view below what still answers.

import type { Incarnation, WorkerId } from "@winnow/core";
import type { Announcement } from "../announcement/announcement.ts";
import type { HeardWorker } from "../rpc/frames.ts";
import type { Contact } from "../announcement/contact.ts";

/** The last good view of the cluster, replaced whole. */
export interface MembershipView {
  /** What each worker is believed to say of itself, ascending by worker id. */
  readonly workers: readonly Announcement[];
  /** Where to look for each worker, also where what is said there is not believed; ascending by id. */
  readonly contacts: readonly Contact[];
  /** Known members that do not answer at the moment (static membership); ascending by id. */
  readonly silent: readonly SilentMember[];
  /**
   * The ids to place partitions on, ascending. Static: the whole list, so a death moves nothing.
   * Redis: those announced and not draining; a worker that vanished stays for `placementSettleMs`.
   */
  readonly placementWorkers: readonly WorkerId[];
  /** Monotonic ms at which the store last answered completely. */
  readonly readAtMs: number;
  /** False while the store does not answer; `workers` is then the last good view. */
  readonly healthy: boolean;
}

/** A member that is known by the list alone. */
export interface SilentMember {
  readonly workerId: WorkerId;
  readonly address: string;
}

/** Who is in the cluster: Redis, or a fixed address list. One suite of cases runs against both. */
export interface MembershipStore {
  /**
   * The incarnation that is stored under a worker's id, for the next life to number itself above;
   * `undefined` where there is none, or where the store does not answer soon.
   */
  lastIncarnation(workerId: WorkerId): Promise<Incarnation | undefined>;
  /**
   * Publishes this worker's announcement under a lease and keeps renewing it until `withdraw`. A
   * store that does not answer is tried again with every renewal; that is no error.
   */
  announce(announcement: Announcement): Promise<void>;
  /** Stops renewing until the next `announce`: for a worker whose compute side stands still. */
  suspend(): void;
  /** Ends the announcement at once. Idempotent. */
  withdraw(): Promise<void>;
  /** Monotonic ms at which it last answered completely; `undefined`: never. */
  readAtMs(): number | undefined;
  /** Calls `listener` with the current view soon, and again after every change. Returns an end. */
  watch(listener: (view: MembershipView) => void): () => void;
  /** A stream to a worker at this address is alive, and this is what was last said on it. */
  hear?(announcement: Announcement, address: string): void;
  /** That stream is over. */
  lose?(workerId: WorkerId): void;
  /** Whom this process hears, for another worker that asks. */
  heard?(): readonly HeardWorker[];
  close(): Promise<void>;
}
