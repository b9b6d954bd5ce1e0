// Membership by a fixed list, for one machine or a headless Service. The list is the placement, so
// a death moves no partitions; a member that does not answer stays listed, as silent. When no
// member answers, this process is the one that is cut off: the last good view stays.
//
// A member is polled (Describe) until it answers. From then on a stream to it brings its
// announcements, and it is polled again only when the stream breaks or a ping on it is unanswered:
//
//   polled ── answers, its stream opens ──▶ attended ── breaks, or a ping is unanswered ──▶ polled
//
// A worker asks a member that it has never heard by opening the stream: the same answer comes over the connection
// that the stream needs anyway. After such a stream has failed it asks once by Describe, which a member answers that
// takes no streams: one in drain, or one with as many as it may have.
//
// A process that ends breaks its streams, which all others see at once; pings are for processes that
// hang and links that are cut. At rest a worker pings one member, the next in the list that it can
// reach, so that each member is watched by one other:
//
//   rest ── a question is unanswered: all members are pinged in doubt ──▶ alert ── 5 s ──▶ rest
//     └──── another worker pings in doubt ─────────────────────────────────▲
//
// While a worker is alert there must be evidence, at most `DOUBT_MS` old, that each member lives and
// has announced nothing new: its own pong, or the pong of another member, which lists the member with
// the digest of the announcement that is known here. A digest only confirms: an announcement is taken
// from the member itself alone. A worker collects such evidence from few members
// (`member-rounds.ts`), so its work hardly grows with the list; a member without evidence, as most
// are after a rest, is pinged by every worker. A router has streams of its own, with pings, and
// reports them by `hear` and `lose`.

import { WinnowError, toWinnowError, workerId } from "@winnow/core";
import type { Environment, Timer, WorkerId } from "@winnow/core";
import type { Announcement } from "../announcement/announcement.ts";
import { RefusedRecords, refusalReason } from "../trust/refused-records.ts";
import { anyAddress, parseAddress } from "../trust/worker-address.ts";
import type { AddressRules } from "../trust/worker-address.ts";
import type { Contact } from "../announcement/contact.ts";
import { checkAddress } from "./membership-record.ts";
import type { MembershipStore, MembershipView, SilentMember } from "./membership.ts";
import { announcementDigest } from "../announcement/announcement-digest.ts";
import { meet, unmet } from "../announcement/succession.ts";
import type { Succession } from "../announcement/succession.ts";
import { HEARD_PER_PONG } from "../rpc/frames/frame-limits.ts";
import type { HeardWorker } from "../rpc/frames/frames.ts";
import type { WorkerConnector } from "../rpc/worker-connector.ts";
import { REST_INTERVAL_MS, partnerAt, roundIntervalMs } from "./member-rounds.ts";
import { MemberStreams } from "./member-streams.ts";

/** The list, and how its members are polled. */
export interface StaticMembershipSettings {
  readonly members: readonly SilentMember[];
  /** Ms between two polls of a member while any member changes or is in doubt. Default 300. */
  readonly pollMs: number;
  /** Ms between two polls while nothing changes: a poll costs each side two ms of CPU. Default 1000. */
  readonly steadyPollMs: number;
  /** Ms to wait for one answer. Default 1000. */
  readonly describeTimeoutMs: number;
  /** Ms without an answer after which a member is silent. Default 3000. */
  readonly silentAfterMs: number;
  /** Allowed addresses for workers that announce another one than the listed. Default: any. */
  readonly addresses: AddressRules;
  /** Counts and logs refused announcements. Default: an instance of its own. */
  readonly refused?: RefusedRecords;
}

/** Asks one worker for its announcement: `WorkerConnector.describe`. */
export type Describe = (address: string, timeoutMs: number) => Promise<Announcement>;

const DEFAULTS: Omit<StaticMembershipSettings, "members"> = {
  pollMs: 300,
  steadyPollMs: 1000,
  describeTimeoutMs: 1000,
  silentAfterMs: 3000,
  addresses: anyAddress,
};
const MEMBERS_MAX = 4096;
/** Unanswered questions in a row before a member can be silent. */
const UNANSWERED_MIN = 2;
/** Ms after a change or a doubt in which members are polled every `pollMs`, or after a doubt asked in rounds. */
const UNREST_MS = 5000;
/** A worker that is asked in doubt asks the members of which it has no evidence of the last so many ms. */
const RECENT_MS = 500;
/** Ms after which a worker whose questions are still unanswered pings all members in doubt again, or is asked to again. */
const DOUBT_TOLD_MS = UNREST_MS / 2;
/**
 * Ms after a ping in doubt in which a worker pings none itself: the one that doubts has told all others. No longer,
 * as whoever reaches a worker may ping it in doubt all the time, and silences must still be told.
 */
const DOUBT_SHARED_MS = 1000;
/** Ms without evidence after which a member is pinged, or polled. */
const DOUBT_MS = 2000;
/**
 * A member is silent only when this many ms have passed since its first unanswered question: the evidence
 * before that question may have been old.
 */
const ASKED_MS_MIN = 1700;
/** Ms between two checks for members in doubt, in a process without rounds (a router). */
const LOOK_MS = 500;
/** Older evidence is not passed on. */
const TOLD_MS_MAX = 5000;
/** Ms without evidence after which a member may be followed by a process that it had replaced. */
const SUCCESSOR_GONE_MS = 10_000;

/**
 * Reads a list like `w0@10.0.0.1:7600,10.0.0.2:7600`; without an id, the address is the id.
 * @throws WinnowError INVALID_ARGUMENT naming the entry
 */
export function parseMembers(list: string): readonly SilentMember[] {
  const entries = list.split(",").flatMap((entry) => (entry.trim() === "" ? [] : [entry.trim()]));
  const members = entries.map((entry) => {
    const match = /^(?:([A-Za-z0-9_.-]{1,128})@)?([^\s@]{1,262})$/.exec(entry);
    const address = match?.[2];
    if (address === undefined || parseAddress(address) === undefined) {
      throw new WinnowError(
        "INVALID_ARGUMENT",
        `Cannot read member "${entry.slice(0, 256)}"; write id@host:port or host:port`,
      );
    }
    return { workerId: workerId(match?.[1] ?? address), address };
  });
  if (new Set(members.map((member) => member.workerId)).size !== members.length) {
    throw new WinnowError("INVALID_ARGUMENT", "Each member needs an id of its own");
  }
  if (members.length > MEMBERS_MAX) {
    throw new WinnowError("INVALID_ARGUMENT", `At most ${MEMBERS_MAX} members can be listed`);
  }
  return members;
}

interface Heard {
  readonly announcement: Announcement;
  readonly digest: number;
  /** When the member was last known to live and to have announced nothing newer. */
  atMs: number;
  /**
   * Unanswered questions since its last answer. They count beside the time that has passed, because
   * this process may have slept.
   */
  unanswered: number;
  /** When the first of these questions was asked; later evidence from other members resets it too. */
  askedAtMs: number | undefined;
  /** When a ping on its open stream was first unanswered: a rest leaves no evidence of the time before. */
  readonly trustedUntilMs: number;
  readonly succession: Succession;
}

/** Dependencies of membership by a list. */
export interface StaticMembershipParts {
  readonly environment: Environment;
  readonly describe: Describe;
  /** For a worker's streams to the others. Absent: members are polled, or reported by `hear`. */
  readonly streams?: { readonly connector: WorkerConnector; readonly own: WorkerId } | undefined;
}

/** Membership by a fixed list. Announcing is answering Describe, so there is nothing to store. */
export class StaticMembership implements MembershipStore {
  readonly hearsMembers = true;
  readonly #environment: Environment;
  readonly #describe: Describe;
  readonly #settings: StaticMembershipSettings;
  readonly #placementWorkers: readonly WorkerId[];
  readonly #heard = new Map<WorkerId, Heard>();
  readonly #answered = new Set<WorkerId>();
  readonly #timers = new Map<WorkerId, Timer>();
  /** Members whose answer to Describe is awaited. */
  readonly #asking = new Set<WorkerId>();
  /** Members never heard that were last asked by opening a stream, which failed. */
  readonly #unstreamed = new Set<WorkerId>();
  /** Members that a router's streams report by `hear`, with the announcement reported last. */
  readonly #attended = new Map<WorkerId, Announcement>();
  readonly #streams: MemberStreams | undefined;
  readonly #own: WorkerId | undefined;
  #lookTimer: Timer | undefined;
  #step = 0;
  /** Until when this worker is alert. */
  #alertUntilMs: number;
  /** When this worker last pinged all in doubt. */
  #doubtToldAtMs = Number.NEGATIVE_INFINITY;
  /** When it was last pinged so, and asked all because of that. */
  #doubtHeardAtMs = Number.NEGATIVE_INFINITY;
  /** What the next look does beside its question: it tells all of a doubt, or asks all because of one. */
  #nextLook: "tells" | "asks" | undefined;
  readonly #listeners = new Set<(view: MembershipView) => void>();
  #view: MembershipView;
  #told: MembershipView | undefined;
  #healthySinceMs = 0;
  #restlessUntilMs: number;
  #isAsking = false;
  #isClosed = false;
  readonly #refused: RefusedRecords;

  constructor(
    parts: StaticMembershipParts,
    settings: Pick<StaticMembershipSettings, "members"> & Partial<StaticMembershipSettings>,
  ) {
    this.#environment = parts.environment;
    this.#describe = parts.describe;
    this.#refused = settings.refused ?? new RefusedRecords(parts.environment.log);
    this.#restlessUntilMs = parts.environment.clock.nowMs() + UNREST_MS;
    this.#alertUntilMs = this.#restlessUntilMs;
    const members = settings.members.toSorted((a, b) => (a.workerId < b.workerId ? -1 : 1));
    this.#settings = { ...DEFAULTS, ...settings, members };
    this.#placementWorkers = members.map((member) => member.workerId);
    this.#own = parts.streams?.own;
    this.#streams = parts.streams && this.#streamsOf(parts.streams);
    this.#view = {
      workers: [],
      contacts: members.map(contactOf),
      silent: members,
      placementWorkers: this.#placementWorkers,
      readAtMs: 0,
      healthy: false,
    };
  }

  /** A list stores no incarnations. */
  lastIncarnation(): Promise<undefined> {
    return Promise.resolve(undefined);
  }

  announce(): Promise<void> {
    return Promise.resolve();
  }

  suspend(): void {}

  withdraw(): Promise<void> {
    return Promise.resolve();
  }

  /** Monotonic ms at which any member was last known to live. */
  readAtMs(): number | undefined {
    return this.#heard.size === 0 ? undefined : this.#view.readAtMs;
  }

  watch(listener: (view: MembershipView) => void): () => void {
    this.#listeners.add(listener);
    if (!this.#isAsking) {
      this.#isAsking = true;
      for (const member of this.#settings.members) this.#askLater(member, 0);
      this.#lookLater();
    }
    this.#environment.clock.setTimer(0, () => {
      if (this.#listeners.has(listener)) listener(this.#view);
    });
    return () => this.#listeners.delete(listener);
  }

  close(): Promise<void> {
    this.#isClosed = true;
    for (const timer of this.#timers.values()) this.#environment.clock.clearTimer(timer);
    this.#timers.clear();
    if (this.#lookTimer !== undefined) this.#environment.clock.clearTimer(this.#lookTimer);
    this.#streams?.close();
    this.#listeners.clear();
    return Promise.resolve();
  }

  hear(announcement: Announcement, address: string): void {
    const member = this.#memberOf(announcement.workerId);
    const heard = this.#heard.get(announcement.workerId);
    // A process with a member's id at another address is not that member.
    const isListed = address === member?.address || address === heard?.announcement.address;
    if (member === undefined || !isListed || this.#isClosed) return;
    const { workerId: id } = member;
    if (this.#attended.get(id) === announcement) return this.#note(id);
    this.#attended.delete(id);
    if (!this.#take(member, announcement)) return this.#askLater(member, this.#delayMs());
    this.#attended.set(id, announcement);
    this.#answered.add(id);
    this.#update();
  }

  lose(id: WorkerId): void {
    const member = this.#memberOf(id);
    if (member === undefined || !this.#attended.delete(id)) return;
    this.#note(id);
    this.#askLater(member, 0);
  }

  heard(): readonly HeardWorker[] {
    const nowMs = this.#environment.clock.nowMs();
    const known = [...this.#heard].flatMap(([id, { announcement, digest, atMs }]) => {
      const ageMs = nowMs - atMs;
      if (id === this.#own || ageMs > TOLD_MS_MAX) return [];
      return { workerId: id, incarnation: announcement.incarnation, digest, ageMs };
    });
    if (known.length <= HEARD_PER_PONG) return known;
    const first = Math.floor(this.#environment.random() * known.length);
    return [...known.slice(first), ...known.slice(0, first)].slice(0, HEARD_PER_PONG);
  }

  doubt(): void {
    const nowMs = this.#environment.clock.nowMs();
    this.#beAlert();
    const askedAtMs = Math.max(this.#doubtToldAtMs, this.#doubtHeardAtMs);
    if (this.#streams === undefined || nowMs - askedAtMs < DOUBT_TOLD_MS) return;
    this.#doubtHeardAtMs = nowMs;
    this.#nextLook = "asks";
    this.#lookAfter(0);
  }

  #memberOf(id: WorkerId): SilentMember | undefined {
    return this.#settings.members.find(({ workerId: known }) => known === id);
  }

  #streamsOf(parts: NonNullable<StaticMembershipParts["streams"]>): MemberStreams {
    const { connector, own } = parts;
    return new MemberStreams(
      { environment: this.#environment, connector, name: `worker ${own}` },
      {
        onAnnouncement: (member, announcement) => {
          if (!this.#take(member, announcement)) return this.#streams!.end(member);
          this.#answered.add(member.workerId);
          this.#update();
        },
        onPong: (member, sentAtMs, heard) => {
          this.#note(member.workerId, sentAtMs);
          for (const each of heard) this.#vouched(each, sentAtMs);
        },
        onUnanswered: (member, sentAtMs) => {
          const heard = this.#heard.get(member.workerId);
          if (heard?.unanswered === 0) {
            this.#heard.set(member.workerId, { ...heard, trustedUntilMs: sentAtMs });
          }
          this.#miss(member, sentAtMs);
          this.#askLater(member, 0);
        },
        onEnd: (member, wasOpen, error) => {
          if (wasOpen) this.#note(member.workerId);
          else this.#noteUnstreamed(member, error);
          this.#askLater(member, wasOpen ? 0 : this.#delayMs());
        },
      },
    );
  }

  /** Notes that a stream ended before its first announcement was taken: a member never heard is asked by Describe next. */
  #noteUnstreamed(member: SilentMember, error: WinnowError | undefined): void {
    const { workerId: id } = member;
    if (!this.#heard.has(id)) {
      this.#unstreamed.add(id);
      this.#answered.add(id);
      if (error !== undefined) this.#fail(member, error, this.#environment.clock.nowMs());
    }
    this.#update();
  }

  /** Whether an open stream brings the member's announcements. */
  #isAttended({ workerId: id }: SilentMember): boolean {
    return this.#attended.has(id) || this.#streams?.has(id) === true;
  }

  /** Notes evidence of the member itself: it answered, or its connection was alive until `atMs`. */
  #note(id: WorkerId, atMs = this.#environment.clock.nowMs()): void {
    const heard = this.#heard.get(id);
    if (heard === undefined) return;
    heard.atMs = Math.max(heard.atMs, atMs);
    heard.unanswered = 0;
    heard.askedAtMs = undefined;
  }

  /**
   * Notes evidence from another member's pong; it counts only where both know the same
   * announcement, and a member of which the other knows another one is asked. `sentAtMs - ageMs` is no later than the moment at which the other member had its
   * evidence.
   */
  #vouched({ workerId: id, incarnation, digest, ageMs }: HeardWorker, sentAtMs: number): void {
    const heard = this.#heard.get(id);
    if (heard === undefined || sentAtMs - ageMs <= heard.atMs) return;
    if (heard.digest !== digest || heard.announcement.incarnation !== incarnation) {
      // The other member has heard something newer: a link that is cut may keep it from this one.
      const member = this.#memberOf(id);
      if (member !== undefined && this.#isAttended(member)) this.#streams?.ping(member);
      return;
    }
    heard.atMs = sentAtMs - ageMs;
    if (heard.askedAtMs !== undefined && heard.askedAtMs < heard.atMs) heard.askedAtMs = undefined;
  }

  /** Whether one question a round is enough: nothing speaks against any member. */
  #isAtRest(): boolean {
    const isListed = this.#own !== undefined && this.#memberOf(this.#own) !== undefined;
    return isListed && this.#environment.clock.nowMs() >= this.#alertUntilMs;
  }

  /** Ends a rest: for `UNREST_MS` there must be evidence of each member. */
  #beAlert(): void {
    this.#alertUntilMs = this.#environment.clock.nowMs() + UNREST_MS;
  }

  /** A question of this worker is unanswered: others may be at rest, and the same may be silent for them. */
  #tellDoubt(): void {
    this.#beAlert();
    const nowMs = this.#environment.clock.nowMs();
    const isTold =
      nowMs - this.#doubtToldAtMs < DOUBT_TOLD_MS || nowMs - this.#doubtHeardAtMs < DOUBT_SHARED_MS;
    if (this.#streams === undefined || isTold) return;
    this.#doubtToldAtMs = nowMs;
    this.#nextLook = "tells";
    this.#lookAfter(0);
  }

  #lookLater(): void {
    const count = this.#settings.members.length;
    const roundMs = this.#isAtRest() ? REST_INTERVAL_MS : roundIntervalMs(count);
    const delayMs = this.#streams === undefined ? LOOK_MS : roundMs;
    this.#lookAfter(delayMs * (0.9 + this.#environment.random() / 5));
  }

  /** Looks after `delayMs`, not at the planned time. */
  #lookAfter(delayMs: number): void {
    if (this.#isClosed) return;
    const { clock } = this.#environment;
    if (this.#lookTimer !== undefined) clock.clearTimer(this.#lookTimer);
    this.#lookTimer = clock.setTimer(delayMs, () => {
      this.#look();
      this.#lookLater();
    });
  }

  /** Asks the next partner whom it hears; unless at rest, pings or polls attended members without evidence. */
  #look(): void {
    const nowMs = this.#environment.clock.nowMs();
    const isAtRest = this.#isAtRest();
    const what = this.#nextLook;
    this.#nextLook = undefined;
    const doubtMs = what === "asks" ? RECENT_MS : DOUBT_MS;
    if (what === undefined) this.#askPartner(isAtRest ? 0 : (this.#step += 1));
    for (const member of this.#settings.members) {
      const { workerId: id } = member;
      if (!this.#isAttended(member)) continue;
      const isInDoubt = !isAtRest && nowMs - this.#heard.get(id)!.atMs >= doubtMs;
      if (this.#attended.has(id)) {
        if (!isInDoubt) continue;
        this.#attended.delete(id);
        this.#askLater(member, 0);
      } else if (what === "tells") this.#streams!.ping(member, true);
      else if (isInDoubt || this.#streams!.isQuiet(id)) this.#streams!.ping(member);
    }
    this.#update();
  }

  #askPartner(step: number): void {
    const { members } = this.#settings;
    const own = members.findIndex(({ workerId: id }) => id === this.#own);
    if (this.#streams === undefined || own === -1) return;
    const first = partnerAt(own, step, members.length);
    const byTurns = [...members.slice(first), ...members.slice(0, first)];
    const partner = byTurns.find(
      (member) => member.workerId !== this.#own && this.#isAttended(member),
    );
    if (partner !== undefined) this.#streams.ping(partner);
  }

  /** Asks a member after `delayMs`, not at the planned time, unless its answer is awaited. */
  #askLater(member: SilentMember, delayMs: number): void {
    if (this.#isClosed || this.#asking.has(member.workerId)) return;
    const planned = this.#timers.get(member.workerId);
    if (planned !== undefined) this.#environment.clock.clearTimer(planned);
    const timer = this.#environment.clock.setTimer(delayMs, () => {
      this.#timers.delete(member.workerId);
      if (this.#isAttended(member)) return;
      const { workerId: id } = member;
      const isStreamed = !this.#heard.has(id) && !this.#unstreamed.delete(id);
      if (this.#streams !== undefined && isStreamed) return this.#streams.open(member);
      this.#asking.add(id);
      void this.#ask(member); // Never rejects: a failed poll is counted.
    });
    this.#timers.set(member.workerId, timer);
  }

  /** Notes a change or a doubt: for `UNREST_MS` polls, planned ones too, come every `pollMs`. */
  #disturb(): void {
    const { clock } = this.#environment;
    const nowMs = clock.nowMs();
    const wasSteady = nowMs >= this.#restlessUntilMs;
    this.#restlessUntilMs = nowMs + UNREST_MS;
    if (!wasSteady) return;
    for (const member of this.#settings.members) {
      if (!this.#timers.has(member.workerId)) continue;
      this.#askLater(member, this.#settings.pollMs);
    }
  }

  #delayMs(): number {
    const { pollMs, steadyPollMs } = this.#settings;
    const isSteady = this.#environment.clock.nowMs() >= this.#restlessUntilMs;
    return isSteady ? Math.max(pollMs, steadyPollMs) : pollMs;
  }

  async #ask(member: SilentMember): Promise<void> {
    const askedAtMs = this.#environment.clock.nowMs();
    try {
      const announcement = await this.#describe(member.address, this.#settings.describeTimeoutMs);
      if (this.#take(member, announcement) && !this.#isClosed) this.#streams?.open(member);
    } catch (error) {
      this.#fail(member, error, askedAtMs);
    }
    this.#asking.delete(member.workerId);
    if (this.#isClosed) return;
    this.#answered.add(member.workerId);
    this.#update();
    if (!this.#isAttended(member)) this.#askLater(member, this.#delayMs());
  }

  /** Counts a question, asked at `askedAtMs`, that has no answer. */
  #miss(member: SilentMember, askedAtMs: number): void {
    const heard = this.#heard.get(member.workerId);
    if (heard !== undefined) {
      heard.unanswered += 1;
      heard.askedAtMs ??= askedAtMs;
    }
    if (this.#view.silent.includes(member)) return;
    this.#disturb();
    this.#tellDoubt();
  }

  /** Takes over a member's announcement; false where it is refused. */
  #take(member: SilentMember, announcement: Announcement): boolean {
    const before = this.#heard.get(member.workerId);
    try {
      this.#hear(member, announcement);
    } catch (error) {
      this.#fail(member, error, this.#environment.clock.nowMs());
    }
    return this.#heard.get(member.workerId) !== before;
  }

  /** Counts a failed poll (`#update` judges silence); only a refused answer is logged here. */
  #fail(member: SilentMember, thrown: unknown, askedAtMs: number): void {
    const error = toWinnowError(thrown);
    if (error.code === "INVALID_ARGUMENT" || error.code === "PERMISSION_DENIED") {
      this.#refused.refuse(member.workerId, refusalReason(error), error.message);
    }
    this.#miss(member, askedAtMs);
  }

  #hear(member: SilentMember, announcement: Announcement): void {
    if (announcement.workerId !== member.workerId) {
      const text = `its address answers as ${announcement.workerId}`;
      return this.#refused.refuse(member.workerId, "name", text);
    }
    const heard = this.#heard.get(member.workerId);
    const known = heard?.announcement;
    const nowMs = this.#environment.clock.nowMs();
    // The process that answers at the listed address took it over, so the previous one is gone.
    const meeting = meet(successionAt(heard, nowMs), announcement.incarnation, {
      isCurrentAnswering: false,
    });
    if (meeting.kind === "refused") {
      const text = `incarnation ${announcement.incarnation} answers, which ${known!.incarnation} replaced`;
      return this.#refused.refuse(member.workerId, "stale", text);
    }
    if (announcement.address !== member.address)
      checkAddress(announcement, this.#settings.addresses);
    this.#refused.accept(member.workerId);
    const digest = announcementDigest(announcement);
    const isSame = heard?.digest === digest && isEqual(heard.announcement, announcement);
    if (!isSame) this.#disturb();
    this.#heard.set(member.workerId, {
      announcement: isSame ? heard.announcement : announcement,
      digest,
      atMs: nowMs,
      unanswered: 0,
      askedAtMs: undefined,
      trustedUntilMs: -Infinity,
      succession: meeting.succession,
    });
  }

  /**
   * Judges all members. A member with unanswered questions is silent once another member was heard
   * `silentAfterMs` after all of: the last evidence of the member, and the end of a time in which
   * no member answered (this process was cut off then); and `ASKED_MS_MIN` after its first
   * unanswered question.
   */
  #update(): void {
    const nowMs = this.#environment.clock.nowMs();
    const { members, silentAfterMs } = this.#settings;
    const lastHeardMs = Math.max(-Infinity, ...[...this.#heard.values()].map(({ atMs }) => atMs));
    const isHealthy = nowMs - lastHeardMs < silentAfterMs;
    if (isHealthy && !this.#view.healthy) this.#healthySinceMs = nowMs;
    const isShown = ({ workerId: id }: SilentMember): boolean => {
      const heard = this.#heard.get(id);
      if (heard === undefined) return false;
      const { atMs, askedAtMs, unanswered } = heard;
      if (unanswered < UNANSWERED_MIN || askedAtMs === undefined) return true;
      const sinceMs = Math.max(
        atMs,
        this.#healthySinceMs,
        askedAtMs + ASKED_MS_MIN - silentAfterMs,
      );
      return lastHeardMs - sinceMs < silentAfterMs;
    };
    const workers = members
      .filter(isShown)
      .map(({ workerId: id }) => this.#heard.get(id)!.announcement);
    const silent = members.filter((member) => !isShown(member));
    this.#replace({
      workers,
      contacts: [...workers, ...silent].map(contactOf).toSorted(byId),
      silent,
      placementWorkers: this.#placementWorkers,
      readAtMs: Math.max(0, lastHeardMs),
      healthy: isHealthy,
    });
  }

  /**
   * Replaces the view and tells listeners of a change. Nothing is told before every member has
   * answered or failed once: a part of the first round would look like the whole cluster.
   */
  #replace(view: MembershipView): void {
    const isSame = isEqualView(this.#view, view);
    this.#view = isSame ? { ...this.#view, readAtMs: view.readAtMs } : view;
    if (this.#answered.size < this.#settings.members.length) return;
    if (this.#told !== undefined && isEqualView(this.#told, this.#view)) return;
    this.#told = this.#view;
    for (const listener of this.#listeners) listener(this.#view);
  }
}

/** Which process may follow: any, once nothing is known of the member for a while. */
function successionAt(heard: Heard | undefined, nowMs: number): Succession {
  if (heard === undefined) return unmet;
  const knownUntilMs = Math.max(heard.atMs, heard.trustedUntilMs);
  return nowMs - knownUntilMs >= SUCCESSOR_GONE_MS ? unmet : heard.succession;
}

/** Where to look for a member: at its announced address, or else at the listed one. */
function contactOf(member: SilentMember & Partial<Announcement>): Contact {
  const { workerId: id, address, incarnation } = member;
  return { workerId: id, address, incarnation };
}

const byId = (a: Contact, b: Contact): number => (a.workerId < b.workerId ? -1 : 1);

/** Whether `b` makes no difference to listeners. Contacts derive from `workers` and `silent`. */
function isEqualView(a: MembershipView, b: MembershipView): boolean {
  return (
    a.healthy === b.healthy &&
    haveSameItems(a.workers, b.workers) &&
    haveSameItems(a.silent, b.silent)
  );
}

function haveSameItems<Item>(a: readonly Item[], b: readonly Item[]): boolean {
  return a.length === b.length && a.every((item, index) => item === b[index]);
}

function isEqual(known: Announcement, announcement: Announcement): boolean {
  return JSON.stringify(known) === JSON.stringify(announcement);
}
