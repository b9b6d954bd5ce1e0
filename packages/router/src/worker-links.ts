// Which workers this router is connected to. Membership says where to connect; the stream says what
// is true. A member that a healthy store no longer names is let go only when its stream is dead too,
// so an empty, failed or flushed store takes nothing away from a cluster that answers.

import type { Environment, Incarnation, WinnowError, WorkerId } from "@winnow/core";
import { WorkerChannel } from "@winnow/cluster";
import type {
  Announcement,
  MembershipStore,
  MembershipView,
  WorkerConnector,
} from "@winnow/cluster";
import type { RouterSettings } from "./router-settings.ts";
import { WorkerPeer } from "./worker-peer.ts";

/** What links need of the world. */
export interface WorkerLinksParts {
  readonly environment: Environment;
  readonly connector: WorkerConnector;
  readonly membership: MembershipStore;
  readonly settings: RouterSettings;
  /** Runs at the end of the current turn, so that questions of one turn share a frame. */
  readonly defer?: ((run: () => void) => void) | undefined;
}

interface Member {
  readonly workerId: WorkerId;
  readonly address: string;
  /** `undefined` for a member known by the list alone. */
  readonly incarnation: Incarnation | undefined;
}

/** Streams to all known workers. */
export class WorkerLinks {
  readonly #parts: WorkerLinksParts;
  readonly #onChange: () => void;
  readonly #peers = new Map<WorkerId, WorkerPeer>();
  readonly #endWatch: () => void;
  #view: MembershipView | undefined;
  #closed = false;
  #endTicks: () => void;

  /** `onChange` is called whenever a table built from the announcements might differ. */
  constructor(parts: WorkerLinksParts, onChange: () => void) {
    this.#parts = parts;
    this.#onChange = onChange;
    this.#endTicks = this.#scheduleTick();
    this.#endWatch = parts.membership.watch((view) => this.#onView(view));
  }

  /** Every known worker, connected or not. */
  get peers(): ReadonlyMap<WorkerId, WorkerPeer> {
    return this.#peers;
  }

  /** What the workers say whose streams are open: what tables are built from. */
  announcements(): readonly Announcement[] {
    return [...this.#peers.values()].flatMap((peer) =>
      peer.askable ? (peer.announcement ?? []) : [],
    );
  }

  /** Workers as the store last knew them, connected or not. */
  members(): readonly Announcement[] {
    return this.#view?.workers ?? [];
  }

  /** Last words of workers that cannot be asked now: what they knew is absent, not unknown. */
  unreachable(): readonly Announcement[] {
    const silent = [...this.#peers.values()].filter((peer) => !peer.askable);
    const ids = new Set(silent.map((peer) => peer.id));
    const said = this.members().filter((member) => ids.has(member.workerId));
    return [...said, ...silent.flatMap((peer) => peer.announcement ?? [])];
  }

  #onView(view: MembershipView): void {
    if (this.#closed) return;
    this.#view = view;
    for (const member of membersOf(view)) this.#keep(member);
    for (const peer of this.#peers.values()) this.#letGoIfGone(peer);
    this.#onChange();
  }

  /** Connects to a member, or to its new address. */
  #keep(member: Member): void {
    let peer = this.#peers.get(member.workerId);
    if (peer === undefined) {
      peer = new WorkerPeer({ id: member.workerId, ...this.#parts });
      this.#peers.set(member.workerId, peer);
    }
    const known = peer.announcement?.incarnation;
    const isOld =
      known !== undefined && member.incarnation !== undefined && member.incarnation < known;
    if (isOld) return;
    const isNewLife = member.incarnation !== undefined && peer.supersede(member.incarnation);
    if (peer.askable) return;
    // A worker that is back is called at once, not after what is left of the wait for it.
    if (isNewLife || peer.address !== member.address) this.#connect(peer, member.address);
  }

  #connect(peer: WorkerPeer, address: string): void {
    const { environment, connector, settings, defer } = this.#parts;
    peer.close();
    const isCurrent = (): boolean => peer.channel === channel;
    const channel: WorkerChannel = new WorkerChannel(
      { environment, connector, routerId: settings.routerId, ...(defer && { defer }) },
      {
        onAnnouncement: (announcement) => {
          if (!isCurrent() || !this.#isHimself(peer, announcement)) return;
          if (!peer.connected)
            environment.log.info("worker connected", { worker: peer.id, address });
          peer.onAnnouncement(announcement);
          this.#onChange();
        },
        onPong: (pong) => isCurrent() && peer.onPong(pong),
        onDrain: () => isCurrent() && this.#onChange(),
        onDisconnect: (error) => isCurrent() && this.#onDisconnect(peer, error),
      },
      {
        address,
        pendingMax: settings.linkQueriesMax,
        unsentBytesMax: settings.linkBytesMax,
        reconnectMinMs: settings.reconnectDelayMs,
        reconnectMaxMs: settings.reconnectDelayMsMax,
        connectTimeoutMs: settings.helloTimeoutMs,
      },
    );
    peer.attach(channel);
  }

  /** A worker under another name at a member's address is not that member. */
  #isHimself(peer: WorkerPeer, announcement: Announcement): boolean {
    if (announcement.workerId === peer.id) return true;
    this.#parts.environment.log.warn("address answers as another worker", {
      worker: peer.id,
      answersAs: announcement.workerId,
    });
    return false;
  }

  #onDisconnect(peer: WorkerPeer, error: WinnowError | undefined): void {
    if (this.#closed) return;
    if (peer.connected) {
      const { code, message } = error ?? { code: "OK", message: "The worker ended the stream" };
      this.#parts.environment.log.warn("worker disconnected", { worker: peer.id, code, message });
    }
    peer.onDisconnect();
    this.#letGoIfGone(peer);
    this.#onChange();
  }

  #letGoIfGone(peer: WorkerPeer): void {
    if (this.#view?.healthy !== true || peer.connected) return;
    if (membersOf(this.#view).some((member) => member.workerId === peer.id)) return;
    peer.close();
    this.#peers.delete(peer.id);
  }

  #scheduleTick(): () => void {
    const { environment, settings } = this.#parts;
    const dueMs = environment.clock.nowMs() + settings.pingIntervalMs;
    const timer = environment.clock.setTimer(settings.pingIntervalMs, () => {
      this.#endTicks = this.#scheduleTick();
      this.#tick(environment.clock.nowMs() - dueMs > settings.ownLagMs);
    });
    return () => environment.clock.clearTimer(timer);
  }

  #tick(late: boolean): void {
    for (const peer of this.#peers.values()) {
      peer.tick(late);
      if (peer.misses < this.#parts.settings.closeAfterMisses) continue;
      this.#parts.environment.log.warn("stream of a silent worker closed", { worker: peer.id });
      this.#connect(peer, peer.address!);
      this.#onChange();
    }
  }

  /** Ends all streams. */
  close(): void {
    this.#closed = true;
    this.#endWatch();
    this.#endTicks();
    for (const peer of this.#peers.values()) peer.close();
    this.#peers.clear();
  }
}

function membersOf(view: MembershipView): Member[] {
  const silent = view.silent.map((member) => ({ ...member, incarnation: undefined }));
  return [...view.workers, ...silent];
}
