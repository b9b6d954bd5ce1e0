// What an announcer tells the store and routers, and how often.

import type { Announcement, MembershipStore, WorkerLink } from "@winnow/cluster";
import { incarnation, silentLogger, workerId } from "@winnow/core";
import { ManualClock } from "../../../test/doubles/manual-clock.ts";
import { expect, test } from "vitest";

import { Announcer } from "./announcer.ts";

function announcing() {
  const clock = new ManualClock();
  const told: number[] = [];
  const linked: number[] = [];
  const events: string[] = [];
  let memoryUsedBytes = 0;
  const membership: MembershipStore = {
    lastIncarnation: async () => undefined,
    announce: async (announcement) => void told.push(announcement.memoryUsedBytes),
    suspend: () => void events.push("suspend"),
    withdraw: () => new Promise(() => undefined),
    readAtMs: () => undefined,
    watch: () => () => undefined,
    close: async () => undefined,
  };
  let tookMs = 0;
  const announcement = (): Announcement => {
    if (tookMs > 0) clock.advance(tookMs);
    return announced();
  };
  const announced = (): Announcement => ({
    workerId: workerId("w0"),
    incarnation: incarnation(1),
    address: "w0:1",
    state: "ready",
    accelerator: "cpu",
    device: "",
    memoryUsedBytes,
    memoryCapacityBytes: 10,
    versions: [],
  });
  const environment = { clock, random: () => 0, log: silentLogger };
  const announcer = new Announcer({
    environment,
    membership,
    announcement,
    announceIntervalMs: 50,
  });
  const link = { announce: ({ memoryUsedBytes: bytes }: Announcement) => linked.push(bytes) };
  announcer.addLink(link as unknown as WorkerLink);
  const set = (bytes: number): void => {
    memoryUsedBytes = bytes;
    announcer.changed();
  };
  const takes = (ms: number): void => void (tookMs = ms);
  return { clock, told, linked, events, announcer, set, takes };
}

test("the first change is told at once, quick ones together, the last one always", () => {
  const { clock, told, linked, set } = announcing();

  set(1);
  for (let bytes = 2; bytes <= 9; bytes += 1) set(bytes);
  expect(told).toEqual([1]);
  clock.advance(50);

  expect(told).toEqual([1, 9]);
  expect(linked).toEqual([1, 9]);
});

test.each([
  { tookMs: 2, restMs: 50 },
  { tookMs: 6, restMs: 120 },
  { tookMs: 90, restMs: 1000 },
])("what takes $tookMs ms to make is told again after $restMs ms", ({ tookMs, restMs }) => {
  const { clock, told, set, takes } = announcing();
  takes(tookMs);

  set(1);
  set(2);
  clock.advance(restMs - 1);
  expect(told).toEqual([1]);
  clock.advance(1);

  expect(told).toEqual([1, 2]);
});

test("what has not changed is not told again", () => {
  const { clock, told, announcer, set } = announcing();
  set(1);

  clock.advance(100);
  announcer.changed();
  announcer.flush();

  expect(told).toEqual([1]);
});

test("while suspended the store hears nothing, routers do, and afterwards the store hears the latest", () => {
  const { clock, told, linked, events, announcer, set } = announcing();
  set(1);
  clock.advance(50);

  announcer.suspend(true);
  set(2);
  announcer.suspend(false);

  expect(events).toEqual(["suspend"]);
  expect(linked).toEqual([1, 2]);
  expect(told).toEqual([1, 2]);
  announcer.close();
  expect(clock.pendingTimers).toBe(0);
});

test("a store that does not answer holds a withdrawal up for two seconds at most", async () => {
  const { clock, announcer } = announcing();
  let isOver = false;

  const withdrawal = announcer.withdraw().then(() => (isOver = true));
  await clock.advanceSettled(1999);
  expect(isOver).toBe(false);
  await clock.advanceSettled(1);
  await withdrawal;

  expect(isOver).toBe(true);
});
