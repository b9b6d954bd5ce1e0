// What a worker announces of more versions than an announcement takes: readers would refuse all of it.

import { VERSIONS_ANNOUNCED_MAX, announcementFromJson, announcementToJson } from "@winnow/cluster";
import { fingerprint, incarnation, workerId } from "@winnow/core";
import { expect, test } from "vitest";

import type { ContentHandle, OpenedVersion } from "../compute/compute.ts";
import { holdingsOf } from "./replica-announcement.ts";
import { emptyReplicaSet, withFound } from "./replica-set.ts";
import type { HeldVersion, ReplicaSet } from "./replica-set.ts";

const openedAs = (print: string): OpenedVersion => ({
  handle: 1 as ContentHandle,
  fingerprint: fingerprint(print),
  rowsFingerprint: fingerprint(print),
  tables: [],
});

function added(set: ReplicaSet, model: string, life?: HeldVersion["life"]): ReplicaSet {
  return withFound(set, { model, version: 1, directory: `/models/${model}/1`, stamp: "s" }, life);
}

test("of more versions than readers take, those are announced that serve or will, before those that are given up", () => {
  let set = emptyReplicaSet;
  const old = { phase: "unloading", opened: openedAs("old"), sinceMs: 0 } as const;
  const kept = { phase: "leaving", opened: openedAs("kept") } as const;
  for (let at = 0; at < 10; at += 1) set = added(set, `a${at}`, old);
  set = added(set, "b", kept);
  set = added(set, "c", { phase: "failed" });
  for (let at = 0; at < VERSIONS_ANNOUNCED_MAX - 2; at += 1) set = added(set, `d${at}`);
  const isServed = ({ model }: HeldVersion): boolean => model === "b";

  const all = holdingsOf(set, undefined, isServed);
  const more = holdingsOf(added(set, "e"), undefined, isServed);

  const announcement = {
    workerId: workerId("w0"),
    incarnation: incarnation(1),
    address: "127.0.0.1:7600",
    state: "ready",
    accelerator: "cpu",
    device: "",
    memoryUsedBytes: 0,
    memoryCapacityBytes: 1,
    versions: all,
  } as const;
  const read = announcementFromJson(announcementToJson(announcement));
  expect(read.versions.map(({ model }) => model)).toEqual(all.map(({ model }) => model));
  expect(all).toHaveLength(VERSIONS_ANNOUNCED_MAX);
  expect(all.slice(0, 3).map(({ model }) => model)).toEqual(["b", "c", "d0"]);
  expect(more.slice(0, 3).map(({ model }) => model)).toEqual(["b", "d0", "d1"]);
});
