// Which workers this router knows. Records and other workers name addresses (`contact-book.ts`); only the
// stream to a worker proves what it holds (`worker-contact.ts`). A member that a healthy store no longer
// names is dropped only when its stream is dead too, so an empty, failed or flushed store removes no worker
// that answers. Invented names remove none either: there are `workersMax` places, workers that were met keep
// theirs, and of the others `callsPerSecond` are called.
//
// There is a tick every `pingIntervalMs` while some worker is asked, looked for or silent. While all are at
// rest, the next tick is when a ping is due.

import { setGraceTimer } from "@winnow/core";
import type { GraceTimer, WorkerId } from "@winnow/core";
import type {
  Announcement,
  Contact,
  MemberNews,
  MembershipStore,
  MembershipView,
} from "@winnow/cluster";
import { ContactBook } from "./contact-book.ts";
import { SavedContacts } from "./saved-contacts.ts";
import type { SavedContactsParts } from "./saved-contacts.ts";
import { WorkerContact } from "./worker-contact.ts";
import type { UnreachableWorker, WorkerContactParts } from "./worker-contact.ts";
import type { WorkerPeer } from "./worker-peer.ts";

/** What the links need. */
export interface WorkerLinksParts extends Omit<
  WorkerContactParts,
  "onChange" | "onWork" | "onMembers" | "onUnreachable"
> {
  readonly membership: MembershipStore;
  /** Where workers are kept across restarts, and for which cluster. Default: nowhere. */
  readonly saved?: SavedWorkers | undefined;
}

/** The state file for the workers' contacts, and the cluster that they belong to (`SavedContacts`). */
export type SavedWorkers = Pick<SavedContactsParts, "file" | "cluster">;

/** Streams to all known workers. */
export class WorkerLinks {
  readonly #parts: WorkerLinksParts;
  readonly #onChange: () => void;
  readonly #contacts = new Map<WorkerId, WorkerContact>();
  readonly #peers = new Map<WorkerId, WorkerPeer>();
  readonly #endWatch: () => void;
  readonly #book: ContactBook;
  readonly #saved: SavedContacts | undefined;
  #view: MembershipView | undefined;
  /** Calls of workers never met that may be made at present. */
  #allowance: number;
  #earnedAtMs: number;
  #closed = false;
  #ticks: GraceTimer;
  #isResting = false;
  /** Workers that were told as unreachable since then. */
  #toldUnreachable = { sinceMs: Number.NEGATIVE_INFINITY, count: 0 };

  /** `onChange` is called whenever a table made from the announcements might differ. */
  constructor(parts: WorkerLinksParts, onChange: () => void) {
    this.#parts = parts;
    this.#onChange = onChange;
    this.#book = new ContactBook(parts.settings);
    this.#allowance = parts.settings.callsMax;
    this.#earnedAtMs = parts.environment.clock.nowMs();
    this.#ticks = this.#scheduleTick();
    this.#endWatch = parts.membership.watch((view) => this.#onView(view));
    if (parts.saved === undefined) return;
    const contacts = (): readonly Contact[] => this.#worthSaving();
    this.#saved = new SavedContacts({ ...parts, ...parts.saved, contacts });
    void this.#saved.read().then((saved) => this.#remember(saved)); // Never rejects.
  }

  /** All known workers, connected or not. */
  get peers(): ReadonlyMap<WorkerId, WorkerPeer> {
    return this.#peers;
  }

  /** Announcements of the workers with open streams, from which tables are made. */
  announcements(): readonly Announcement[] {
    return [...this.#peers.values()].flatMap((peer) =>
      peer.askable ? (peer.announcement ?? []) : [],
    );
  }

  /** Workers as the store last knew them, connected or not. */
  members(): readonly Announcement[] {
    return this.#view?.workers ?? [];
  }

  /** Last announcements of workers that cannot be asked at present: what they hold is absent, not unknown. */
  unreachable(): readonly Announcement[] {
    const silent = [...this.#peers.values()].filter((peer) => !peer.askable);
    const ids = new Set(silent.map((peer) => peer.id));
    const said = this.members().filter((member) => ids.has(member.workerId));
    return [...said, ...silent.flatMap((peer) => peer.announcement ?? [])];
  }

  #onView(view: MembershipView): void {
    if (this.#closed) return;
    this.#view = view;
    this.#book.setStored(view);
    for (const contact of this.#contacts.values()) {
      contact.aim(this.#book.hintsOf(contact.id));
      this.#letGoIfGone(contact);
    }
    this.#admitNamed();
    this.#call();
    this.#wake();
    this.#onChange();
  }

  /** Follows the contacts that the last run of this process saved. */
  #remember(saved: readonly Contact[]): void {
    if (this.#closed) return;
    this.#book.setSaved(saved);
    for (const contact of this.#contacts.values()) contact.aim(this.#book.hintsOf(contact.id));
    this.#admitNamed();
    this.#call();
    this.#wake();
  }

  /** Where workers were met, in this run or the last one; nothing before any was met in this run. */
  #worthSaving(): readonly Contact[] {
    const contacts = [...this.#contacts.values()];
    if (!contacts.some(({ isMet }) => isMet)) return [];
    return contacts.flatMap(({ id, lastMet }) => lastMet ?? this.#book.savedOf(id) ?? []);
  }

  /** A connected worker tells where others are. */
  #onMembers(news: readonly MemberNews[]): void {
    if (this.#closed) return;
    this.#book.tell(news);
    for (const { workerId } of news) {
      const contact = this.#contacts.get(workerId);
      if (contact === undefined) continue;
      contact.aim(this.#book.hintsOf(workerId));
      this.#letGoIfGone(contact);
    }
    this.#admitNamed();
    this.#call();
    this.#wake();
  }

  /**
   * Adds names that are not known yet. If there are more names than places, workers that were called without
   * an answer give their places to others in rotation, so that invented names keep no real worker out for
   * long.
   */
  #admitNamed(): void {
    const { settings, environment } = this.#parts;
    const strangers = [...this.#book.names()].filter((id) => !this.#contacts.has(id));
    if (strangers.length === 0) return;
    const isCrowded = this.#contacts.size + strangers.length > settings.workersMax;
    const displaceable = [...this.#contacts.values()].filter(
      ({ isMet, failures }) => isCrowded && !isMet && failures >= TRIES_MIN,
    );
    const first = Math.floor(environment.random() * strangers.length);
    for (const id of [...strangers.slice(first), ...strangers.slice(0, first)]) {
      if (this.#contacts.size >= settings.workersMax) {
        const displaced = displaceable.pop();
        if (displaced === undefined) return;
        this.#drop(displaced);
      }
      this.#admit(id).aim(this.#book.hintsOf(id));
    }
  }

  #admit(id: WorkerId): WorkerContact {
    const onChange = (): void => {
      this.#letGoIfGone(contact);
      this.#call();
      this.#saved?.changed();
      this.#wake();
      this.#onChange();
    };
    const onMembers = (news: readonly MemberNews[]): void => this.#onMembers(news);
    const contact: WorkerContact = new WorkerContact(id, {
      ...this.#parts,
      onChange,
      onWork: () => this.#wake(),
      onUnreachable: (fields) => this.#tellUnreachable(fields),
      peers: () => this.#peers.values(),
      onMembers,
    });
    this.#contacts.set(id, contact);
    this.#peers.set(id, contact.peer);
    return contact;
  }

  /** Anybody who reaches the store may name workers, so a bounded number of them is logged. */
  #tellUnreachable(fields: UnreachableWorker): void {
    const { clock, log } = this.#parts.environment;
    const nowMs = clock.nowMs();
    if (nowMs - this.#toldUnreachable.sinceMs >= TELLING_MS) {
      this.#toldUnreachable = { sinceMs: nowMs, count: 0 };
    }
    this.#toldUnreachable.count += 1;
    if (this.#toldUnreachable.count <= TOLD_MAX)
      log.warn("worker cannot be reached", { ...fields });
  }

  /** Follows hints of workers that are not connected; for workers never met, a limited number per second. */
  #call(): void {
    if (this.#closed) return;
    const { environment, settings } = this.#parts;
    const nowMs = environment.clock.nowMs();
    const earned = ((nowMs - this.#earnedAtMs) / 1000) * settings.callsPerSecond;
    this.#allowance = Math.min(settings.callsMax, this.#allowance + earned);
    this.#earnedAtMs = nowMs;
    const contacts = [...this.#contacts.values()];
    for (const contact of contacts) if (contact.isMet) contact.follow();
    const strangers = contacts.filter(({ isMet }) => !isMet);
    const first = Math.floor(environment.random() * strangers.length);
    const byTurns = [...strangers.slice(first), ...strangers.slice(0, first)];
    const uncalled = byTurns.filter(({ failures }) => failures === 0);
    const called = byTurns.filter(({ failures }) => failures > 0);
    for (const contact of [...uncalled, ...called]) {
      if (this.#allowance < 1) return;
      if (contact.follow()) this.#allowance -= 1;
    }
  }

  /** A worker that is not connected stays while any source names it, or the store may yet name it. */
  #letGoIfGone(contact: WorkerContact): void {
    const { id, peer, silentMs } = contact;
    if (peer.connected || this.#book.isStored(id)) return;
    const isLookedFor = !this.#book.isStoreHealthy || silentMs < this.#parts.settings.unstoredMs;
    if (isLookedFor && this.#book.hintsOf(id).length > 0) return;
    if (!this.#book.isStoreHealthy && contact.isMet) return;
    this.#book.forget(id);
    this.#drop(contact);
    this.#saved?.changed();
  }

  #drop(contact: WorkerContact): void {
    contact.close();
    if (this.#contacts.get(contact.id) !== contact) return;
    this.#contacts.delete(contact.id);
    this.#peers.delete(contact.id);
  }

  /** Something has changed: resting ends if the change needs ticks. */
  #wake(): void {
    if (!this.#isResting || this.#closed || this.#restMs() > 0) return;
    this.#ticks.clear();
    this.#ticks = this.#scheduleTick();
  }

  /** Ms for which no worker needs a tick. */
  #restMs(): number {
    let restMs = Infinity;
    for (const { restingMs } of this.#contacts.values()) {
      if (restingMs === 0) return 0;
      restMs = Math.min(restMs, restingMs);
    }
    const hasStrangers = [...this.#book.names()].some((id) => !this.#contacts.has(id));
    return restMs === Infinity || hasStrangers ? 0 : restMs;
  }

  /** A tick judges workers by their last ping, so its timer waits until this process has listened. */
  #scheduleTick(): GraceTimer {
    const { environment, settings } = this.#parts;
    const { clock } = environment;
    const { pingIntervalMs, ownLagMs } = settings;
    const restMs = this.#restMs();
    this.#isResting = restMs > pingIntervalMs;
    if (!this.#isResting) {
      return setGraceTimer(clock, { delayMs: pingIntervalMs, ownLagMs }, () => this.#tick());
    }
    // No worker owes an answer, so none is judged. Pings that are due at about the same time share a tick.
    const nowMs = clock.nowMs();
    const dueMs = nowMs + restMs - pingIntervalMs / 2;
    const tickMs = Math.ceil(dueMs / REST_GRID_MS) * REST_GRID_MS;
    const timer = clock.setTimer(tickMs - nowMs, () => this.#tick());
    return { clear: () => clock.clearTimer(timer) };
  }

  #tick(): void {
    for (const contact of this.#contacts.values()) {
      contact.tick();
      this.#letGoIfGone(contact);
    }
    this.#admitNamed();
    this.#call();
    this.#ticks = this.#scheduleTick();
  }

  /** Ends all streams. */
  close(): void {
    this.#closed = true;
    this.#endWatch();
    this.#ticks.clear();
    this.#saved?.close();
    for (const contact of this.#contacts.values()) contact.close();
    this.#contacts.clear();
    this.#peers.clear();
  }
}

/** Workers that cannot be reached and are logged, at most, within these ms. */
const TOLD_MAX = 16;
const TELLING_MS = 60_000;

/** Ticks at rest are at multiples of this. */
const REST_GRID_MS = 200;

/** Failed calls after which a worker that was never met may give its place to another. */
const TRIES_MIN = 2;
