// What the outside sees of a model's versions: the status endpoint, pinned answers, what workers say
// that they hold; and waiting for any of it.

import { expect } from "vitest";
import { type KnownAnswer, type LoadOutcome, runLoad } from "./checked-load.ts";
import { type RunningCluster, pause } from "./running-cluster.ts";

/** One version as the status endpoint tells it. */
export interface ToldVersion {
  readonly version: string;
  readonly state: string;
  readonly code: string;
  readonly message: string;
}

/** The status of a model, newest version first; empty where the endpoint answers 404. */
export async function versionsOf(url: string, model: string): Promise<ToldVersion[]> {
  const response = await fetch(`${url}/v1/models/${model}`);
  const text = await response.text();
  if (response.status === 404) return [];
  const { model_version_status: told } = JSON.parse(text) as {
    model_version_status: {
      version: string;
      state: string;
      status: { error_code: string; error_message: string };
    }[];
  };
  return told.map(({ version, state, status }) => ({
    version,
    state,
    code: status.error_code,
    message: status.error_message,
  }));
}

/** One version of the status; `undefined` if it is not told. */
export async function versionOf(
  url: string,
  model: string,
  version: number,
): Promise<ToldVersion | undefined> {
  const told = await versionsOf(url, model);
  return told.find((each) => each.version === String(version));
}

/** A reply to a prediction. */
export interface Predicted {
  readonly status: number;
  readonly version: string | null;
  readonly text: string;
}

/** Predicts for one user nobody knows, with the default version or a pinned one. */
export async function predict(
  url: string,
  target: { readonly model: string; readonly version?: number },
): Promise<Predicted> {
  const pin = target.version === undefined ? "" : `/versions/${target.version}`;
  const response = await fetch(`${url}/v1/models/${target.model}${pin}:predict`, {
    method: "POST",
    body: '{"instances":["user 0"]}',
  });
  const version = response.headers.get("x-winnow-model-version");
  return { status: response.status, version, text: await response.text() };
}

/** How long tests wait for what processes do: a few seconds on an idle machine. */
export const WAIT_MS = 100_000;

/** Between two looks: one takes up to 30 ms of processor time, from the cluster that is waited for among others. */
const LOOK_MS = 250;

/** Waits until a look at the cluster shows what it should; fails with the last look and the logs. */
export async function eventually<Look>(
  cluster: RunningCluster,
  look: () => Promise<Look>,
  isRight: (seen: Look) => boolean,
): Promise<Look> {
  const endMs = Date.now() + WAIT_MS;
  for (;;) {
    const seen = await look();
    if (isRight(seen)) return seen;
    if (Date.now() > endMs) {
      expect.fail(`waited in vain; last seen: ${JSON.stringify(seen)}\n${cluster.log()}`);
    }
    await pause(LOOK_MS);
  }
}

/** Fewest replicas of any partition of a version, over these workers; 0 where none tells of it. */
async function fewestReplicas(
  cluster: RunningCluster,
  workers: readonly string[],
  { model, version }: { readonly model: string; readonly version: number },
): Promise<number> {
  const counts = new Map<number, number[]>();
  for (const name of workers) {
    const announcement = await cluster.announcement(name);
    const holding = announcement?.versions.find(
      (each) => each.model === model && each.version === version,
    );
    for (const { table, partitions, held } of holding?.tables ?? []) {
      const of = counts.get(table) ?? Array.from({ length: partitions }, () => 0);
      for (const { partition } of held) of[partition]! += 1;
      counts.set(table, of);
    }
  }
  return counts.size === 0 ? 0 : Math.min(...[...counts.values()].flat());
}

/** Bytes that each worker says its rows, ids and keys occupy. */
export async function memoryOf(
  cluster: RunningCluster,
  workers: readonly string[],
): Promise<(number | undefined)[]> {
  return Promise.all(
    workers.map(async (name) => (await cluster.announcement(name))?.memoryUsedBytes),
  );
}

/** Waits until this version answers where none is named. */
export async function untilDefault(
  cluster: RunningCluster,
  { model, version }: { readonly model: string; readonly version: number },
): Promise<void> {
  await eventually(
    cluster,
    async () => (await predict(cluster.url, { model })).version,
    (told) => told === String(version),
  );
}

/** Waits until every partition of a version has two replicas on these workers; tables that are not cut may have more. */
export async function untilReplicated(
  cluster: RunningCluster,
  workers: readonly string[],
  version: { readonly model: string; readonly version: number },
): Promise<void> {
  await eventually(
    cluster,
    () => fewestReplicas(cluster, workers, version),
    (fewest) => fewest >= 2,
  );
}

/** Sends load while `events` happen and expects every answer to be exactly its version's. */
export async function expectExact(
  cluster: RunningCluster,
  answers: readonly KnownAnswer[],
  events: () => Promise<unknown>,
): Promise<LoadOutcome> {
  const until = events();
  const outcome = await runLoad(cluster.urls, answers, { perSecond: 25, atLeast: 61, until });

  expect(outcome.wrong).toEqual([]);
  if (outcome.failed.length > 0) expect.fail(`${outcome.failed.join("\n")}\n${cluster.log()}`);
  expect(outcome.exact).toBeGreaterThan(60);
  await until;
  return outcome;
}
