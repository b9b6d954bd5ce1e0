// Counts the bytes that are held for transfers from clients (bodies) and to them (answers), and
// decides which transfer gives way when memory is short. Only bytes in memory count, not announced
// lengths. Closing a transfer releases all of its bytes, however it ended.
//
//   body     moving ── complete ──▶ at rest, while it is worked on ──▶ closed
//   answer   moving ────────────────────────────────────────────────▶ closed
//
// A moving transfer depends on its client. It is checked regularly, and given up when it has not
// moved by a piece for too long, or has lasted too long as a whole. When memory is short, the
// transfer that has not moved for longest gives way at once, so that clients that stall do not keep
// others out. If all transfers move, the one that asks for more is refused. Large transfers never
// take the reserve that is kept for small ones.
//
// Checks use grace timers: a process whose event loop was blocked does not blame its clients.

import type { Clock } from "../time/clock.ts";
import { setGraceTimer } from "../time/grace-timer.ts";
import type { GraceTimer } from "../time/grace-timer.ts";
import { Outstanding } from "../memory/outstanding.ts";
import { nextLoopTurn } from "../time/loop-turn.ts";

/** Why a transfer was given up; `places`: a later stream needed its place. */
export type GiveUpReason = "stalled" | "overdue" | "memory" | "places";

/** Bounds of all transfers of one kind. */
export interface TransferLimits {
  /** Bytes of all transfers together. */
  readonly bytesMax: number;
  /** Bytes up to which a transfer is small. */
  readonly smallBytes: number;
  /** Bytes that large transfers must leave free for small ones. */
  readonly reserveBytes: number;
  /** A transfer that moves less than `PIECE_BYTES` in so many milliseconds is given up. */
  readonly stallMs: number;
  /** Milliseconds that a transfer may move in all. */
  readonly timeoutMs: number;
  /** Milliseconds between two checks. */
  readonly lookMs: number;
}

/** Bytes by which a transfer must move between two checks to count as moving. */
export const PIECE_BYTES: number = 64 * 1024;

/** Transfers that are given up in one turn of the event loop. */
const TURN_ENDS_MAX = 32;

/** Memory of one kind that a door holds for its clients. */
export interface HeldMemory {
  /** Requests that arrive or are worked on; parsing of large ones; inputs of gRPC calls; unread answers. */
  readonly kind: "requests" | "parsing" | "tensors" | "answers";
  readonly bytes: number;
  readonly bytesMax: number;
}

/** One transfer. */
export interface Transfer {
  /** Consecutive checks at which it had not moved by a piece. */
  readonly stillLooks: number;
  /** Takes memory for `bytes` more bytes; false, and nothing is taken, if there is none. */
  take(bytes: number): boolean;
  /** Sets the held bytes to `bytes`; false, and nothing changes, if there is no memory for more. */
  hold(bytes: number): boolean;
  /** Reports `bytes` more bytes received, or sent. */
  moved(bytes: number): void;
  /** Puts the transfer at rest: it no longer depends on its client, but its bytes stay held. */
  rest(): void;
  /** Releases all bytes. Idempotent. */
  close(): void;
}

/** All transfers of one kind. */
export class Transfers {
  readonly #clock: Clock;
  readonly #limits: TransferLimits;
  readonly #moving = new Outstanding<OpenTransfer>();
  #bytes = 0;
  #largeBytes = 0;
  /** Moving transfers that had not moved at the last check, and their bytes: what could give way. */
  #still = 0;
  #stillBytes = 0;
  #looks: GraceTimer | undefined;
  /** Consecutive checks that found no memory for a small transfer. */
  #shortLooks = 0;

  constructor(clock: Clock, limits: TransferLimits) {
    this.#clock = clock;
    this.#limits = limits;
  }

  /** Bytes held. */
  get bytes(): number {
    return this.#bytes;
  }

  /** Bytes that may be held. */
  get bytesMax(): number {
    return this.#limits.bytesMax;
  }

  /** For how many milliseconds there has been no memory for a small transfer. */
  get shortMs(): number {
    return this.#shortLooks * this.#limits.lookMs;
  }

  /** Whether any transfer had not moved by a piece at the last check. */
  get hasStill(): boolean {
    return this.#still > 0;
  }

  /** Begins a transfer. `end` is called at most once, if it is given up; close it even then. */
  open(end: (reason: GiveUpReason) => void): Transfer {
    const transfer = new OpenTransfer(this, end);
    transfer.id = this.#moving.add(transfer);
    this.#lookLater();
    return transfer;
  }

  /** Whether `bytes` more bytes would fit if all transfers that do not move gave way. */
  hasRoom(bytes: number): boolean {
    return this.#fits(0, bytes) || this.#fits(0, bytes - this.#stillBytes);
  }

  /** Stops the checks. */
  close(): void {
    this.#looks?.clear();
    this.#looks = undefined;
  }

  /** @internal a transfer's own */
  take(transfer: OpenTransfer, bytes: number): boolean {
    while (!this.#fits(transfer.bytes, bytes)) {
      const slowest = this.#slowest(transfer);
      if (slowest === undefined) return false;
      this.#giveUp(slowest, "memory");
    }
    this.#count(transfer, bytes);
    return true;
  }

  /** @internal a transfer's own */
  shrink(transfer: OpenTransfer, bytes: number): void {
    this.#count(transfer, -bytes);
    this.#endLooks();
  }

  /** @internal a transfer's own */
  rest(transfer: OpenTransfer): void {
    this.#moving.delete(transfer.id);
    this.#countStill(transfer);
    this.#endLooks();
  }

  /** @internal a transfer's own */
  release(transfer: OpenTransfer): void {
    this.#moving.delete(transfer.id);
    this.#count(transfer, -transfer.bytes);
    this.#endLooks();
  }

  #fits(held: number, bytes: number): boolean {
    const { bytesMax, smallBytes, reserveBytes } = this.#limits;
    if (this.#bytes + bytes > bytesMax) return false;
    const whole = held + bytes;
    if (whole <= smallBytes) return true;
    return this.#largeBytes + (held > smallBytes ? bytes : whole) <= bytesMax - reserveBytes;
  }

  /** Counts a change of a transfer's bytes; beyond `smallBytes` all of its bytes count as large. */
  #count(transfer: OpenTransfer, change: number): void {
    const { smallBytes } = this.#limits;
    const before = transfer.bytes;
    const after = before + change;
    this.#bytes += change;
    this.#largeBytes += (after > smallBytes ? after : 0) - (before > smallBytes ? before : 0);
    transfer.bytes = after;
    this.#countStill(transfer);
  }

  /** Counts what has changed of a transfer: whether it moves, its looks, or its bytes. */
  #countStill(transfer: OpenTransfer): void {
    const isStill = transfer.stillLooks > 0 && this.#moving.get(transfer.id) === transfer;
    const stillBytes = isStill ? transfer.bytes : 0;
    this.#still += Number(isStill) - Number(transfer.isStill);
    this.#stillBytes += stillBytes - transfer.stillBytes;
    transfer.isStill = isStill;
    transfer.stillBytes = stillBytes;
  }

  /**
   * The transfer that has not moved for longest; among equals the one that holds most. While thousands move, those that are
   * refused must not look through them.
   */
  #slowest(asking: OpenTransfer): OpenTransfer | undefined {
    if (this.#stillBytes === asking.stillBytes) return undefined;
    let slowest: OpenTransfer | undefined;
    for (const transfer of this.#moving) {
      if (transfer === asking || transfer.stillLooks === 0 || transfer.bytes === 0) continue;
      const order =
        slowest === undefined
          ? 1
          : transfer.stillLooks - slowest.stillLooks || transfer.bytes - slowest.bytes;
      if (order > 0) slowest = transfer;
    }
    return slowest;
  }

  /** Releases the transfer's bytes at once and reports the reason to its owner. */
  #giveUp(transfer: OpenTransfer, reason: GiveUpReason): void {
    this.release(transfer);
    transfer.end(reason);
  }

  /** A few in a turn of the event loop: each is answered, and thousands may have stalled together. */
  async #giveUpAll(ended: readonly (readonly [OpenTransfer, GiveUpReason])[]): Promise<void> {
    for (const [at, [transfer, reason]] of ended.entries()) {
      if (at > 0 && at % TURN_ENDS_MAX === 0) await nextLoopTurn();
      // It may have ended meanwhile, or given way to another.
      if (this.#moving.get(transfer.id) === transfer) this.#giveUp(transfer, reason);
    }
  }

  #lookLater(): void {
    this.#looks ??= setGraceTimer(this.#clock, { delayMs: this.#limits.lookMs }, () => {
      this.#looks = undefined;
      this.#look();
      if (this.#moving.size > 0 || this.#bytes > 0) this.#lookLater();
    });
  }

  /** Where there is nothing to judge, no timer wakes the process. */
  #endLooks(): void {
    if (this.#moving.size > 0 || this.#bytes > 0) return;
    this.#looks?.clear();
    this.#looks = undefined;
    this.#shortLooks = 0;
  }

  #look(): void {
    const { stallMs, timeoutMs, lookMs, bytesMax, smallBytes } = this.#limits;
    const ended: [OpenTransfer, GiveUpReason][] = [];
    for (const transfer of this.#moving) {
      transfer.look();
      this.#countStill(transfer);
      if (transfer.looks * lookMs >= timeoutMs) ended.push([transfer, "overdue"]);
      else if (transfer.stillLooks * lookMs >= stallMs) ended.push([transfer, "stalled"]);
    }
    void this.#giveUpAll(ended); // Never rejects.
    this.#shortLooks = this.#bytes + smallBytes > bytesMax ? this.#shortLooks + 1 : 0;
  }
}

class OpenTransfer implements Transfer {
  readonly end: (reason: GiveUpReason) => void;
  readonly #all: Transfers;
  /** Among those that move. */
  id = 0;
  bytes = 0;
  looks = 0;
  stillLooks = 0;
  /** As it was counted last. */
  isStill = false;
  stillBytes = 0;
  #movedBytes = 0;

  constructor(all: Transfers, end: (reason: GiveUpReason) => void) {
    this.#all = all;
    this.end = end;
  }

  take(bytes: number): boolean {
    return this.#all.take(this, bytes);
  }

  hold(bytes: number): boolean {
    if (bytes > this.bytes) return this.take(bytes - this.bytes);
    this.#all.shrink(this, this.bytes - bytes);
    return true;
  }

  moved(bytes: number): void {
    this.#movedBytes += bytes;
  }

  rest(): void {
    this.#all.rest(this);
  }

  close(): void {
    this.#all.release(this);
  }

  look(): void {
    this.looks += 1;
    const hasMoved = this.#movedBytes >= PIECE_BYTES;
    this.stillLooks = hasMoved ? 0 : this.stillLooks + 1;
    if (hasMoved) this.#movedBytes = 0;
  }
}
