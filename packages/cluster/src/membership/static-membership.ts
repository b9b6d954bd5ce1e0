// Membership by a fixed list, for one machine or a headless Service. The list is the placement, so a death
// moves no partitions; a member that does not answer stays listed, as silent. When nobody answers it is the
// asker that is cut off: the last good view stays.
//
// A member is asked (Describe) until it answers; from then on a stream to it tells by itself what is new,
// and it is asked again only when the stream breaks or falls silent:
//
//   asked ── answers, its stream opens ──▶ attended ── breaks, or a ping is unanswered ──▶ asked
//
// A stream that says nothing may be cut off. So there must be evidence, at most `DOUBT_MS` old, that the
// member lives and has said nothing since: its own pong, or the word of another member that it lives and
// that this process knows its last announcement (by a digest: what others say of it is never taken over).
// A worker collects such words from few members (`member-rounds.ts`), so its work hardly grows with their
// number; a member without evidence is pinged by everybody. A router has its own streams, with pings,
// and tells this file what comes on them (`hear`, `lose`).

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
import { HEARD_PER_PONG } from "../rpc/frame-limits.ts";
import type { HeardWorker } from "../rpc/frames.ts";
import type { WorkerConnector } from "../rpc/worker-connector.ts";
import { partnerAt, roundIntervalMs } from "./member-rounds.ts";
import { MemberStreams } from "./member-streams.ts";

/** The list, and how it is asked. */
export interface StaticMembershipSettings {
  readonly members: readonly SilentMember[];
  /** Between two questions to one member while anything changes or is in doubt. Default 300. */
  readonly pollMs: number;
  /** The same while all is as it was: a question costs either side two milliseconds. Default 1000. */
  readonly steadyPollMs: number;
  /** For one answer. Default 1000. */
  readonly describeTimeoutMs: number;
  /** A member without an answer for so long is silent. Default 3000. */
  readonly silentAfterMs: number;
  /** Where workers may be that announce another address than the listed one. Default anywhere. */
  readonly addresses: AddressRules;
  /** Told of records that are not believed. Default one of its own. */
  readonly refused?: RefusedRecords;
}

/** Asks one worker who it is and what it holds: `WorkerConnector.describe`. */
export type Describe = (address: string, timeoutMs: number) => Promise<Announcement>;

const DEFAULTS: Omit<StaticMembershipSettings, "members"> = {
  pollMs: 300,
  steadyPollMs: 1000,
  describeTimeoutMs: 1000,
  silentAfterMs: 3000,
  addresses: anyAddress,
};
const MEMBERS_MAX = 4096;
/** Questions without an answer until a member can be silent. */
const UNANSWERED_MIN = 2;
/** After something has changed or was in doubt, members are asked often for so long. */
const UNREST_MS = 5000;
/** A member that nobody is known to have heard for so long is pinged, or asked. */
const DOUBT_MS = 2000;
/** A member that is silent has been asked in vain for so long at least: evidence may have been old. */
const ASKED_MS_MIN = 1700;
/** Between two looks whether anybody is in doubt, where no rounds are asked. */
const LOOK_MS = 500;
/** Older evidence is told to nobody. */
const TOLD_MS_MAX = 5000;
/** A member not heard for so long may be followed by a process that it had replaced. */
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
  /** When it was last known to live and to have said nothing else. */
  atMs: number;
  /** Questions since then that got no answer. Time alone accuses nobody: this process may have slept. */
  unanswered: number;
  /** When the first of them was asked. */
  askedAtMs: number | undefined;
  readonly succession: Succession;
}

/** What a list is asked through. */
export interface StaticMembershipParts {
  readonly environment: Environment;
  readonly describe: Describe;
  /** A worker keeps streams to the others; absent: it asks, or is told by `hear`. */
  readonly streams?: { readonly connector: WorkerConnector; readonly own: WorkerId } | undefined;
}

/** Membership by a fixed list. Announcing is answering Describe, so there is nothing to store. */
export class StaticMembership implements MembershipStore {
  readonly #environment: Environment;
  readonly #describe: Describe;
  readonly #settings: StaticMembershipSettings;
  readonly #placementWorkers: readonly WorkerId[];
  readonly #heard = new Map<WorkerId, Heard>();
  readonly #answered = new Set<WorkerId>();
  readonly #timers = new Map<WorkerId, Timer>();
  /** Members of whom an answer is awaited. */
  readonly #asking = new Set<WorkerId>();
  /** Members that somebody else's streams tell of, and what they told last. */
  readonly #attended = new Map<WorkerId, Announcement>();
  readonly #streams: MemberStreams | undefined;
  readonly #own: WorkerId | undefined;
  #lookTimer: Timer | undefined;
  #step = 0;
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

  /** A list remembers nobody. */
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

  /** When any member last answered. */
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
    // Another process of the same name, elsewhere, is not the listed one.
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

  #memberOf(id: WorkerId): SilentMember | undefined {
    return this.#settings.members.find(({ workerId: known }) => known === id);
  }

  #streamsOf(parts: NonNullable<StaticMembershipParts["streams"]>): MemberStreams {
    const { connector, own } = parts;
    return new MemberStreams(
      { environment: this.#environment, connector, name: `worker ${own}` },
      {
        onAnnouncement: (member, announcement) => {
          if (!this.#take(member, announcement)) this.#streams!.end(member);
          this.#update();
        },
        onPong: (member, sentAtMs, heard) => {
          this.#note(member.workerId, sentAtMs);
          for (const each of heard) this.#vouched(each, sentAtMs);
        },
        onUnanswered: (member, sentAtMs) => {
          this.#miss(member, sentAtMs);
          this.#askLater(member, 0);
        },
        onEnd: (member, wasOpen) => {
          if (wasOpen) this.#note(member.workerId);
          this.#askLater(member, wasOpen ? 0 : this.#delayMs());
        },
      },
    );
  }

  /** Whether a stream tells what is new with the member. */
  #isAttended({ workerId: id }: SilentMember): boolean {
    return this.#attended.has(id) || this.#streams?.has(id) === true;
  }

  /** The member has answered, or its connection has just ended. */
  #note(id: WorkerId, atMs = this.#environment.clock.nowMs()): void {
    const heard = this.#heard.get(id);
    if (heard === undefined) return;
    heard.atMs = Math.max(heard.atMs, atMs);
    heard.unanswered = 0;
    heard.askedAtMs = undefined;
  }

  /** Another member knows it to be alive: that counts where both know the same of it. */
  #vouched({ workerId: id, incarnation, digest, ageMs }: HeardWorker, sentAtMs: number): void {
    const heard = this.#heard.get(id);
    if (heard?.digest !== digest || heard.announcement.incarnation !== incarnation) return;
    if (sentAtMs - ageMs <= heard.atMs) return;
    heard.atMs = sentAtMs - ageMs;
    heard.askedAtMs = undefined;
  }

  #lookLater(): void {
    const { clock, random } = this.#environment;
    const count = this.#settings.members.length;
    const delayMs = this.#streams === undefined ? LOOK_MS : roundIntervalMs(count);
    this.#lookTimer = clock.setTimer(delayMs * (0.9 + random() / 5), () => {
      this.#look();
      this.#lookLater();
    });
  }

  /** Asks the next member whom it hears, and whoever nobody is known to have heard lately. */
  #look(): void {
    const nowMs = this.#environment.clock.nowMs();
    this.#askPartner();
    for (const member of this.#settings.members) {
      const { workerId: id } = member;
      if (!this.#isAttended(member)) continue;
      const isInDoubt = nowMs - this.#heard.get(id)!.atMs >= DOUBT_MS;
      if (this.#attended.has(id)) {
        if (!isInDoubt) continue;
        this.#attended.delete(id);
        this.#askLater(member, 0);
      } else if (isInDoubt || this.#streams!.isQuiet(id)) this.#streams!.ping(member);
    }
    this.#update();
  }

  #askPartner(): void {
    const { members } = this.#settings;
    const own = members.findIndex(({ workerId: id }) => id === this.#own);
    if (this.#streams === undefined || own === -1) return;
    const first = partnerAt(own, (this.#step += 1), members.length);
    const byTurns = [...members.slice(first), ...members.slice(0, first)];
    const partner = byTurns.find(
      (member) => member.workerId !== this.#own && this.#isAttended(member),
    );
    if (partner !== undefined) this.#streams.ping(partner);
  }

  /** Asks a member then, unless its answer is awaited. */
  #askLater(member: SilentMember, delayMs: number): void {
    if (this.#isClosed || this.#asking.has(member.workerId)) return;
    const planned = this.#timers.get(member.workerId);
    if (planned !== undefined) this.#environment.clock.clearTimer(planned);
    const timer = this.#environment.clock.setTimer(delayMs, () => {
      this.#timers.delete(member.workerId);
      if (this.#isAttended(member)) return;
      this.#asking.add(member.workerId);
      void this.#ask(member); // Never rejects: silence is an answer.
    });
    this.#timers.set(member.workerId, timer);
  }

  /** Something changes or is in doubt: from now on all are asked often, also those of long waits. */
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

  /** A question that was asked then has no answer. */
  #miss(member: SilentMember, askedAtMs: number): void {
    const heard = this.#heard.get(member.workerId);
    if (heard !== undefined) {
      heard.unanswered += 1;
      heard.askedAtMs ??= askedAtMs;
    }
    if (!this.#view.silent.includes(member)) this.#disturb();
  }

  /** Takes what a member says of itself, if it is to be believed. */
  #take(member: SilentMember, announcement: Announcement): boolean {
    const before = this.#heard.get(member.workerId);
    try {
      this.#hear(member, announcement);
    } catch (error) {
      this.#fail(member, error, this.#environment.clock.nowMs());
    }
    return this.#heard.get(member.workerId) !== before;
  }

  /** Silence is judged later; why it is silent is the connection's to tell. */
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
    const isGone = heard === undefined || nowMs - heard.atMs >= SUCCESSOR_GONE_MS;
    // Whoever answers at the listed address has taken it over from the one before.
    const meeting = meet(isGone ? unmet : heard.succession, announcement.incarnation, {
      isCurrentAnswering: false,
    });
    if (meeting.kind === "refused") {
      const text = `incarnation ${announcement.incarnation} answers, which ${known!.incarnation} replaced`;
      return this.#refused.refuse(member.workerId, "stale", text);
    }
    if (announcement.address !== member.address)
      checkAddress(announcement, this.#settings.addresses);
    this.#refused.accept(member.workerId);
    const isSame = known !== undefined && JSON.stringify(known) === JSON.stringify(announcement);
    if (!isSame) this.#disturb();
    this.#heard.set(member.workerId, {
      announcement: isSame ? known : announcement,
      digest: isSame ? heard!.digest : announcementDigest(announcement),
      atMs: nowMs,
      unanswered: 0,
      askedAtMs: undefined,
      succession: meeting.succession,
    });
  }

  /**
   * A member is silent when others have answered for so long since it was last known to live, or since
   * anybody did again (silence of all accuses nobody), and for `ASKED_MS_MIN` since it was asked in vain.
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

  /** Tells what changed; the first round as a whole, lest a small part look like the cluster. */
  #replace(view: MembershipView): void {
    const isSame = isEqualView(this.#view, view);
    this.#view = isSame ? { ...this.#view, readAtMs: view.readAtMs } : view;
    if (this.#answered.size < this.#settings.members.length) return;
    if (this.#told !== undefined && isEqualView(this.#told, this.#view)) return;
    this.#told = this.#view;
    for (const listener of this.#listeners) listener(this.#view);
  }
}

/** Where to look for a member: where it says it is, or where the list says so. */
function contactOf(member: SilentMember & Partial<Announcement>): Contact {
  const { workerId: id, address, incarnation } = member;
  return { workerId: id, address, incarnation };
}

const byId = (a: Contact, b: Contact): number => (a.workerId < b.workerId ? -1 : 1);

/** A view is told when it differs; contacts follow from workers and silent ones. */
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
