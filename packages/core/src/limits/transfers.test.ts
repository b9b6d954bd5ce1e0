// How many bytes transfers hold, and which of them give way.

import fc from "fast-check";
import { describe, expect, test, vi } from "vitest";
import { ManualClock } from "../../../../test/doubles/manual-clock.ts";
import { Outstanding } from "../memory/outstanding.ts";
import { nextLoopTurn } from "../time/loop-turn.ts";
import { PIECE_BYTES, Transfers } from "./transfers.ts";
import type { Transfer, TransferLimits } from "./transfers.ts";

const LIMITS: TransferLimits = {
  bytesMax: 1000,
  smallBytes: 10,
  reserveBytes: 200,
  stallMs: 3000,
  timeoutMs: 10_000,
  lookMs: 1000,
};

function setUp(limits: Partial<TransferLimits> = {}) {
  const clock = new ManualClock();
  const transfers = new Transfers(clock, { ...LIMITS, ...limits });
  const ended: string[] = [];
  const open = (name: string): Transfer =>
    transfers.open((reason) => ended.push(`${name} ${reason}`));
  return { clock, transfers, ended, open };
}

describe("Transfers", () => {
  test("hold what has come, and give it back whole", () => {
    const { transfers, open } = setUp();
    const one = open("one");
    const other = open("other");

    const taken = [one.take(300), one.take(300), other.take(200)];
    const held = transfers.bytes;
    one.close();
    one.close();
    other.close();

    expect([taken, held, transfers.bytes]).toEqual([[true, true, true], 800, 0]);
  });

  test("leave the reserve to the small, and take the small however many large there are", () => {
    const { transfers, open } = setUp();
    const large = open("large");
    large.take(800);

    const more = large.take(1);
    const small = Array.from({ length: 20 }, (_, index) => open(`small ${index}`).take(10));
    const oneTooMany = open("last").take(10);

    expect([more, oneTooMany]).toEqual([false, false]);
    expect(small.every(Boolean)).toBe(true);
    expect(transfers.bytes).toBe(1000);
  });

  test("one that does not move gives way to one that does, the stillest first", () => {
    const { clock, transfers, open, ended } = setUp();
    const oldest = open("oldest");
    oldest.take(300);
    clock.advance(1000);
    const younger = open("younger");
    younger.take(300);
    const moving = open("moving");
    moving.take(200);
    moving.moved(PIECE_BYTES);
    clock.advance(1000);

    const taken = [moving.take(300), moving.take(100), moving.take(200), moving.take(100)];

    expect(ended).toEqual(["oldest memory", "younger memory"]);
    expect(taken).toEqual([true, true, true, false]);
    expect(transfers.bytes).toBe(800);
  });

  test("nobody who moves, or whose work is done, gives way", () => {
    const { clock, transfers, open, ended } = setUp();
    const moving = open("moving");
    moving.take(400);
    const resting = open("resting");
    resting.take(400);
    resting.rest();
    for (let second = 0; second < 5; second += 1) {
      moving.moved(PIECE_BYTES);
      clock.advance(1000);
    }

    const refused = open("new").take(100);

    expect([refused, ended, transfers.bytes]).toEqual([false, [], 800]);
  });

  test("that are refused while thousands move look through none of these", () => {
    const { clock, transfers, open } = setUp();
    const all = Array.from({ length: 100 }, (_, index) => open(`${index}`));
    for (const transfer of all) transfer.take(10);
    for (const transfer of all) transfer.moved(PIECE_BYTES);
    clock.advance(1000);
    const looks = vi.spyOn(Outstanding.prototype, Symbol.iterator);

    const refused = open("new");
    const answers = [transfers.hasRoom(10), refused.take(10)];
    refused.close();

    const looked = looks.mock.calls.length;
    looks.mockRestore();
    expect([answers, looked]).toEqual([[false, false], 0]);
    clock.advance(1000);
    expect([transfers.hasRoom(10), open("later").take(10)]).toEqual([true, true]);
  });

  test("one that stalls is given up, and so is one that takes too long in all", () => {
    const { clock, transfers, open, ended } = setUp();
    open("stalled").take(10);
    const slow = open("slow");
    slow.take(10);
    const step = (): void => {
      slow.moved(PIECE_BYTES / 2);
      clock.advance(1000);
    };

    for (let second = 0; second < 3; second += 1) step();
    const early = [...ended];
    for (let second = 3; second < 10; second += 1) step();

    expect(early).toEqual(["stalled stalled"]);
    expect(ended).toEqual(["stalled stalled", "slow overdue"]);
    expect(transfers.bytes).toBe(0);
  });

  test("that stall together are given up in several turns, without those that have ended meanwhile", async () => {
    const { clock, transfers, ended, open } = setUp();
    const all = Array.from({ length: 100 }, (_, index) => open(`${index}`));
    for (const transfer of all) transfer.take(10);

    clock.advance(3000);
    const atOnce = ended.length;
    all.at(-1)!.close();
    for (let turn = 0; turn < 4; turn += 1) await nextLoopTurn();

    expect(atOnce).toBe(32);
    expect(ended).toEqual(Array.from({ length: 99 }, (_, index) => `${index} stalled`));
    expect(transfers.bytes).toBe(0);
  });

  test("say for how long there has been no room for the small", () => {
    const { clock, transfers, open } = setUp({ reserveBytes: 0 });
    const all = open("all");
    all.take(1000);
    all.rest();

    clock.advance(4000);
    const short = transfers.shortMs;
    all.close();
    clock.advance(1000);

    expect([short, transfers.shortMs]).toEqual([4000, 0]);
  });

  test("look at nothing once nothing is open", () => {
    const { clock, open } = setUp();
    const one = open("one");
    one.take(10);
    clock.advance(500);

    one.close();
    clock.advance(1000);

    expect(clock.pendingTimers).toBe(0);
  });

  test("R1: whatever happens they hold no more than they may, and nothing in the end", () => {
    const step = fc.record({
      who: fc.nat(5),
      what: fc.constantFrom("take", "move", "rest", "close", "wait"),
      bytes: fc.nat(400),
    });
    fc.assert(
      fc.property(fc.array(step, { maxLength: 60 }), (steps) => {
        const { clock, transfers } = setUp();
        const open = new Map<number, Transfer>();
        const moving = new Set<Transfer>();
        for (const { who, what, bytes } of steps) {
          let transfer = open.get(who);
          if (transfer === undefined) {
            const opened = transfers.open(() => moving.delete(opened));
            transfer = opened;
            open.set(who, opened);
            moving.add(opened);
          }
          if (what === "rest" || what === "close") moving.delete(transfer);
          if (what === "take") transfer.take(bytes);
          if (what === "move") transfer.moved(bytes * 200);
          if (what === "rest") transfer.rest();
          if (what === "wait") clock.advance(bytes * 10);
          if (what === "close") {
            transfer.close();
            open.delete(who);
          }
          const stillest = Math.max(0, ...Array.from(moving, ({ stillLooks }) => stillLooks));
          expect(transfers.hasStill).toBe(stillest > 0);
          expect(transfers.bytes).toBeLessThanOrEqual(LIMITS.bytesMax);
          expect(transfers.bytes).toBeGreaterThanOrEqual(0);
        }
        for (const transfer of open.values()) transfer.close();
        clock.advance(3000);

        expect([transfers.bytes, clock.pendingTimers]).toEqual([0, 0]);
      }),
    );
  });
});
