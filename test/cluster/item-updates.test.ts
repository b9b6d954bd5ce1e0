// Items that are added, replaced and removed one by one while requests come, by lines that are appended to a file beside the
// version: on real processes, with brute force over the items as each list of changes leaves them.

import path from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { supplyPorts } from "../port-supply.ts";
import { pause } from "./running-cluster.ts";
import { expectExact, untilReplicated } from "./served-model.ts";
import { BRIEFLY_KEPT, WORKERS, startVersioned } from "./versioned-cluster.ts";
import type { VersionedCluster } from "./versioned-cluster.ts";
import { appendChanges, changedRequests, itemChanges } from "./written-versions.ts";

const MODEL = "movies";
const VERSION = { model: MODEL, version: 1 } as const;
/** Each names items that the one before has removed. */
const CHANGES = [itemChanges(1, 40, 5), itemChanges(1, 40, 8), itemChanges(1, 40, 11)];

/** Files are taken to rest that have not changed for 300 ms. */
const LINE_MS = 200;

let started: VersionedCluster;
let metricsPort = 0;
beforeAll(async () => {
  [metricsPort = 0] = await supplyPorts(1);
  const argsOf = { w0: ["--metrics-port", String(metricsPort)] };
  started = await startVersioned([MODEL], { workerArgs: BRIEFLY_KEPT, argsOf });
});
afterAll(() => started.end());

test("lines that are appended change the answers, each of which is of one state of the file", async () => {
  const { base, cluster } = started;
  const directory = path.join(base, MODEL, "1");
  await untilReplicated(cluster, WORKERS, VERSION);
  const told: number[] = [];
  const answers = changedRequests(VERSION, CHANGES, (lists) => told.push(lists));

  await expectExact(cluster, answers, async () => {
    for (const [at, changes] of CHANGES.entries()) {
      appendChanges(directory, changes);
      await expect.poll(() => told.at(-1), { timeout: 60_000 }).toBe(at + 1);
    }
  });

  expect(new Set(told)).toEqual(new Set([0, 1, 2, 3]));
});

test("a worker counts the items that they change", async () => {
  const last = new Map(CHANGES.flat().map(({ id, removed }) => [id, removed === true]));
  const removed = [...last.values()].filter(Boolean).length;

  const page = await (await fetch(`http://127.0.0.1:${metricsPort}/metrics`)).text();

  const name = 'winnow_model_changed_items{model="movies",version="1"';
  expect(page).toContain(`${name},kind="vector"} ${last.size - removed}\n`);
  expect(page).toContain(`${name},kind="removed"} ${removed}\n`);
});

test("a worker that starts anew holds what the others hold", async () => {
  const { cluster } = started;
  const told: number[] = [];
  const answers = changedRequests(VERSION, CHANGES, (lists) => told.push(lists));

  await expectExact(cluster, answers, async () => {
    cluster.signal("w1", "SIGKILL");
    await cluster.ended("w1");
    cluster.restart("w1");
    await untilReplicated(cluster, WORKERS, VERSION);
  });

  expect(new Set(told)).toEqual(new Set([CHANGES.length]));
});

test("lines that are appended without a rest are not waited for: one state after the other answers", async () => {
  const { base, cluster } = started;
  const directory = path.join(base, MODEL, "1");
  const lines = itemChanges(1, 80, 14).map((change) => [change]);
  // A line may change no answer that is asked for; these many do.
  const last = itemChanges(1, 40, 17);
  const lists = [...CHANGES, ...lines, last];
  const before = CHANGES.length;
  const seen = new Set<number>();
  const answers = changedRequests(VERSION, lists, (count) => seen.add(count));
  let appended = 0;
  const between = (): number =>
    [...seen].filter((count) => count > before && count < before + appended).length;

  await expectExact(cluster, answers, async () => {
    for (const line of lines) {
      appendChanges(directory, line);
      appended += 1;
      await pause(LINE_MS);
      if (between() > 2) break;
    }
    appendChanges(directory, [...lines.slice(appended).flat(), ...last]);
    await expect.poll(() => seen.has(lists.length), { timeout: 60_000 }).toBe(true);
  });

  expect(between()).toBeGreaterThan(2);
});
