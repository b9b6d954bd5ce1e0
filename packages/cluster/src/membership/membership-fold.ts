// How a reading of the store changes the view: pure, so that each fault of a store can be a test. A
// store that is empty, flushed, restarted or lying removes no worker at once: only a withdrawal, or
// an expired lease, does.
//
//   announced ─ lease ran out ───────────────▶ left out of the view ── settle time ──▶ not placed on
//       │     └ forgotten by the store (5 s) ─┘   (many at once: only after confirming reads)
//       └─ withdrew ─▶ out of view and placement at once
//
// The record stored last counts, with one exception: while the lease of a higher incarnation would
// still run, the record of a lower one is ignored, because an older process may have written it
// over the newer one's, or a store that failed over may have restored it. After that time the lower
// incarnation is the process that lives (`succession.ts`). A stored text that is no valid record
// does not remove the worker before that time either. Nor does a record that is gone while its lease would still run: the
// store's clock was set forward, or it has evicted the record.

import type { Incarnation, WorkerId } from "@winnow/core";
import type { Announcement } from "../announcement/announcement.ts";
import { isSameContact } from "../announcement/contact.ts";
import type { Contact } from "../announcement/contact.ts";
import type { MembershipView } from "./membership.ts";

/** The complete answer of a store at one moment. */
export interface MembershipReading {
  /** Valid announcements under a live lease. */
  readonly announced: readonly Announcement[];
  /** Ms that the leases of announced workers have left, of those for which that is known. */
  readonly leftMs: ReadonlyMap<WorkerId, number>;
  /** Workers that withdrew, each with the incarnation that did. */
  readonly withdrawn: ReadonlyMap<WorkerId, Incarnation>;
  /** Ids under which a text is stored that is no valid record of that worker. */
  readonly spoilt: ReadonlySet<WorkerId>;
  /** Ids in the store's set of members, with or without a live lease; empty after a flush. */
  readonly listed: ReadonlySet<WorkerId>;
}

/** Times of the fold, in ms. */
export interface MembershipFoldSettings {
  /** Ms for which partitions are still placed on a worker that vanished. */
  readonly placementSettleMs: number;
  /** Ms for which a worker stays in the view after the store lost its id, not only its record. */
  readonly forgottenMs: number;
  /** Ms without its record after which a worker counts as not renewing its lease. */
  readonly leaseMs: number;
}

/** What the fold keeps between readings. */
export interface MembershipState {
  readonly members: ReadonlyMap<WorkerId, Member>;
  /**
   * Workers that left the view without a withdrawal, with the time when they were first missing.
   */
  readonly departed: ReadonlyMap<WorkerId, number>;
  readonly view: MembershipView;
}

interface Member {
  readonly announcement: Announcement;
  /** When this incarnation's record was last read. */
  readonly seenAtMs: number;
  /** When its lease ends, as it was last read. */
  readonly leaseEndMs: number;
  readonly missingReads: number;
  readonly missingSinceMs: number | undefined;
}

/** Readings that remove more than this part of the workers must agree `CONFIRMED_READS` times. */
const REMOVED_PART_MAX = 1 / 3;
const CONFIRMED_READS = 3;

/** The state before the first reading. */
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

/** The state after a failed reading: the view keeps its workers, however long the store is away. */
export function foldFailure(state: MembershipState): MembershipState {
  if (!state.view.healthy) return state;
  return { ...state, view: { ...state.view, healthy: false } };
}

/** The state after a complete reading. Unchanged lists of the view stay the same objects. */
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

/** Workers announced and not withdrawn, each by the incarnation that counts. */
function presentMembers(
  { members }: MembershipState,
  reading: MembershipReading,
  { nowMs, settings }: { readonly nowMs: number; readonly settings: MembershipFoldSettings },
): ReadonlyMap<WorkerId, Member> {
  const present = new Map<WorkerId, Member>();
  /** Whether `read` is a lower incarnation than the known one, which may still live. */
  const isEarlier = ({ announcement, seenAtMs }: Member, read: Incarnation): boolean =>
    read < announcement.incarnation && nowMs - seenAtMs < settings.leaseMs;
  for (const announcement of reading.announced) {
    const { workerId, incarnation } = announcement;
    if (hasWithdrawn(reading, announcement)) continue;
    const known = members.get(workerId);
    if (known !== undefined && isEarlier(known, incarnation)) present.set(workerId, known);
    else {
      const leaseEndMs = nowMs + (reading.leftMs.get(workerId) ?? 0);
      const isThere = { missingReads: 0, missingSinceMs: undefined };
      present.set(workerId, { announcement, seenAtMs: nowMs, leaseEndMs, ...isThere });
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

/** Previous members that this reading does not name and that have not withdrawn. */
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
    .map(({ announcement, seenAtMs, leaseEndMs, missingReads, missingSinceMs }) => ({
      announcement,
      seenAtMs,
      leaseEndMs,
      missingReads: missingReads + 1,
      missingSinceMs: missingSinceMs ?? facts.nowMs,
    }));
}

/** Whether the worker withdrew: a withdrawal covers its own incarnation and every lower one. */
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

/** The missing members that may be removed with this reading. */
function removable(missing: readonly Member[], facts: RemovalFacts): ReadonlySet<Member> {
  const candidates = missing.filter(({ announcement, leaseEndMs, missingSinceMs }) => {
    if (facts.nowMs < leaseEndMs) return false;
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

/** Contacts of the view's workers; a record of this reading has precedence over the view. */
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
