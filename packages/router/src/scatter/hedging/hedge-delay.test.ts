// A hedge helps where one worker is slow, and does harm where all of them are.

import { workerId } from "@winnow/core";
import type { RoutedTable } from "@winnow/cluster";
import { describe, expect, test } from "vitest";
import type { LatencyPercentiles } from "../../workers/latency-window.ts";
import type { WorkerPeer } from "../../workers/worker-peer.ts";
import type { RouterSettings } from "../../router-settings.ts";
import { areAllLate, hedgeDelayMs, waitForBusyMs } from "./hedge-delay.ts";
import type { Slot } from "../slot.ts";

const settings = { hedgeDelayMinMs: 2, hedgeDelayMaxMs: 50 } as RouterSettings;
const table = {
  replicas: [["a", "b", "c"].map((id) => workerId(id))],
  machines: new Map(),
} as unknown as RoutedTable;
const onOneMachine = { ...table, machines: new Map(table.replicas[0]!.map((id) => [id, "m"])) };

/** Of a hundred answers, unless it says otherwise. */
type Usual = Omit<LatencyPercentiles, "p50Ms" | "answers"> & Partial<LatencyPercentiles>;

interface DelayParts {
  readonly of?: RoutedTable;
  readonly own?: Usual;
  /** Workers that have never answered anything. */
  readonly unasked?: string;
}

function delayMs(
  others: readonly (Usual | "untrusted" | undefined)[],
  { of = table, own, unasked = "" }: DelayParts = {},
) {
  const peers = new Map(
    [own, ...others].map((usual, at) => {
      const id = workerId("abc"[at]!);
      const trusted = usual !== "untrusted";
      const percentiles = typeof usual === "object" ? { answers: 100, ...usual } : usual;
      const latency = { percentiles: () => percentiles, isEmpty: unasked.includes("abc"[at]!) };
      return [id, { id, trusted, askable: true, latency }] as const;
    }),
  ) as unknown as ReadonlyMap<ReturnType<typeof workerId>, WorkerPeer>;
  const slot = { partitions: [0], peer: peers.get(workerId("a")) } as unknown as Slot;
  return hedgeDelayMs({ settings, peers }, of, slot);
}

test("waits for twice what the slowest other replica hardly ever needs, within bounds", () => {
  const quick = { p95Ms: 1, p99Ms: 3 };

  expect(delayMs([quick, { p95Ms: 2, p99Ms: 8 }])).toBe(16);
  expect(delayMs([{ p95Ms: 0.2, p99Ms: 0.4 }])).toBe(2);
  expect(delayMs([quick, { p95Ms: 10, p99Ms: 90 }])).toBe(50);
  expect(delayMs([quick, undefined])).toBe(50);
});

test("waits longer where all are slow: the machine is busy, and a hedge would add to it", () => {
  expect(delayMs([{ p95Ms: 60, p99Ms: 90 }])).toBe(180);
  expect(delayMs([{ p95Ms: 20, p99Ms: 45 }])).toBe(90);
  expect(delayMs([{ p95Ms: 20, p99Ms: 400 }])).toBe(100);
});

test("what is usual of the worker itself counts where the others have answered nothing lately", () => {
  const slow = { p95Ms: 40, p99Ms: 60 };

  expect(delayMs([undefined], { own: slow })).toBe(200);
  expect(delayMs([{ p95Ms: 1, p99Ms: 3 }], { own: slow })).toBe(6);
});

test("waits long before it asks another worker of the machine, which rests and is no quicker", () => {
  const quick = { p95Ms: 1, p99Ms: 3 };
  const slow = { p95Ms: 40, p99Ms: 60 };

  expect(delayMs([undefined], { of: onOneMachine, own: quick })).toBe(50);
  expect(delayMs([undefined], { of: onOneMachine, own: slow })).toBe(200);
  expect(delayMs([quick], { of: onOneMachine, own: slow })).toBe(200);
});

test("what is rare is not known of a few answers", () => {
  expect(delayMs([{ p95Ms: 1, p99Ms: 3, answers: 20 }])).toBe(6);
  expect(delayMs([{ p95Ms: 1, p99Ms: 3, answers: 19 }])).toBe(50);
  expect(delayMs([{ p95Ms: 20, p99Ms: 20, answers: 1 }])).toBe(100);
});

test("there is no hedge before anything is known of the worker or of one of the others", () => {
  const quick = { p95Ms: 1, p99Ms: 3 };

  expect(delayMs([quick, undefined], { unasked: "ac" })).toBeUndefined();
  expect(delayMs([quick, undefined], { unasked: "c", own: quick })).toBe(50);
  expect(delayMs([quick, quick], { unasked: "a" })).toBe(50);
  expect(delayMs([quick], { unasked: "a", of: onOneMachine })).toBeUndefined();
});

test("there is no hedge where no other replica can be trusted", () => {
  expect(delayMs(["untrusted"])).toBeUndefined();
});

describe("where the slot was asked at 1000 and has waited for 40 ms", () => {
  const waited = { delayMs: 40, nowMs: 1040 };
  const isLate = (...others: readonly (readonly [asked: number | undefined, answered: number])[]) =>
    areAllLate(
      { askedAtMs: 1000 } as Slot,
      others.map(([oldestAskedAtMs, answeredAtMs]) => ({ oldestAskedAtMs, answeredAtMs })),
      waited,
    );

  test("all are late when each other one owes an answer for as long, and has given none since", () => {
    expect(isLate([990, -Infinity], [1000, 999])).toBe(true);
  });

  test("one that rests, that was asked lately, or that has answered since can help", () => {
    expect(isLate([990, -Infinity], [undefined, 995])).toBe(false);
    expect(isLate([1001, -Infinity])).toBe(false);
    expect(isLate([900, 1001])).toBe(false);
  });

  const patience = (
    { answeredAtMs, ownMs }: { readonly answeredAtMs: number; readonly ownMs: number | undefined },
    otherMs: readonly (number | "never" | undefined)[],
    of: RoutedTable = table,
  ) => {
    const peerOf = (id: string, p50Ms: number | "never" | undefined) => ({
      id: workerId(id),
      latency: {
        isEmpty: p50Ms === "never",
        percentiles: () => (typeof p50Ms === "number" ? { p50Ms } : undefined),
      },
      tableAnsweredAtMs: (asked: RoutedTable) => (asked === of ? answeredAtMs : 1039),
    });
    const slot = { askedAtMs: 1000, peer: peerOf("a", ownMs) } as unknown as Slot;
    const others = otherMs.map((ms, at) => peerOf("bc"[at]!, ms)) as unknown as WorkerPeer[];
    return waitForBusyMs(slot, others, { nowMs: 1040, table: of });
  };

  test("it waits further for a worker that answers others within its usual time, and is as quick", () => {
    expect(patience({ answeredAtMs: 1020, ownMs: 20 }, [10, 30])).toBe(20);
    expect(patience({ answeredAtMs: 1000, ownMs: 60 }, [30])).toBe(60);
    expect(patience({ answeredAtMs: 1020, ownMs: 20 }, [10, "never"])).toBe(20);
  });

  test.each([
    ["has answered nothing since", { answeredAtMs: 999, ownMs: 60 }, [60]],
    ["has answered nothing within its usual time", { answeredAtMs: 1019, ownMs: 20 }, [20]],
    ["is usually more than twice as slow as another", { answeredAtMs: 1039, ownMs: 21 }, [30, 10]],
    ["has not been timed lately", { answeredAtMs: 1039, ownMs: undefined }, [10]],
    ["could rest where another does", { answeredAtMs: 1039, ownMs: 10 }, [10, undefined]],
  ])("it waits no longer for a worker that %s", (_, own, others) => {
    expect(patience(own, others)).toBeUndefined();
  });

  test("others of its machine are no quicker, rest though they may", () => {
    expect(patience({ answeredAtMs: 1039, ownMs: 21 }, [10, undefined], onOneMachine)).toBe(21);
  });
});
