// Membership by a fixed list, for one machine or a headless Service: each member is asked what it
// holds, over and over. The list is the placement, so a death moves no partitions; a member that
// does not answer stays listed, as silent. When nobody answers it is the asker that is cut off: the
// last good view stays. Members are asked seldom while all is as it was, often while anything changes
// or one that answered does not.

import { WinnowError, toWinnowError, workerId } from "@winnow/core";
import type { Environment, Timer, WorkerId } from "@winnow/core";
import type { Announcement } from "../announcement/announcement.ts";
import { RefusedRecords, refusalReason } from "../trust/refused-records.ts";
import { anyAddress, parseAddress } from "../trust/worker-address.ts";
import type { AddressRules } from "../trust/worker-address.ts";
import type { Contact } from "./contact.ts";
import { checkAddress } from "./membership-record.ts";
import type { MembershipStore, MembershipView, SilentMember } from "./membership.ts";
import { meet, unmet } from "../announcement/succession.ts";
import type { Succession } from "../announcement/succession.ts";

/** The list, and how it is asked. */
export interface StaticMembershipSettings {
  readonly members: readonly SilentMember[];
  /** Between two questions to one member while anything changes or is in doubt. Default 300. */
  readonly pollMs: number;
  /** The same while all is as it was: a question costs either side a millisecond. Default 1000. */
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
  readonly atMs: number;
  /** Questions since then that got no answer. Time alone accuses nobody: this process may have slept. */
  unanswered: number;
  readonly succession: Succession;
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
  readonly #listeners = new Set<(view: MembershipView) => void>();
  #view: MembershipView;
  #told: MembershipView | undefined;
  #healthySinceMs = 0;
  #restlessUntilMs: number;
  #isAsking = false;
  #isClosed = false;
  readonly #refused: RefusedRecords;

  constructor(
    parts: { readonly environment: Environment; readonly describe: Describe },
    settings: Pick<StaticMembershipSettings, "members"> & Partial<StaticMembershipSettings>,
  ) {
    this.#environment = parts.environment;
    this.#describe = parts.describe;
    this.#refused = settings.refused ?? new RefusedRecords(parts.environment.log);
    this.#restlessUntilMs = parts.environment.clock.nowMs() + UNREST_MS;
    const members = settings.members.toSorted((a, b) => (a.workerId < b.workerId ? -1 : 1));
    this.#settings = { ...DEFAULTS, ...settings, members };
    this.#placementWorkers = members.map((member) => member.workerId);
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
    this.#listeners.clear();
    return Promise.resolve();
  }

  #askLater(member: SilentMember, delayMs: number): void {
    if (this.#isClosed) return;
    const timer = this.#environment.clock.setTimer(delayMs, () => {
      this.#timers.delete(member.workerId);
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
      const timer = this.#timers.get(member.workerId);
      if (timer === undefined) continue;
      clock.clearTimer(timer);
      this.#askLater(member, this.#settings.pollMs);
    }
  }

  #delayMs(): number {
    const { pollMs, steadyPollMs } = this.#settings;
    const isSteady = this.#environment.clock.nowMs() >= this.#restlessUntilMs;
    return isSteady ? Math.max(pollMs, steadyPollMs) : pollMs;
  }

  async #ask(member: SilentMember): Promise<void> {
    try {
      const announcement = await this.#describe(member.address, this.#settings.describeTimeoutMs);
      this.#hear(member, announcement);
    } catch (thrown) {
      // Silence is judged below; why it is silent is the connection's to tell.
      const heard = this.#heard.get(member.workerId);
      if (heard !== undefined) heard.unanswered += 1;
      const error = toWinnowError(thrown);
      if (error.code === "INVALID_ARGUMENT" || error.code === "PERMISSION_DENIED") {
        this.#refused.refuse(member.workerId, refusalReason(error), error.message);
      }
      if (!this.#view.silent.includes(member)) this.#disturb();
    }
    if (this.#isClosed) return;
    this.#answered.add(member.workerId);
    this.#update();
    this.#askLater(member, this.#delayMs());
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
      atMs: nowMs,
      unanswered: 0,
      succession: meeting.succession,
    });
  }

  /**
   * A member is silent when others have answered for so long since it last did, or since anybody
   * did again: silence of all accuses nobody.
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
      if (heard.unanswered < UNANSWERED_MIN) return true;
      return lastHeardMs - Math.max(heard.atMs, this.#healthySinceMs) < silentAfterMs;
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
