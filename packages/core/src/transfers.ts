// Bytes on their way from clients (bodies) or to them (answers), and who gives way when the memory for
// them is short. What counts is what is here, never what was announced, and whatever becomes of a
// transfer, closing it gives everything back.
//
//   body     moving ── whole ──▶ at rest, while it is worked on ──▶ closed
//   answer   moving ─────────────────────────────────────────────▶ closed
//
// A transfer that moves is its client's: it is looked at regularly, and given up when it has not moved
// by a piece for too long, or has lasted too long as a whole. When memory is short the one that has not
// moved for longest gives way at once, so clients that stall keep nobody out; if all of them move,
// whoever asks for more is refused. Large transfers never take a reserve that is kept for small ones.
//
// Looks are grace timers: a process that stood still does not take that for its clients' slowness.

import type { Clock } from "./clock.ts";
import { setGraceTimer } from "./grace-timer.ts";
import type { GraceTimer } from "./grace-timer.ts";

/** Why a transfer was ended before its time; `places`: what came after it needs its place. */
export type GiveUpReason = "stalled" | "overdue" | "memory" | "places";

/** Bounds of all transfers of one kind. */
export interface TransferLimits {
  /** Bytes of all of them together. */
  readonly bytesMax: number;
  /** Bytes up to which a transfer is small. */
  readonly smallBytes: number;
  /** Bytes that transfers which are not small leave free. */
  readonly reserveBytes: number;
  /** A transfer that moves less than `PIECE_BYTES` in so many milliseconds is given up. */
  readonly stallMs: number;
  /** Milliseconds a transfer may take in all. */
  readonly timeoutMs: number;
  /** Milliseconds between two looks. */
  readonly lookMs: number;
}

/** What counts as having moved. */
export const PIECE_BYTES: number = 64 * 1024;

/** Memory of one kind that a door holds for its clients. */
export interface HeldMemory {
  /** Requests that arrive or are worked on; the parsing of large ones; answers that are not read. */
  readonly kind: "requests" | "parsing" | "answers";
  readonly bytes: number;
  readonly bytesMax: number;
}

/** One transfer as whoever handles it sees it. */
export interface Transfer {
  /** Looks in a row between which it did not move by a piece. */
  readonly stillLooks: number;
  /** Memory for so many bytes more; false, and nothing is taken, where there is none. */
  take(bytes: number): boolean;
  /** Holds so many bytes from now on; false, and nothing changes, where there is no memory for more. */
  hold(bytes: number): boolean;
  /** So many bytes have come, or gone. */
  moved(bytes: number): void;
  /** It depends on its client no more, but is still held. */
  rest(): void;
  /** Gives everything back. Idempotent. */
  close(): void;
}

/** All transfers of one kind. */
export class Transfers {
  readonly #clock: Clock;
  readonly #limits: TransferLimits;
  readonly #moving = new Set<OpenTransfer>();
  #bytes = 0;
  #largeBytes = 0;
  #looks: GraceTimer | undefined;
  /** Looks in a row that found no memory for a small transfer. */
  #shortLooks = 0;

  constructor(clock: Clock, limits: TransferLimits) {
    this.#clock = clock;
    this.#limits = limits;
  }

  /** Bytes held now. */
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

  /** A transfer begins. `end` is called at most once, when it is given up; it still must be closed. */
  open(end: (reason: GiveUpReason) => void): Transfer {
    const transfer = new OpenTransfer(this, end);
    this.#moving.add(transfer);
    this.#lookLater();
    return transfer;
  }

  /** Whether so many bytes would fit, if those that do not move gave way. */
  hasRoom(bytes: number): boolean {
    if (this.#fits(0, bytes)) return true;
    let freed = 0;
    for (const other of this.#moving) if (other.stillLooks > 0) freed += other.bytes;
    return this.#fits(0, bytes - freed);
  }

  /** Looks no more. */
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
  }

  /** @internal a transfer's own */
  rest(transfer: OpenTransfer): void {
    this.#moving.delete(transfer);
  }

  /** @internal a transfer's own */
  release(transfer: OpenTransfer): void {
    this.#moving.delete(transfer);
    this.#count(transfer, -transfer.bytes);
  }

  #fits(held: number, bytes: number): boolean {
    const { bytesMax, smallBytes, reserveBytes } = this.#limits;
    if (this.#bytes + bytes > bytesMax) return false;
    const whole = held + bytes;
    if (whole <= smallBytes) return true;
    return this.#largeBytes + (held > smallBytes ? bytes : whole) <= bytesMax - reserveBytes;
  }

  /** Reckons with a change of a transfer's bytes; it turns large, or small again, as a whole. */
  #count(transfer: OpenTransfer, change: number): void {
    const { smallBytes } = this.#limits;
    const before = transfer.bytes;
    const after = before + change;
    this.#bytes += change;
    this.#largeBytes += (after > smallBytes ? after : 0) - (before > smallBytes ? before : 0);
    transfer.bytes = after;
  }

  /** The transfer that has not moved for longest, and of these the one that holds most. */
  #slowest(asking: OpenTransfer): OpenTransfer | undefined {
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

  /** Its bytes are free at once; whoever holds it is told. */
  #giveUp(transfer: OpenTransfer, reason: GiveUpReason): void {
    this.release(transfer);
    transfer.end(reason);
  }

  #lookLater(): void {
    this.#looks ??= setGraceTimer(this.#clock, { delayMs: this.#limits.lookMs }, () => {
      this.#looks = undefined;
      this.#look();
      if (this.#moving.size > 0 || this.#bytes > 0) this.#lookLater();
    });
  }

  #look(): void {
    const { stallMs, timeoutMs, lookMs, bytesMax, smallBytes } = this.#limits;
    for (const transfer of this.#moving) {
      transfer.look();
      if (transfer.looks * lookMs >= timeoutMs) this.#giveUp(transfer, "overdue");
      else if (transfer.stillLooks * lookMs >= stallMs) this.#giveUp(transfer, "stalled");
    }
    this.#shortLooks = this.#bytes + smallBytes > bytesMax ? this.#shortLooks + 1 : 0;
  }
}

class OpenTransfer implements Transfer {
  readonly end: (reason: GiveUpReason) => void;
  readonly #all: Transfers;
  bytes = 0;
  looks = 0;
  stillLooks = 0;
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
