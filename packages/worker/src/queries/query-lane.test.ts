// A lane beside a device of known speed: what clients who wait for their answers gain from company, and that
// nobody else pays for it. The device takes `readMs` for a scan and `rowMs` for each query of it.

import { WinnowError } from "@winnow/core";
import { describe, expect, test } from "vitest";

import { ManualClock } from "../../../../test/doubles/manual-clock.ts";
import { seededRandom } from "../../../../test/simulation/virtual-time.ts";
import { QueryLane } from "./query-lane.ts";
import type { LaneQuery, Outcome } from "./query-lane.ts";
import type { CompanyWait } from "../worker-observer.ts";

interface Device {
  readonly readMs: number;
  readonly rowMs: number;
}

interface Options {
  readonly companyMsMax: number;
  readonly device: Device;
  readonly queueRowsMax?: number;
}

type Query = LaneQuery<"answer">;

/** A lane on a device that scans one batch after the other, and the rows of each. */
function laneOn(options: Options) {
  const clock = new ManualClock();
  const batches: number[] = [];
  const { readMs, rowMs } = options.device;
  let freeMs = 0;
  let scanning = 0;
  const run = (queries: readonly Query[]): Promise<"answer"[]> => {
    batches.push(queries.length);
    scanning += 1;
    freeMs = Math.max(freeMs, clock.nowMs()) + readMs + rowMs * queries.length;
    return new Promise((resolve) => {
      clock.setTimer(freeMs - clock.nowMs(), () => {
        scanning -= 1;
        resolve(queries.map(() => "answer"));
      });
    });
  };
  const waited: CompanyWait[] = [];
  const lane = new QueryLane<Query, "answer">(clock, run, {
    queueRowsMax: options.queueRowsMax ?? 1000,
    batchRowsMax: 64,
    inFlightMax: 1,
    aheadMax: 1,
    companyMsMax: options.companyMsMax,
    onWaited: (wait) => waited.push(wait),
  });
  const ask = (
    end: (outcome: Outcome<"answer">) => void,
    { group = "g", deadlineMs = clock.nowMs() + 1000 } = {},
  ): Query => {
    const query = { group, rows: 1, deadlineMs, dueMs: deadlineMs, queuedMs: 0, end };
    lane.offer(query);
    lane.pump();
    return query;
  };
  const waits = (): boolean => lane.isBusy && scanning === 0;
  return { clock, lane, batches, waited, ask, waits };
}

type World = ReturnType<typeof laneOn>;

/** Clients each of whom asks again about `awayMs` after an answer. */
interface Clients {
  readonly clients: number;
  readonly awayMs: number;
}

/** Starts clients. `answered` is called for each answer. */
function startClients(world: World, { clients, awayMs }: Clients, answered: () => void): void {
  const random = seededRandom(clients, "away");
  const next = (): void => {
    world.ask(({ kind }) => {
      if (kind !== "answer") return;
      answered();
      world.clock.setTimer(awayMs * (0.8 + 0.4 * random()), next);
    });
  };
  for (let client = 0; client < clients; client += 1) world.clock.setTimer(random() * 5, next);
}

/** Answers that so many clients get within a second, and the mean rows of a batch, after half a second of both. */
async function answersOfClients(
  clients: number,
  awayMs: number,
  options: Options,
): Promise<{ answers: number; rows: number }> {
  const world = laneOn(options);
  let answers = 0;
  startClients(world, { clients, awayMs }, () => (answers += 1));
  await world.clock.advanceSettled(500);
  answers = 0;
  world.batches.length = 0;
  await world.clock.advanceSettled(1000);
  return { answers, rows: answers / world.batches.length };
}

/** Mean ms until an answer, of queries that come at random, `perSecond` of them. */
async function waitOfRandom(perSecond: number, options: Options): Promise<number> {
  const { clock, ask } = laneOn(options);
  const random = seededRandom(perSecond, "arrivals");
  let sumMs = 0;
  let answers = 0;
  for (let atMs = 0; atMs < 3000; atMs -= (1000 / perSecond) * Math.log(1 - random())) {
    clock.setTimer(atMs, () => {
      const sinceMs = clock.nowMs();
      ask(() => {
        sumMs += clock.nowMs() - sinceMs;
        answers += 1;
      });
    });
  }
  await clock.advanceSettled(4000);
  return sumMs / answers;
}

/** Reading the rows is most of a scan: 2.4 ms for four queries, 2.8 for eight. */
const READING: Device = { readMs: 2, rowMs: 0.1 };
/** Each query is scanned by itself. */
const COMPUTING: Device = { readMs: 0.05, rowMs: 0.6 };

describe("clients who ask again once they are answered", () => {
  test.each([2, 4, 8, 16])("%i of them share scans that mostly read", async (clients) => {
    const without = await answersOfClients(clients, 1, { companyMsMax: 0, device: READING });
    const together = await answersOfClients(clients, 1, { companyMsMax: 5, device: READING });

    expect(without.rows).toBeLessThan(0.6 * clients + 0.5);
    expect(together.rows).toBeGreaterThan(0.85 * clients);
    expect(together.answers).toBeGreaterThan(1.12 * without.answers);
  });

  test.each([2, 8, 32])("%i of them do not wait for scans that only compute", async (clients) => {
    const without = await answersOfClients(clients, 1, { companyMsMax: 0, device: COMPUTING });
    const together = await answersOfClients(clients, 1, { companyMsMax: 5, device: COMPUTING });

    expect(together.answers).toBeGreaterThan(0.95 * without.answers);
  });

  test("they do not wait for those who are away for longer than is saved", async () => {
    const without = await answersOfClients(8, 4, { companyMsMax: 0, device: READING });
    const together = await answersOfClients(8, 4, { companyMsMax: 5, device: READING });

    expect(together.answers).toBeGreaterThan(0.95 * without.answers);
  });

  test("one alone never waits", async () => {
    const without = await answersOfClients(1, 1, { companyMsMax: 0, device: READING });
    const together = await answersOfClients(1, 1, { companyMsMax: 5, device: READING });

    expect(together).toEqual(without);
  });
});

describe("queries that come at random", () => {
  test.each([50, 200, 400, 800, 1600])("%i a second wait no longer", async (perSecond) => {
    const without = await waitOfRandom(perSecond, { companyMsMax: 0, device: READING });
    const together = await waitOfRandom(perSecond, { companyMsMax: 5, device: READING });

    expect(together).toBeLessThan(1.05 * without + 0.05);
  });
});

test("nobody is refused by a full queue while the device is idle", async () => {
  const world = laneOn({ companyMsMax: 5, device: READING, queueRowsMax: 4 });
  let full = 0;
  const { clock, lane, waits } = world;
  startClients(world, { clients: 6, awayMs: 1 }, () => undefined);
  for (let step = 0; step < 3000; step += 1) {
    await clock.advanceSettled(0.1);
    if (waits() && lane.queueRows === 4) full += 1;
  }

  expect(full).toBe(0);
});

describe("a batch that waits for company", () => {
  /** Four clients who share their scans, at a moment at which some of them wait for the others. */
  async function waiting() {
    const world = laneOn({ companyMsMax: 5, device: READING });
    startClients(world, { clients: 4, awayMs: 1 }, () => undefined);
    await world.clock.advanceSettled(300);
    for (let step = 0; step < 100 && !world.waits(); step += 1) {
      await world.clock.advanceSettled(0.1);
    }
    expect(world.waits()).toBe(true);
    world.batches.length = 0;
    return world;
  }

  test("starts when the others have come", async () => {
    const { clock, batches, waited } = await waiting();
    waited.length = 0;

    await clock.advanceSettled(2);

    expect(batches).toEqual([4]);
    expect(waited).toEqual([{ ms: expect.any(Number), haveAllCome: true }]);
    expect(waited[0]!.ms).toBeLessThan(1.2);
  });

  test("starts without them after a moment", async () => {
    const world = laneOn({ companyMsMax: 5, device: READING });
    let isHere = true;
    const { clock, batches, waited, ask } = world;
    startClients(world, { clients: 3, awayMs: 1 }, () => undefined);
    const fourth = (): void => {
      ask(() => void clock.setTimer(isHere ? 1 : 1e6, fourth));
    };
    fourth();
    await clock.advanceSettled(300);
    isHere = false;
    await clock.advanceSettled(4);
    batches.length = 0;
    waited.length = 0;
    await clock.advanceSettled(40);

    expect(batches.filter((rows) => rows === 3).length).toBeGreaterThanOrEqual(8);
    expect(waited.find(({ haveAllCome }) => !haveAllCome)?.ms).toBeGreaterThan(1);
  });

  test("does not wait beside a query that has little time left", async () => {
    const { clock, batches, ask } = await waiting();

    ask(() => undefined, { deadlineMs: clock.nowMs() + 4 });

    expect(batches).toHaveLength(1);
  });

  test("does not wait beside queries of another group", async () => {
    const { batches, ask } = await waiting();

    ask(() => undefined, { group: "h" });

    expect(batches).toHaveLength(1);
  });

  test("fails with the device, and leaves no timer", async () => {
    const { clock, lane, batches } = await waiting();
    const timers = clock.pendingTimers;

    lane.fail(new WinnowError("UNAVAILABLE", "lost"));

    expect(lane.isBusy).toBe(false);
    expect(clock.pendingTimers).toBe(timers - 1);
    expect(batches).toEqual([]);
  });
});
