// The memory account and the order of events in the life of residents, on a device made of strings.

import { describe, expect, test } from "vitest";

import type { LoadShape } from "../accelerator.ts";
import { MemoryBudget } from "./memory-budget.ts";
import { ResidentStore } from "./resident-store.ts";

const SHAPE: LoadShape = { rows: 2, dim: 3, firstRow: 10, use: "search" };

function storing() {
  const events: string[] = [];
  let finish: () => void = () => undefined;
  const work = new Promise<void>((resolve) => {
    finish = resolve;
  });
  const device = { idle: Promise.resolve() };
  const store = new ResidentStore<string>({
    budget: new MemoryBudget(100),
    idle: () => device.idle,
    free: (held) => events.push(`freed ${held}`),
  });
  /** Starts work on the device, which lasts until `finish`. */
  const begin = (): void => {
    device.idle = work.then(() => void events.push("idle"));
  };
  return { store, events, begin, finish: () => finish() };
}

describe("memory", () => {
  test("is reserved while a resident is made, and what only building needs is given back", async () => {
    const { store } = storing();
    let whileMadeBytes = 0;

    const resident = await store.add(SHAPE, { occupied: 40, building: 60 }, async () => {
      whileMadeBytes = store.memory().usedBytes;
      return "rows";
    });

    expect(whileMadeBytes).toBe(100);
    expect(store.memory()).toEqual({ usedBytes: 40, capacityBytes: 100 });
    expect(resident).toEqual({ rows: 2, dim: 3, firstRow: 10, bytes: 40 });
    await store.release(resident);
    expect(store.memory().usedBytes).toBe(0);
  });

  test("that the device accounts for itself is told, but not reserved again", async () => {
    const { store } = storing();

    const resident = await store.add(
      SHAPE,
      { occupied: 400, isByDevice: true },
      async () => "rows",
    );

    expect(resident.bytes).toBe(400);
    expect(store.memory().usedBytes).toBe(0);
    await store.release(resident);
    expect(store.memory().usedBytes).toBe(0);
  });

  test("that does not suffice is refused before anything is made", async () => {
    const { store } = storing();
    let wasMade = false;

    const added = store.add(SHAPE, { occupied: 60, building: 41 }, async () => {
      wasMade = true;
      return "rows";
    });

    await expect(added).rejects.toMatchObject({ code: "RESOURCE_EXHAUSTED" });
    expect([wasMade, store.memory().usedBytes]).toEqual([false, 0]);
  });

  test("of a load that fails is given back, whatever it threw", async () => {
    const { store } = storing();
    const fault = new Error("the disk is gone");

    const added = store.add(SHAPE, { occupied: 40, building: 60 }, () => Promise.reject(fault));

    await expect(added).rejects.toBe(fault);
    expect(store.memory().usedBytes).toBe(0);
  });
});

describe("a release", () => {
  test("frees rows once nothing reads them any more, and at once nobody finds them", async () => {
    const { store, events, begin, finish } = storing();
    const resident = await store.add(SHAPE, { occupied: 40 }, async () => "rows");
    begin();

    const released = store.release(resident);
    expect(() => store.held(resident)).toThrow(RangeError);
    expect(store.memory().usedBytes).toBe(40);
    finish();
    await released;

    expect(events).toEqual(["idle", "freed rows"]);
    expect(store.memory().usedBytes).toBe(0);
    await expect(store.release(resident)).rejects.toThrow(RangeError);
  });
});

test("rows for gathering are held, but not to be searched", async () => {
  const { store } = storing();
  const resident = await store.add(
    { ...SHAPE, use: "gather" },
    { occupied: 1 },
    async () => "rows",
  );

  expect(store.held(resident)).toBe("rows");
  expect(() => store.searchable(resident)).toThrow("loaded for gathering only");
});

describe("closing", () => {
  test("waits for what runs, frees everything once, and takes nothing more", async () => {
    const { store, events, begin, finish } = storing();
    await store.add(SHAPE, { occupied: 40 }, async () => "first");
    await store.add(SHAPE, { occupied: 40 }, async () => "second");
    begin();

    const closed = store.close();
    const again = store.close();
    const added = store.add(SHAPE, { occupied: 1 }, async () => "third");
    await expect(added).rejects.toMatchObject({ code: "UNAVAILABLE" });
    expect(() => store.checkOpen()).toThrow("closed");
    finish();
    await Promise.all([closed, again]);

    expect(events).toEqual(["idle", "freed first", "freed second"]);
    expect(store.memory().usedBytes).toBe(0);
  });

  test("frees what a load under way makes", async () => {
    const { store, events } = storing();
    let made: (held: string) => void = () => undefined;
    const added = store.add(SHAPE, { occupied: 40 }, () => {
      return new Promise<string>((resolve) => {
        made = resolve;
      });
    });

    await store.close();
    made("late");

    await expect(added).rejects.toMatchObject({ code: "UNAVAILABLE" });
    expect(events).toEqual(["freed late"]);
    expect(store.memory().usedBytes).toBe(0);
  });
});
