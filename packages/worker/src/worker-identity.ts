// Which incarnation this process is, and whether another process runs in its place. The rule is
// `succession.ts` of the cluster package; this file is the worker's side of it.
//
//   starting ─ numbered above what the store holds ─▶ in charge ─ a rival's record, and the rival answers ─▶ superseded
//                                                     ▲  │  ▲                                                   │
//             a router tells of a higher number: above it └──┘ └── no rival has answered for 10 s: above it ────┘
//
// A rival is another process that the store (or an address of the fixed list) names under this worker's id. A
// record alone proves nothing: unless a process with that number answers at its address, this process goes
// on, and its renewals overwrite the record. A superseded worker stops announcing itself, so that it does not
// overwrite its successor's record; routers that never met the successor may go on asking this one.

import type {
  Announcement,
  Contact,
  Describe,
  MembershipStore,
  MembershipView,
} from "@winnow/cluster";
import { incarnationAbove } from "@winnow/cluster";
import type { Environment, Incarnation, Timer, WorkerId } from "@winnow/core";

/** What an identity needs. */
export interface WorkerIdentityParts {
  readonly environment: Environment;
  readonly membership: MembershipStore;
  /** Asks which worker answers at an address; `undefined`: no rival is ever believed. */
  readonly describe: Describe | undefined;
  /** The address of this worker. */
  readonly address: () => string;
  /** Called when something is to be announced at once: the number has changed, or whether this process is in charge. */
  readonly onChange: () => void;
}

/** The id and number that a worker starts with. */
export interface WorkerIdentitySettings {
  readonly workerId: WorkerId;
  /** The number to begin with, taken from this process's own clock. */
  readonly incarnation: Incarnation;
}

const CHECK_INTERVAL_MS = 1000;
const DESCRIBE_MS_MAX = 1000;
/** Unanswered checks in a row, over several leases, after which a successor counts as dead. */
const UNANSWERED_MAX = 10;

/** The incarnation of this process. */
export class WorkerIdentity {
  readonly #parts: WorkerIdentityParts;
  readonly #workerId: WorkerId;
  #incarnation: Incarnation;
  #rival: Contact | undefined;
  #supersededBy: Announcement | undefined;
  #unanswered = 0;
  #isChecking = false;
  #timer: Timer | undefined;
  #isClosed = false;

  constructor(parts: WorkerIdentityParts, settings: WorkerIdentitySettings) {
    this.#parts = parts;
    this.#workerId = settings.workerId;
    this.#incarnation = settings.incarnation;
  }

  /** The number to announce. */
  get incarnation(): Incarnation {
    return this.#incarnation;
  }

  /** Whether another process, of a higher number, was found alive as this worker. */
  get isSuperseded(): boolean {
    return this.#supersededBy !== undefined;
  }

  /** Takes a number above the one in the store, if the store answers soon. Precedes any announcement. */
  async start(): Promise<void> {
    const last = await this.#parts.membership.lastIncarnation(this.#workerId);
    this.#raise(last, "the store");
  }

  /** A router has met a process of a higher number that is dead: this process takes a number above it. */
  onPredecessor(predecessor: Incarnation): void {
    if (this.isSuperseded || this.#isClosed) return;
    if (this.#raise(predecessor, "a router")) this.#parts.onChange();
  }

  /** Looks in a new view for another process under this worker's id. */
  onView(view: MembershipView): void {
    const named = view.contacts.find(({ workerId }) => workerId === this.#workerId);
    if (named?.incarnation === undefined || this.#isOwn(named)) {
      this.#rival = undefined;
    } else if (this.#isAbove(named as Rival)) {
      this.#rival = named;
      if (this.#timer === undefined && !this.#isChecking) void this.#check();
    } else {
      this.#rival = undefined;
      // An older process has overwritten this worker's record, which must be written again.
      if (named.address !== this.#parts.address() && !this.isSuperseded) this.#parts.onChange();
    }
  }

  close(): void {
    this.#isClosed = true;
    if (this.#timer !== undefined) this.#parts.environment.clock.clearTimer(this.#timer);
    this.#timer = undefined;
  }

  #isOwn({ incarnation, address }: Contact): boolean {
    return incarnation === this.#incarnation && address === this.#parts.address();
  }

  /** Whether a rival has the higher number; of two equal numbers the one at the greater address is the successor. */
  #isAbove({ incarnation, address }: Rival): boolean {
    if (incarnation !== this.#incarnation) return incarnation > this.#incarnation;
    return address > this.#parts.address();
  }

  #raise(above: Incarnation | undefined, toldBy: string): boolean {
    const raised = incarnationAbove(above, this.#incarnation);
    if (raised === this.#incarnation) return false;
    this.#parts.environment.log.info("worker took an incarnation above a former one", {
      incarnation: raised,
      before: this.#incarnation,
      toldBy,
    });
    this.#incarnation = raised;
    return true;
  }

  /** Asks the successor, or else the rival, whether it is alive. Never rejects. */
  async #check(): Promise<void> {
    const asked = this.#supersededBy ?? this.#rival;
    const { describe, environment } = this.#parts;
    if (asked === undefined || describe === undefined || this.#isClosed) return;
    this.#isChecking = true;
    const answer = await describe(asked.address, DESCRIBE_MS_MAX).catch(() => undefined);
    this.#isChecking = false;
    if (this.#isClosed) return;
    if (answer?.workerId === this.#workerId && this.#isAbove(answer)) this.#stepDown(answer);
    else this.#unanswered += 1;
    if (this.#unanswered >= UNANSWERED_MAX) this.#stepUp();
    if (this.#rival === undefined && !this.isSuperseded) return;
    this.#timer = environment.clock.setTimer(CHECK_INTERVAL_MS, () => {
      this.#timer = undefined;
      void this.#check();
    });
  }

  #stepDown(successor: Announcement): void {
    const { environment, onChange } = this.#parts;
    const wasSuperseded = this.isSuperseded;
    this.#supersededBy = successor;
    this.#unanswered = 0;
    if (wasSuperseded) return;
    environment.log.error("another process lives as this worker: this one is not announced", {
      workerId: this.#workerId,
      incarnation: this.#incarnation,
      other: successor.incarnation,
      otherAddress: successor.address,
    });
    onChange();
  }

  #stepUp(): void {
    const successor = this.#supersededBy;
    if (successor === undefined) return;
    this.#supersededBy = undefined;
    this.#raise(successor.incarnation, "its successor, which is gone");
    this.#parts.onChange();
  }
}

type Rival = Contact & { readonly incarnation: Incarnation };
