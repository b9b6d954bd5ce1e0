// A version that replaces another one where the workers' memory holds little more than one of them with all its
// replicas: refused as a rule, and done with one replica of each meanwhile where `--swap-replicas` asks for that.

import { afterEach, describe, expect, test } from "vitest";
import { pause } from "./running-cluster.ts";
import {
  eventually,
  expectExact,
  memoryOf,
  untilDefault,
  untilReplicated,
  versionOf,
} from "./served-model.ts";
import { WORKERS, startVersioned } from "./versioned-cluster.ts";
import type { VersionedCluster } from "./versioned-cluster.ts";
import { publishVersion, versionedRequests } from "./written-versions.ts";

const model = "movies";
/** Of 14 partitions with two replicas each, a worker holds nine or ten, and two or three more fit. */
const MEMORY_BYTES = 290_000;
const SMALL = { partitionBytes: 8192 };
const BRIEF = ["--worker-request-deadline-ms-max", "3000", "--extra-memory", "0"];
const SCARCE = [...BRIEF, "--memory-bytes", String(MEMORY_BYTES)];

let started: VersionedCluster | undefined;

afterEach(() => started?.end());

/** Starts a cluster, whose workers could not hold two versions. */
async function startScarce(further: readonly string[]): Promise<VersionedCluster> {
  started = await startVersioned([model], {
    ...SMALL,
    workerArgs: [...SCARCE, ...further],
    routerArgs: ["--router-table-bytes", "0", ...further],
  });
  const { cluster } = started;
  await untilReplicated(cluster, WORKERS, { model, version: 1 });
  for (const bytes of await memoryOf(cluster, WORKERS)) {
    expect(2 * (bytes ?? 0)).toBeGreaterThan(MEMORY_BYTES);
  }
  return started;
}

describe("a new version for which memory does not suffice beside the old one", () => {
  test("is refused with figures, while the old one answers", async () => {
    const { base, cluster } = await startScarce([]);

    publishVersion(base, { model, version: 2 });

    await eventually(
      cluster,
      () => versionOf(cluster.url, model, 2),
      (told) => told?.state === "END" && /cannot hold its assignment/.test(told.message),
    );
    await expectExact(cluster, versionedRequests(model, [1]), () => pause(500));
  });

  test("(L1, L4, S1) replaces it without a failed request where both have fewer replicas meanwhile, and has all of them in the end", async () => {
    const { base, cluster } = await startScarce(["--swap-replicas", "1"]);

    for (const version of [2, 3]) {
      await expectExact(cluster, versionedRequests(model, [version - 1, version]), async () => {
        await pause(500);
        publishVersion(base, { model, version });
        await untilDefault(cluster, { model, version });
        await untilReplicated(cluster, WORKERS, { model, version });
      });
    }
  });
});
