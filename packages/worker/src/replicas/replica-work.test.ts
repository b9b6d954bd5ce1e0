// What is told of files that change while they are opened.

import { expect, test } from "vitest";

import { FakeCluster } from "./fake-cluster.cases.ts";
import { fakeTable } from "../compute/fake-compute.cases.ts";
import { performEffect } from "./replica-work.ts";
import { applyEvent, emptyReplicaSet, heldAs, openedOf, withFound } from "./replica-set.ts";
import type { ReplicaSet } from "./replica-set.ts";

const found = { model: "m", version: 1, directory: "/m/1", stamp: "as found" };
const context = { nowMs: 0, settings: { maxLoadRetries: 1, loadRetryIntervalMs: 1000 } };

/** The set after `/m/1` was opened, whose files looked like these before and afterwards. */
async function openedAmong(stamps: readonly string[]): Promise<ReplicaSet> {
  const cluster = new FakeCluster();
  cluster.plan.directories.set("/m/1", [fakeTable("movies", 8)]);
  const { compute } = cluster.add("w0");
  const set = withFound(emptyReplicaSet, found);
  const [id] = set.versions.keys();
  const looks = [...stamps];
  const stampOf = async (): Promise<string | undefined> => looks.shift();
  const from = { model: "m", version: 1, directory: "/m/1" };
  const opening = performEffect(
    { compute, stampOf },
    { kind: "open", id: id!, from, siblings: [] },
  );
  await cluster.clock.advanceSettled(100);
  return applyEvent(set, await opening, context);
}

test("files that are as they were found are held as those", async () => {
  const set = await openedAmong(["as found", "as found"]);

  expect(openedOf(heldAs(set, found)!)).toBeDefined();
});

test.each([
  ["others, and will be as found again", ["others", "others"]],
  ["changing while they are opened", ["as found", "others"]],
  ["changing back while they are opened", ["others", "as found"]],
])("S7: files that are %s are not held as those that were found", async (_, stamps) => {
  const set = await openedAmong(stamps);

  expect(set.versions.size).toBe(1);
  expect(heldAs(set, found)).toBeUndefined();
});
