// One process of the simulated world, with its own clock, as irregular as that of a busy machine. Readings of
// the clock advance during a decision. Timers fire up to a millisecond early or somewhat late, like Node's. A
// process that stands still finds its timers and its messages waiting afterwards, the timers first.

import type { Clock, Environment, Logger, Timer } from "@winnow/core";
import { between } from "./virtual-time.ts";
import type { ComingEvent, Random, VirtualTime } from "./virtual-time.ts";

/** How irregular the clock is. */
export interface ClockUnkindness {
  /** The most by which a reading is later than the one before. */
  readonly readingMs: number;
  /** The most by which a reading is rarely later: the process was not scheduled meanwhile. */
  readonly hiccupMs: number;
  /** Timers fire so late at most. */
  readonly lateMs: number;
}

/** The world a process lives in. */
export interface ProcessWorld {
  readonly time: VirtualTime;
  readonly unkindness: ClockUnkindness;
  /** Takes a line of a process's log. */
  readonly note: (process: string, event: string, fields: unknown) => void;
}

interface SetTimer {
  readonly brand: "winnow-timer";
  event: ComingEvent | undefined;
  run: (() => void) | undefined;
}

/** The longest wait that Node's timers support; longer ones fire at once. */
const TIMER_MS_MAX = 2 ** 31 - 1;
const HICCUP_RATIO = 0.002;
/** The most by which a clock is ahead of one moment of the world, however often it is read. */
const LEAD_MS_MAX = 50;

/** A process: its clock, its timers, its messages. */
export class SimulatedProcess implements Clock {
  readonly name: string;
  readonly environment: Environment;
  state: "running" | "paused" | "dead" = "running";
  /** How often it has stood still. */
  pauses = 0;
  /** When it last continued after standing still, virtual ms. */
  resumedMs = -Infinity;
  readonly #world: ProcessWorld;
  readonly #random: Random;
  readonly #offsetMs: number;
  readonly #timers = new Set<SetTimer>();
  /** What came due while it stood still. */
  #heldTimers: (() => void)[] = [];
  #heldMail: (() => void)[] = [];
  #readMs = 0;

  constructor(name: string, world: ProcessWorld, random: Random) {
    this.name = name;
    this.#world = world;
    this.#random = random;
    this.#offsetMs = between(random, 0, 1000);
    this.environment = { clock: this, random, log: this.#logger() };
  }

  /** Timers that have neither run nor been cleared. */
  get pendingTimers(): number {
    return this.#timers.size;
  }

  nowMs(): number {
    const { unkindness, time } = this.#world;
    const hiccupMs = this.#random() < HICCUP_RATIO ? this.#random() * unkindness.hiccupMs : 0;
    const passedMs = this.#random() * unkindness.readingMs + hiccupMs;
    const trueMs = time.nowMs + this.#offsetMs;
    const laterMs = Math.max(this.#readMs, trueMs) + passedMs;
    this.#readMs = Math.max(this.#readMs, Math.min(laterMs, trueMs + LEAD_MS_MAX));
    return this.#readMs;
  }

  setTimer(delayMs: number, run: () => void): Timer {
    const { unkindness, time } = this.#world;
    const isWithin = delayMs >= 1 && delayMs <= TIMER_MS_MAX;
    const waitMs = isWithin ? Math.floor(delayMs) : 1;
    const jitterMs = between(this.#random, -1, unkindness.lateMs);
    const timer: SetTimer = { brand: "winnow-timer", event: undefined, run };
    timer.event = time.after(Math.max(0.05, waitMs + jitterMs), () => this.#fire(timer));
    this.#timers.add(timer);
    return timer;
  }

  clearTimer(timer: Timer): void {
    const set = timer as SetTimer;
    this.#timers.delete(set);
    if (set.event !== undefined) set.event.run = undefined;
    set.run = undefined;
  }

  /** Runs at the end of this turn. */
  readonly soon = (run: () => void): void => {
    this.#world.time.after(this.#random() * 0.02, () => this.receive(run));
  };

  /** A message arrives now. It waits while the process stands still, and is lost if the process is dead. */
  receive(run: () => void): void {
    if (this.state === "dead") return;
    if (this.state === "paused" || this.#heldMail.length > 0) this.#heldMail.push(run);
    else run();
  }

  /** The process stands still, as after SIGSTOP. */
  pause(): void {
    if (this.state !== "running") return;
    this.state = "paused";
    this.pauses += 1;
  }

  resume(): void {
    if (this.state !== "paused") return;
    this.state = "running";
    this.resumedMs = this.#world.time.nowMs;
    this.#catchUp();
  }

  /** The process is gone, with everything that it had to do. */
  kill(): void {
    this.state = "dead";
    for (const timer of this.#timers) this.clearTimer(timer);
    this.#heldTimers = [];
    this.#heldMail = [];
  }

  #fire(timer: SetTimer): void {
    if (this.state === "dead") return;
    const run = (): void => {
      if (!this.#timers.delete(timer)) return;
      timer.run?.();
    };
    if (this.state === "paused" || this.#heldTimers.length > 0) this.#heldTimers.push(run);
    else run();
  }

  #catchUp(): void {
    if (this.state !== "running") return;
    const next = this.#heldTimers.length > 0 ? this.#heldTimers[0] : this.#heldMail[0];
    if (next === undefined) return;
    this.#world.time.after(0.01, () => {
      if (this.state !== "running") return;
      if (this.#heldTimers.length > 0) this.#heldTimers.shift();
      else this.#heldMail.shift();
      next();
      this.#catchUp();
    });
  }

  #logger(): Logger {
    const note = (event: string, fields?: unknown): void => {
      if (this.state !== "dead") this.#world.note(this.name, event, fields);
    };
    return { debug: () => undefined, info: note, warn: note, error: note };
  }
}
