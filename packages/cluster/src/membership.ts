// Membership is a hint: it says who announced what they hold and where to connect. Routing follows
// what workers say on their own streams. A store that is down, flushed or lying never shrinks the
// view below what still answers.

import type { Announcement } from "./announcement.ts";

/** The last good view of the cluster, replaced whole. */
export interface MembershipView {
  /** Newest incarnation of each worker, ascending by worker id. */
  readonly workers: readonly Announcement[];
  /** Monotonic ms at which the store last answered completely. */
  readonly readAtMs: number;
  /** False while the store does not answer; `workers` is then the last good view. */
  readonly healthy: boolean;
}

/** Who is in the cluster: Redis, or a fixed address list. One suite of cases runs against both. */
export interface MembershipStore {
  /** Publishes this worker's announcement under a lease and keeps renewing it until `withdraw`. */
  announce(announcement: Announcement): Promise<void>;
  /** Ends the announcement at once. Idempotent. */
  withdraw(): Promise<void>;
  /** Calls `listener` with the current view soon, and again after every change. Returns an end. */
  watch(listener: (view: MembershipView) => void): () => void;
  close(): Promise<void>;
}
