// One worker's id: the addresses where the worker may be, and the process that was met there. Hints name
// addresses (`Contact`); only an announcement on a stream proves a worker (`succession.ts` in the cluster
// package). A record never closes a stream: an open stream stays until another process has announced itself
// as the worker.
//
//   hints ──▶ call: one stream at a time, to one address, until its first announcement
//               │ another worker's id, or a process that was replaced, or the older of two that are alive
//               ├───────────────────────────────────────────────▶ hung up; the hint rests for a while
//               │ the worker
//               ▼
//             channel: carries questions, and opens its stream again at its address whenever it breaks
//
// A process that was replaced, and whose successor has been gone for long, is told so on the call: once it
// has taken a number above its successor's it is a new incarnation, and accepted like any other.
//
// While the channel answers, calls beside it only follow hints with a higher number; once it does not answer, all
// hints with another number or another address.

import type { Environment, WorkerId, WinnowError } from "@winnow/core";
import { WorkerChannel, meet, memberFault, renumbered, unmet } from "@winnow/cluster";
import type {
  Announcement,
  Contact,
  MemberNews,
  MembershipStore,
  WorkerConnector,
} from "@winnow/cluster";
import type { RouterSettings } from "../router-settings.ts";
import { WorkerPeer } from "./worker-peer.ts";

/** What a contact needs. */
export interface WorkerContactParts {
  readonly environment: Environment;
  readonly connector: WorkerConnector;
  readonly settings: RouterSettings;
  /** Runs a function at the end of the current turn, so that questions of one turn share a frame. */
  readonly defer?: ((run: () => void) => void) | undefined;
  /** Something that the routing table is made from may have changed. */
  readonly onChange: () => void;
  /** The worker was at rest and is asked now. */
  readonly onWork?: (() => void) | undefined;
  /** All workers that were met or are looked for. */
  readonly peers?: (() => Iterable<WorkerPeer>) | undefined;
  /** Told that the worker is there, and when it no longer is. */
  readonly membership: Pick<MembershipStore, "hear" | "lose">;
  /** Told once when a worker has not been reached for long. */
  readonly onUnreachable: (fields: UnreachableWorker) => void;
  /** Called when this worker tells where other workers are. */
  readonly onMembers: (news: readonly MemberNews[]) => void;
}

/** Where a worker was looked for, and why it was not reached. */
export interface UnreachableWorker {
  readonly worker: WorkerId;
  readonly address: string;
  readonly message: string;
}

/** A hint, and the result of the last attempt to follow it. */
interface FollowedHint {
  readonly contact: Contact;
  failures: number;
  notBeforeMs: number;
}

/** A stream on which the worker has not announced itself yet. */
interface Call {
  readonly channel: WorkerChannel;
  readonly hint: FollowedHint;
  /** The call is ended at this time. A stream that does not answer at all ends by itself. */
  readonly untilMs: number;
}

/** A worker, met or not. */
export class WorkerContact {
  readonly peer: WorkerPeer;
  readonly #parts: WorkerContactParts;
  #hints: readonly FollowedHint[] = [];
  #succession = unmet;
  #channel: WorkerChannel | undefined;
  #call: Call | undefined;
  #silentMs = 0;
  #lastMet: Contact | undefined;
  /** When an attempt failed for the first time since the worker was connected. */
  #unreachedSinceMs: number | undefined;
  #isUnreachableTold = false;
  /** Other workers that answered in this worker's place; each is logged once, until the worker itself is met. */
  readonly #strangers = new Set<string>();
  #isClosed = false;

  constructor(id: WorkerId, parts: WorkerContactParts) {
    this.#parts = parts;
    this.peer = new WorkerPeer({ id, ...parts });
  }

  get id(): WorkerId {
    return this.peer.id;
  }

  /** Whether the worker was ever met. */
  get isMet(): boolean {
    return this.#succession.current !== undefined;
  }

  /** Failed calls in a row, at the hint that failed least. */
  get failures(): number {
    return Math.min(Infinity, ...this.#hints.map(({ failures }) => failures));
  }

  /** How long this process has listened without an answer. */
  get silentMs(): number {
    return this.#silentMs;
  }

  /** Where the worker was last met; `undefined`: nowhere yet. */
  get lastMet(): Contact | undefined {
    return this.#lastMet;
  }

  /** Ms until the next tick is needed; 0 unless the worker answers, is at rest, and no hint points elsewhere. */
  get restingMs(): number {
    if (this.#call !== undefined || this.#channel === undefined || !this.peer.answers) return 0;
    if (this.#hints.some(({ contact }) => this.#isWorthACall(contact))) return 0;
    return this.peer.restingMs;
  }

  /** Replaces the hints where the worker may be, the best first. */
  aim(contacts: readonly Contact[]): void {
    this.#hints = contacts.slice(0, HINTS_MAX).map((contact) => {
      const known = this.#hints.find(
        (hint) =>
          hint.contact.address === contact.address &&
          hint.contact.incarnation === contact.incarnation,
      );
      return known ?? { contact, failures: 0, notBeforeMs: Number.NEGATIVE_INFINITY };
    });
    this.peer.aim(this.#hints[0]?.contact.address);
    if (this.#call !== undefined && !this.#hints.includes(this.#call.hint)) this.#hangUp();
  }

  /** Follows the next hint that is worth a call; `true` if there was one. */
  follow(): boolean {
    if (this.#isClosed || this.#call !== undefined) return false;
    const { environment, settings } = this.#parts;
    const nowMs = environment.clock.nowMs();
    const hint = this.#hints
      .filter((each) => each.notBeforeMs <= nowMs && this.#isWorthACall(each.contact))
      .toSorted((a, b) => a.failures - b.failures)[0];
    if (hint === undefined) return false;
    const channel = this.#open(hint.contact.address);
    this.#call = { channel, hint, untilMs: nowMs + 2 * settings.helloTimeoutMs };
    return true;
  }

  /** It is time for a ping. A stream on which nobody has answered for long is opened again. */
  tick(): void {
    this.peer.tick();
    const { environment, settings, membership, onChange } = this.#parts;
    const nowMs = environment.clock.nowMs();
    this.#silentMs = this.peer.answers ? 0 : this.#silentMs + settings.pingIntervalMs;
    if (this.#call !== undefined && nowMs >= this.#call.untilMs) this.#onUnreachable(undefined);
    if (this.peer.misses < settings.closeAfterMisses || this.#channel === undefined) return;
    environment.log.warn("stream of a silent worker closed", { worker: this.id });
    const { address } = this.#channel;
    this.#channel.close();
    this.#channel = this.#open(address);
    this.peer.attach(this.#channel);
    membership.lose?.(this.id);
    onChange();
  }

  /** Ends all streams. */
  close(): void {
    this.#isClosed = true;
    this.#hangUp();
    this.peer.close();
    this.#parts.membership.lose?.(this.id);
    if (this.#channel !== undefined) this.#parts.connector.forget(this.#channel.address);
    this.#channel = undefined;
  }

  /** Whether a hint may lead to a process that was not met yet. */
  #isWorthACall({ address, incarnation }: Contact): boolean {
    const { current } = this.#succession;
    if (current === undefined || this.#channel === undefined) return true;
    const isNews = incarnation !== undefined && incarnation !== current;
    if (this.peer.answers) return isNews && incarnation > current;
    // The channel reconnects to its own address by itself, after the rest of its wait.
    return isNews || address !== this.#channel.address;
  }

  #open(address: string): WorkerChannel {
    const { environment, connector, settings, defer } = this.#parts;
    const channel: WorkerChannel = new WorkerChannel(
      { environment, connector, routerId: settings.routerId, ...(defer && { defer }) },
      {
        onAnnouncement: (announcement) => {
          if (channel === this.#channel) this.#hear(announcement);
          else if (channel === this.#call?.channel) this.#answer(announcement);
        },
        onPong: (pong) => {
          if (channel !== this.#channel) return;
          this.peer.onPong(pong);
          this.#tellMembership();
        },
        onMembers: (news) => {
          if (channel === this.#channel) this.#parts.onMembers(news);
        },
        onDrain: () => {
          if (channel === this.#channel) this.#parts.onChange();
        },
        onDisconnect: (error) => {
          if (channel === this.#channel) this.#onDisconnect(error);
          else if (channel === this.#call?.channel) this.#onUnreachable(error);
        },
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
    return channel;
  }

  /** The channel's stream gives the worker's state: the first time since it was opened, or a change. */
  #hear(announcement: Announcement): void {
    const { incarnation } = announcement;
    if (!this.#hasExpectedId(announcement)) return this.#dropChannel();
    if (this.peer.connected) {
      if (incarnation !== this.#succession.current) {
        this.#succession = renumbered(this.#succession, incarnation);
      }
      return this.#take(announcement);
    }
    const meeting = meet(this.#succession, incarnation, { isCurrentAnswering: false });
    if (meeting.kind === "refused") return this.#dropChannel();
    this.#succession = meeting.succession;
    this.#take(announcement);
  }

  /** The process that was called has announced itself: as this worker or as another one. */
  #answer(announcement: Announcement): void {
    const { channel, hint } = this.#call!;
    const { answers } = this.peer;
    if (!this.#hasExpectedId(announcement)) return this.#onRefused(hint, "another worker");
    const { incarnation } = announcement;
    const meeting = meet(this.#succession, incarnation, { isCurrentAnswering: answers });
    if (meeting.kind === "refused") {
      if (meeting.reason === "superseded" && this.#isGone) {
        // Its next announcement on this call has a new number, unless its successor is alive.
        return channel.tellPredecessor(this.#succession.highest);
      }
      return this.#onRefused(hint, meeting.reason);
    }
    const isKnown = meeting.kind === "current" && this.peer.connected;
    if (isKnown) return this.#onRefused(hint, "already connected");
    this.#call = undefined;
    hint.failures = 0;
    this.#succession = meeting.succession;
    this.#channel?.close();
    if (this.#channel !== undefined && this.#channel.address !== channel.address) {
      this.#parts.connector.forget(this.#channel.address);
    }
    this.#channel = channel;
    this.peer.attach(channel);
    this.#take(announcement);
  }

  #take(announcement: Announcement): void {
    this.#strangers.clear();
    const { environment, onChange } = this.#parts;
    const { highest, current } = this.#succession;
    const { address } = this.#channel!;
    this.#lastMet = { workerId: this.id, address, incarnation: current };
    this.#unreachedSinceMs = undefined;
    this.#isUnreachableTold = false;
    if (!this.peer.connected) {
      environment.log.info("worker connected", { worker: this.id, address });
      // The worker was met with a higher number before: it must take a number above that.
      if (highest > current!) this.#channel!.tellPredecessor(highest);
    }
    this.peer.onAnnouncement(announcement);
    this.#tellMembership();
    onChange();
  }

  #tellMembership(): void {
    const { connected, announcement } = this.peer;
    if (!connected || announcement === undefined) return;
    this.#parts.membership.hear?.(announcement, this.#channel!.address);
  }

  /** Whether nobody has answered for this worker for long. */
  get #isGone(): boolean {
    return this.#silentMs >= this.#parts.settings.successorGoneMs;
  }

  #hasExpectedId({ workerId }: Announcement): boolean {
    if (workerId === this.id) return true;
    if (this.#strangers.has(workerId) || this.#strangers.size >= STRANGERS_MAX) return false;
    this.#strangers.add(workerId);
    this.#parts.environment.log.warn("address answers as another worker", {
      worker: this.id,
      answersAs: workerId,
      advice: `start the worker with --id ${this.id}, or name it as it names itself`,
    });
    return false;
  }

  #onRefused(hint: FollowedHint, reason: string): void {
    this.#parts.environment.log.debug("worker not taken", { worker: this.id, reason });
    this.#rest(hint);
    this.#hangUp();
  }

  #onUnreachable(error: WinnowError | undefined): void {
    const { address } = this.#call!.hint.contact;
    this.#noteFailure(address, error);
    this.#rest(this.#call!.hint);
    this.#hangUp();
  }

  /** Tells that the worker has not been reached for long: once, until it is connected. */
  #noteFailure(address: string, error: WinnowError | undefined): void {
    if (this.peer.connected) return;
    const nowMs = this.#parts.environment.clock.nowMs();
    this.#unreachedSinceMs ??= nowMs;
    if (this.#isUnreachableTold || nowMs - this.#unreachedSinceMs < UNREACHABLE_TOLD_MS) return;
    this.#isUnreachableTold = true;
    const message = error === undefined ? "it does not announce itself" : memberFault(error);
    this.#parts.onUnreachable({ worker: this.id, address, message });
  }

  /** The address is called again after a growing wait. */
  #rest(hint: FollowedHint): void {
    const { clock, random } = this.#parts.environment;
    const { reconnectDelayMs, callDelayMsMax } = this.#parts.settings;
    const waitMs = Math.min(callDelayMsMax, reconnectDelayMs * 2 ** Math.min(hint.failures, 16));
    hint.failures += 1;
    hint.notBeforeMs = clock.nowMs() + waitMs * (0.5 + random() / 2);
  }

  #hangUp(): void {
    const call = this.#call;
    this.#call = undefined;
    call?.channel.close();
  }

  /** Another worker answers at the address where this worker was. */
  #dropChannel(): void {
    const channel = this.#channel!;
    this.#channel = undefined;
    channel.close();
    this.#parts.connector.forget(channel.address);
    for (const hint of this.#hints) if (hint.contact.address === channel.address) this.#rest(hint);
    this.peer.onDisconnect();
    this.#parts.membership.lose?.(this.id);
    this.#parts.onChange();
  }

  #onDisconnect(error: WinnowError | undefined): void {
    if (this.#isClosed) return;
    if (this.peer.connected) {
      const { code, message } = error ?? { code: "OK", message: "The worker ended the stream" };
      this.#parts.environment.log.warn("worker disconnected", { worker: this.id, code, message });
    }
    this.peer.onDisconnect();
    this.#noteFailure(this.#channel!.address, error);
    this.#parts.membership.lose?.(this.id);
    this.#parts.onChange();
  }
}

/** Ms for which attempts fail before that is told: a worker that restarts is met again before. */
const UNREACHABLE_TOLD_MS = 5000;
/** Addresses at which one worker is looked for, at most. */
const HINTS_MAX = 4;
/** Other workers in place of one worker, at most, that are logged while it is not met. */
const STRANGERS_MAX = 16;
