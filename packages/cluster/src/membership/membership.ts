// Membership is a hint: it says which workers announced what they hold, and where to connect.
// Routing follows what workers say on their own streams. A store that is down, flushed or lying
// never removes workers that still answer from the view.

import type { Incarnation, WorkerId } from "@winnow/core";
import type { Announcement } from "../announcement/announcement.ts";
import type { HeardWorker } from "../rpc/frames/frames.ts";
import type { Contact } from "../announcement/contact.ts";

/** The last good view of the cluster, replaced whole. */
export interface MembershipView {
  /** The accepted announcement of each worker, ascending by worker id. */
  readonly workers: readonly Announcement[];
  /** Where to look for each worker, even if its announcement is not accepted; ascending by id. */
  readonly contacts: readonly Contact[];
  /** Known members that do not answer at the moment (static membership); ascending by id. */
  readonly silent: readonly SilentMember[];
  /**
   * The ids to place partitions on, ascending. Static: the whole list, so a death moves no
   * partitions. Redis: announced workers that do not drain, and for `placementSettleMs` those that
   * vanished.
   */
  readonly placementWorkers: readonly WorkerId[];
  /** Monotonic ms at which the store last answered completely. */
  readonly readAtMs: number;
  /** False while the store does not answer; `workers` is then the last good view. */
  readonly healthy: boolean;
}

/** A member of which only the list's entry is known. */
export interface SilentMember {
  readonly workerId: WorkerId;
  readonly address: string;
}

/** Who is in the cluster: Redis, or a fixed address list. One suite of cases runs against both. */
export interface MembershipStore {
  /**
   * Whether the announcements of the view come from the workers themselves. Absent: they are records, which anybody
   * may have written.
   */
  readonly hearsMembers?: boolean;
  /**
   * The incarnation that is stored under a worker's id: a process that starts takes a higher one.
   * `undefined` where none is stored, or where the store does not answer soon.
   */
  lastIncarnation(workerId: WorkerId): Promise<Incarnation | undefined>;
  /**
   * Publishes this worker's announcement under a lease and keeps renewing it until `withdraw`. Does
   * not fail when the store does not answer: every renewal is another attempt.
   */
  announce(announcement: Announcement): Promise<void>;
  /** Stops renewing until the next `announce`: for a worker whose compute thread is stuck. */
  suspend(): void;
  /** Ends the announcement at once. Idempotent. */
  withdraw(): Promise<void>;
  /** Monotonic ms at which the store last answered completely; `undefined`: never. */
  readAtMs(): number | undefined;
  /** Calls `listener` with the current view soon, and again after every change. Returns an end. */
  watch(listener: (view: MembershipView) => void): () => void;
  /** Reports a live stream to a worker at this address, and the last announcement on it. */
  hear?(announcement: Announcement, address: string): void;
  /** Reports that the stream to this worker is over. */
  lose?(workerId: WorkerId): void;
  /** Workers that this process has heard of late, for the pong to another worker. */
  heard?(): readonly HeardWorker[];
  /** Reports that another worker has asked this one in doubt: some member does not answer it. */
  doubt?(): void;
  close(): Promise<void>;
}
