// What this worker announces of the versions that it holds, derived from its replica set: the worker's part
// of the record that routers build their tables from.

import { VERSIONS_ANNOUNCED_MAX } from "@winnow/cluster";
import type { HeldPartition, TableHolding, VersionHolding } from "@winnow/cluster";
import { WinnowError } from "@winnow/core";

import { NO_FILES_STAMP } from "../models/directory-stillness.ts";
import { updateBytesOf } from "../models/growing-file.ts";
import type { OpenedVersion } from "../compute/compute.ts";
import { isFailed, isRefused, openedOf, replicaOfKey } from "./replica-set.ts";
import type { HeldVersion, ReplicaSet } from "./replica-set.ts";
import { Assignment } from "./assignment.ts";
import type { Intent } from "./assignment.ts";

const LEAVING_PHASES: ReadonlySet<string> = new Set(["leaving", "unloading", "closing"]);

/** Characters of an error text in an announcement, at most: it travels with every state frame. */
const MESSAGE_CHARACTERS_MAX = 900;

/**
 * The holdings of all versions, ascending by model and version; of more than an announcement takes, those that requests
 * need most. `isServed`: whether a content serves, here or on a worker that is ahead or behind.
 */
export function holdingsOf(
  set: ReplicaSet,
  intent: Intent | undefined,
  isServed: (held: HeldVersion) => boolean,
): VersionHolding[] {
  // Of two contents of one number, the one that was found first comes first.
  const versions = [...set.versions.values()].toSorted(
    (a, b) => compareText(a.model, b.model) || a.version - b.version,
  );
  const holdings = versions.map((held) => {
    const holding = holdingOf(held, intent, isServed);
    const key = set.serving.get(held.model);
    const isServing = key?.version === held.version && key.fingerprint === holding.fingerprint;
    return Object.assign(holding, { serving: isServing });
  });
  if (holdings.length <= VERSIONS_ANNOUNCED_MAX) return holdings;
  const needs = new Map(holdings.map((each, at) => [each, needOf(each, isServed(versions[at]!))]));
  const ranked = holdings.toSorted((a, b) => needs.get(b)! - needs.get(a)!);
  const kept = new Set(ranked.slice(0, VERSIONS_ANNOUNCED_MAX));
  return holdings.filter((each) => kept.has(each));
}

/** How much requests need a version: one that serves most, one that is given up least. */
function needOf({ state }: VersionHolding, isServed: boolean): number {
  if (isServed) return 3;
  return state === "unloading" ? 0 : 1 + Number(state !== "failed");
}

/**
 * Whether the first assignment is settled: each version of the set is complete, or says why it cannot be.
 * Readiness rests on this, and on nothing that other workers do.
 */
export function isSettled(set: ReplicaSet, intent: Intent | undefined): boolean {
  return [...set.versions.values()].every(
    (held) => errorOf(held) !== undefined || assignmentStateOf(held, intent) !== "loading",
  );
}

function holdingOf(
  held: HeldVersion,
  intent: Intent | undefined,
  isServed: (held: HeldVersion) => boolean,
): VersionHolding {
  const opened = openedOf(held);
  const state = isFailed(held, isServed) ? "failed" : assignmentStateOf(held, intent);
  const updateBytes = updateBytesOf(held.stamp);
  return {
    ...(updateBytes === undefined ? {} : { updateBytes }),
    model: held.model,
    version: held.version,
    fingerprint: opened?.fingerprint,
    state,
    error: errorOf(held),
    tables: opened === undefined ? [] : tablesOf(held, opened),
  };
}

/** The state of a content that has not failed. */
function assignmentStateOf(held: HeldVersion, intent: Intent | undefined): VersionHolding["state"] {
  const { life } = held;
  if (LEAVING_PHASES.has(life.phase)) return "unloading";
  if (life.phase !== "open") return "loading";
  if (held.isLeft) return "unloading";
  const hasReplicas = held.replicas.size > 0;
  if (held.refusal !== undefined) return hasReplicas || !isRefused(held) ? "loading" : "failed";
  if (intent === undefined) return "loading";
  return new Assignment(held, life.opened, intent).isLoaded(held) ? "ready" : "loading";
}

function tablesOf(held: HeldVersion, opened: OpenedVersion): TableHolding[] {
  const ready: HeldPartition[][] = opened.tables.map(() => []);
  for (const [key, replica] of held.replicas) {
    const { table, partition } = replicaOfKey(key);
    if (replica.phase !== "ready") continue;
    ready[table]?.push({ partition, shares: replica.loaded.shares });
  }
  return opened.tables.map(({ partitions }, table) => ({
    table,
    partitions,
    held: (ready[table] ?? []).toSorted((a, b) => a.partition - b.partition),
  }));
}

function errorOf(held: HeldVersion): VersionHolding["error"] {
  const { life, refusal, trouble } = held;
  const error = life.phase === "copying" ? stillCopied(held) : (refusal ?? trouble?.error);
  if (error === undefined) return undefined;
  return { code: error.code, message: error.message.slice(0, MESSAGE_CHARACTERS_MAX) };
}

function stillCopied({ model, version, stamp }: HeldVersion): WinnowError {
  if (stamp === NO_FILES_STAMP) {
    return new WinnowError(
      "UNAVAILABLE",
      `The directory of version ${version} of model "${model}" has no model file yet: the version is opened once ` +
        "it has one; if nothing is being copied there, export it again or remove the directory",
    );
  }
  return new WinnowError(
    "UNAVAILABLE",
    `The files of version ${version} of model "${model}" still change: it is opened when its copy is ` +
      "complete; to save the wait, copy it beside the model and rename it into place",
  );
}

function compareText(a: string, b: string): number {
  return a < b ? -1 : Number(a > b);
}
