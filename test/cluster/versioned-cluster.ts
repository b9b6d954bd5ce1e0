// A cluster of three workers over a directory of its own, with versions of small models that differ in
// every item: what the tests of versions start from.

import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { type ClusterShape, RunningCluster } from "./running-cluster.ts";
import { publishVersion } from "./written-versions.ts";

/** Names of its workers. */
export const WORKERS: readonly string[] = ["w0", "w1", "w2"];

/**
 * Arguments of workers that keep what is given up for 12 s, as requests may take 6 s here: a drain waits for that. With
 * the default of 20 s, a test under load would send hundreds of requests more while nothing else happens.
 */
export const BRIEFLY_KEPT: readonly string[] = ["--worker-request-deadline-ms-max", "6000"];

/** A started cluster and where its models lie. */
export interface VersionedCluster {
  readonly base: string;
  readonly cluster: RunningCluster;
  /** Ends its processes and removes its models. */
  end(): Promise<void>;
}

/** Publishes version 1 of each model and starts the cluster; each partition is to have two replicas. */
export async function startVersioned(
  models: readonly string[],
  shape: Partial<ClusterShape> = {},
): Promise<VersionedCluster> {
  const base = mkdtempSync(path.join(tmpdir(), "winnow-versions-"));
  for (const model of models) publishVersion(base, { model, version: 1 });
  const cluster = await RunningCluster.start({
    models: base,
    workers: WORKERS.length,
    replication: 2,
    routerArgs: ["--router-table-bytes", "0"],
    ...shape,
  });
  const end = async (): Promise<void> => {
    await cluster.stop();
    rmSync(base, { recursive: true, force: true });
  };
  try {
    await cluster.loaded(models);
  } catch (error) {
    await end();
    throw error;
  }
  return { base, cluster, end };
}
