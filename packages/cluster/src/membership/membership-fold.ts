// What a reading of the store changes: pure, so that every bad day of a store is a test. A store
// that is empty, flushed, restarted or lying never removes what it does not positively say is gone.
//
//   announced ─ lease ran out ───────────────▶ left out of the view ── settle time ──▶ not placed on
//       │     └ forgotten by the store (5 s) ─┘   (many at once: only after confirming reads)
//       └─ withdrew ─▶ out of view and placement at once
//
// Of one worker's records the one stored last counts, but for a moment: while a higher incarnation's
// lease would still run, a lower one's record is what an older process wrote over it, or what a store
// that failed over remembered. Once that time is over the lower one is who lives (`succession.ts`).
// What is no record at all takes nothing away before that time is over either.

import type { Incarnation, WorkerId } from "@winnow/core";
import type { Announcement } from "../announcement/announcement.ts";
import { isSameContact } from "../announcement/contact.ts";
import type { Contact } from "../announcement/contact.ts";
import type { MembershipView } from "./membership.ts";

/** What a store answered, completely, at one moment. */
export interface MembershipReading {
  /** Valid announcements under a live lease. */
  readonly announced: readonly Announcement[];
  /** Workers that said they leave. */
  readonly withdrawn: ReadonlyMap<WorkerId, Incarnation>;
  /** Ids under which something is stored that is no record of that worker: it says nothing of it. */
  readonly spoilt: ReadonlySet<WorkerId>;
  /** Ids the store knows, with or without a lease: a flushed store knows none. */
  readonly listed: ReadonlySet<WorkerId>;
}

/** Waits of the fold. */
export interface MembershipFoldSettings {
  /** A worker that vanished keeps its place in the placement this long. */
  readonly placementSettleMs: number;
  /** A worker the store has forgotten (not: whose lease ran out) stays in the view this long. */
  readonly forgottenMs: number;
  /** A worker whose record was last read so long ago does not renew it any more. */
  readonly leaseMs: number;
}

/** What is remembered between readings. */
export interface MembershipState {
  readonly members: ReadonlyMap<WorkerId, Member>;
  /** When each worker was last in the view that left it without saying so. */
  readonly departed: ReadonlyMap<WorkerId, number>;
  readonly view: MembershipView;
}

interface Member {
  readonly announcement: Announcement;
  /** When this incarnation's record was last read. */
  readonly seenAtMs: number;
  readonly missingReads: number;
  readonly missingSinceMs: number | undefined;
}

/** A reading that removes more than this part of the workers must be confirmed. */
const REMOVED_PART_MAX = 1 / 3;
const CONFIRMED_READS = 3;

/** Before the first reading. */
export const initialMembership: MembershipState = {
  members: new Map(),
  departed: new Map(),
  view: {
    workers: [],
    contacts: [],
    silent: [],
    placementWorkers: [],
    readAtMs: 0,
    healthy: false,
  },
};

/** A reading that failed: the view stays as it is, for ever if need be. */
export function foldFailure(state: MembershipState): MembershipState {
  if (!state.view.healthy) return state;
  return { ...state, view: { ...state.view, healthy: false } };
}

/** A complete reading. Lists of the view that did not change are the same objects as before. */
export function foldReading(
  state: MembershipState,
  reading: MembershipReading,
  { nowMs, settings }: { readonly nowMs: number; readonly settings: MembershipFoldSettings },
): MembershipState {
  const present = presentMembers(state, reading, { nowMs, settings });
  const missing = missingMembers(state, { present, reading, nowMs });
  const removed = removable(missing, { reading, nowMs, settings, total: state.members.size });
  const isEmptied = present.size === 0 && removed.size === missing.length;
  const kept = isEmptied ? missing : missing.filter((member) => !removed.has(member));
  const members = new Map(present);
  for (const member of kept) members.set(member.announcement.workerId, member);
  const departed = new Map(state.departed);
  for (const { announcement, missingSinceMs } of isEmptied ? [] : removed) {
    if (announcement.state !== "draining") departed.set(announcement.workerId, missingSinceMs!);
  }
  for (const [workerId, sinceMs] of departed) {
    const isSettled = nowMs - sinceMs >= settings.placementSettleMs;
    if (isSettled || members.has(workerId) || reading.withdrawn.has(workerId)) {
      departed.delete(workerId);
    }
  }
  const view = viewOf(state.view, { members, departed, reading, nowMs });
  return { members, departed, view };
}

/** Those announced that have not withdrawn, each in the incarnation that is believed. */
function presentMembers(
  { members }: MembershipState,
  reading: MembershipReading,
  { nowMs, settings }: { readonly nowMs: number; readonly settings: MembershipFoldSettings },
): ReadonlyMap<WorkerId, Member> {
  const present = new Map<WorkerId, Member>();
  /** Whether the record that was read is of an earlier incarnation than one that may still live. */
  const isEarlier = ({ announcement, seenAtMs }: Member, read: Incarnation): boolean =>
    read < announcement.incarnation && nowMs - seenAtMs < settings.leaseMs;
  for (const announcement of reading.announced) {
    const { workerId, incarnation } = announcement;
    if (hasWithdrawn(reading, announcement)) continue;
    const known = members.get(workerId);
    if (known !== undefined && isEarlier(known, incarnation)) present.set(workerId, known);
    else {
      const seen = { announcement, seenAtMs: nowMs, missingReads: 0, missingSinceMs: undefined };
      present.set(workerId, seen);
    }
  }
  for (const [workerId, incarnation] of reading.withdrawn) {
    const known = members.get(workerId);
    if (known !== undefined && isEarlier(known, incarnation)) present.set(workerId, known);
  }
  for (const workerId of reading.spoilt) {
    const known = members.get(workerId);
    if (known !== undefined && nowMs - known.seenAtMs < settings.leaseMs) {
      present.set(workerId, known);
    }
  }
  return present;
}

/** Members of before that this reading does not name, and that have not withdrawn. */
function missingMembers(
  state: MembershipState,
  facts: {
    readonly present: ReadonlyMap<WorkerId, Member>;
    readonly reading: MembershipReading;
    readonly nowMs: number;
  },
): readonly Member[] {
  return [...state.members.values()]
    .filter(({ announcement }) => {
      return (
        !facts.present.has(announcement.workerId) && !hasWithdrawn(facts.reading, announcement)
      );
    })
    .map(({ announcement, seenAtMs, missingReads, missingSinceMs }) => ({
      announcement,
      seenAtMs,
      missingReads: missingReads + 1,
      missingSinceMs: missingSinceMs ?? facts.nowMs,
    }));
}

/** A withdrawal holds for the life that said it and every earlier one. */
function hasWithdrawn(
  reading: MembershipReading,
  { workerId, incarnation }: Announcement,
): boolean {
  const withdrawn = reading.withdrawn.get(workerId);
  return withdrawn !== undefined && withdrawn >= incarnation;
}

interface RemovalFacts {
  readonly reading: MembershipReading;
  readonly nowMs: number;
  readonly settings: MembershipFoldSettings;
  /** Workers before this reading. */
  readonly total: number;
}

/** The missing members that may be left out now. */
function removable(missing: readonly Member[], facts: RemovalFacts): ReadonlySet<Member> {
  const candidates = missing.filter(({ announcement, missingSinceMs }) => {
    if (facts.reading.listed.has(announcement.workerId)) return true;
    return facts.nowMs - missingSinceMs! >= facts.settings.forgottenMs;
  });
  const isMany = candidates.length > facts.total * REMOVED_PART_MAX;
  const confirmed = candidates.filter(({ missingReads }) => missingReads >= CONFIRMED_READS);
  return new Set(isMany ? confirmed : candidates);
}

interface ViewParts {
  readonly members: ReadonlyMap<WorkerId, Member>;
  readonly departed: ReadonlyMap<WorkerId, number>;
  readonly reading: MembershipReading;
  readonly nowMs: number;
}

function viewOf(before: MembershipView, parts: ViewParts): MembershipView {
  const { members, departed, nowMs } = parts;
  const workers = [...members.values()]
    .map(({ announcement }) => announcement)
    .toSorted((a, b) => (a.workerId < b.workerId ? -1 : 1));
  const lasting = workers.filter(({ state }) => state !== "draining");
  const placed = lasting.length + departed.size > 0 ? lasting : workers;
  const placementWorkers = [...placed.map(({ workerId }) => workerId), ...departed.keys()].toSorted(
    (a, b) => (a < b ? -1 : 1),
  );
  const contacts = contactsOf(parts);
  const isSame = haveSameItems(workers, before.workers);
  const isSamePlacement = haveSameItems(placementWorkers, before.placementWorkers);
  const areSameContacts = haveSameItems(contacts, before.contacts, isSameContact);
  return {
    workers: isSame ? before.workers : workers,
    contacts: areSameContacts ? before.contacts : contacts,
    silent: before.silent,
    placementWorkers: isSamePlacement ? before.placementWorkers : placementWorkers,
    readAtMs: nowMs,
    healthy: true,
  };
}

/** Where each worker of the view says it is, or whoever wrote a record under its name. */
function contactsOf({ members, reading }: ViewParts): readonly Contact[] {
  const said = new Map<WorkerId, Announcement>();
  for (const { announcement } of members.values()) said.set(announcement.workerId, announcement);
  for (const announcement of reading.announced) said.set(announcement.workerId, announcement);
  return [...said.values()]
    .map(({ workerId, address, incarnation }) => ({ workerId, address, incarnation }))
    .toSorted((a, b) => (a.workerId < b.workerId ? -1 : 1));
}

/** Whether two views differ in anything but the time of reading. */
export function isSameView(a: MembershipView, b: MembershipView): boolean {
  return (
    a.healthy === b.healthy &&
    a.workers === b.workers &&
    a.contacts === b.contacts &&
    a.placementWorkers === b.placementWorkers &&
    a.silent === b.silent
  );
}

function haveSameItems<Item>(
  a: readonly Item[],
  b: readonly Item[],
  isSame: (one: Item, other: Item) => boolean = Object.is,
): boolean {
  return a.length === b.length && a.every((item, index) => isSame(item, b[index]!));
}
