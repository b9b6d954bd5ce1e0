// A router whose experiment has a shadow that never answers: clients get the same answers in the same time, and the
// router is idle again when the shadow's budget is over.

import type { Experiment, ModelProgram, VersionKey } from "@winnow/core";
import { encodeProgram, fingerprint } from "@winnow/core";
import { expect, test } from "vitest";
import { RouterBench, idleCounters, plainOutputs } from "../fixtures/router-bench.ts";
import type { ShadowRecord } from "../router-observer.ts";

/** Shadows that are asked at a time. */
const SHADOWS_MAX = 4;

const feed: VersionKey = { model: "feed", version: 1, fingerprint: fingerprint("e".repeat(64)) };

/** A bench whose workers also announce an experiment over the model of the bench, its own shadow. */
async function startedBench(
  shadow: Experiment["shadow"],
  onShadow: (record: ShadowRecord) => void,
): Promise<RouterBench> {
  const bench = new RouterBench({ held: [[0, 1, 2, 3]], observer: { shadow: onShadow } });
  const { network } = bench;
  const arms = [{ name: "control", model: "movies", weight: 1 }];
  const none = { tables: [], vocabularies: [], denseModels: [], signatures: [] };
  const experiment = { arms, sticky: { by: "input", name: "user" } as const, shadow };
  const program: ModelProgram = { fingerprint: feed.fingerprint, ...none, experiment };
  const announced = network.announcementOf.bind(network);
  const held = { ...feed, state: "ready", error: undefined, tables: [] } as const;
  network.announcementOf = (worker) => {
    const announcement = announced(worker);
    return { ...announcement, versions: [...announcement.versions, held] };
  };
  const sent = network.program.bind(network);
  const connector = network as unknown as {
    program: (address: string, asked: { readonly version: VersionKey }) => Promise<Uint8Array>;
  };
  connector.program = (address, { version }) =>
    version.model === feed.model ? Promise.resolve(encodeProgram(program)) : sent(address);
  bench.announceAll();
  await bench.clock.advanceSettled(200);
  return bench;
}

/** Asks the experiment; how long it took, by the clock of the bench. */
async function asked(bench: RouterBench, users: readonly number[]) {
  const startMs = bench.clock.nowMs();
  const prediction = await bench.settle(bench.predict(users, { target: { model: "feed" } }));
  return {
    answer: plainOutputs(prediction),
    arms: prediction.arms,
    ms: bench.clock.nowMs() - startMs,
  };
}

test("clients of an experiment neither wait for a frozen shadow nor hear of it", async () => {
  const records: ShadowRecord[] = [];
  const shadow = { model: "movies", version: 7, share: 1, budgetMs: 300 };
  const bench = await startedBench(shadow, (record) => void records.push(record));
  const alone = await startedBench(undefined, () => undefined);
  const [worker] = bench.workers;
  const told = [];
  const expected = [];
  let left = 0;
  worker!.behave = () => (left-- > 0 ? "answer" : "silent");

  for (let user = 0; user < 12; user += 1) {
    // A client's look-up and search are answered; what the shadow asks behind them is lost.
    left = 2;
    told.push(await asked(bench, [user, user + 1]));
    expected.push(await asked(alone, [user, user + 1]));
  }
  const lost = worker!.queries - 24;

  expect(told).toEqual(expected);
  expect(told[3]!.answer).toEqual(alone.expected([3, 4]));
  expect(told[0]!.arms).toBe("control");
  worker!.behave = () => "answer";
  await bench.clock.advanceSettled(1000);
  expect(bench.router.counters).toEqual(idleCounters);
  expect(lost).toBe(SHADOWS_MAX);
  expect(records).toHaveLength(12);
  expect(records.filter(({ outcome }) => outcome === "late")).toHaveLength(SHADOWS_MAX);
  bench.router.close();
  alone.router.close();
});

test("a shadow of the same version gives the same answers, counted", async () => {
  const records: ShadowRecord[] = [];
  const shadow = { model: "movies", share: 1, budgetMs: 300 };
  const bench = await startedBench(shadow, (record) => void records.push(record));

  const { answer } = await asked(bench, [1, 2, 3]);
  await bench.clock.advanceSettled(50);

  expect(answer).toEqual(bench.expected([1, 2, 3]));
  expect(records).toMatchObject([{ model: "feed", outcome: "same", reason: "" }]);
  bench.router.close();
});
