// How the tests run. Unit tests resolve packages to their source by an export condition, so they
// need no build; those of whole systems in one process import packages from `dist/`, which need not be
// transformed then. Cluster tests start real processes from there, import packages from there too, and run
// after everything else, four files at a time: they mostly wait, and a timing that they assert must hold on a
// busy machine.
//
// Tests of the GPU share two processes, as a GPU in software takes all processors; then unit tests share four, since many
// wait, and then cluster tests four. Each process has one copy of every module: a process and a copy for each file cost unit
// tests twice the processor time, and each file of cluster tests some seconds. So a file must leave no state of a module
// behind; those that cannot are listed in `ALONE`.

import { defineConfig } from "vitest/config";
import { LongestFirst } from "./longest-first.ts";
import { testSeedOf } from "./test-seed.ts";

/**
 * When a test, or a hook, is taken to hang: the only such limits of tests that need no longer ones. What
 * takes 20 s on an idle machine of two cores (10 s: most of it is waiting for timers) takes 100 s on one
 * that has five times as much to do; no test is proved right by ending sooner.
 */
const UNIT_MS_MAX = 120_000;
/** Tests of real processes: their longest wait is `WAIT_MS` in `cluster/served-model.ts`, twice. */
const CLUSTER_MS_MAX = 300_000;

/** How long `expect.poll` goes on; other waits are in `patient-waits.ts`. */
const POLL_MS_MAX = 60_000;

const compiled = /\/packages\/[^/]+\/dist\//;
const fromSource = { conditions: ["@winnow/source"] };
// This file is read once for each project: a seed that is drawn is kept for the others, and told once.
const asked = process.env["TEST_SEED"];
const seed = String(testSeedOf(asked));
if (asked === "random") process.stderr.write(`Property tests draw from TEST_SEED=${seed}\n`);
process.env["TEST_SEED"] = seed;
const gpuTests = "packages/accelerator/src/gpu/**/*.test.ts";
const clusterTests = "test/cluster/**/*.test.ts";
/** Unit tests that need modules of their own. */
const ALONE: readonly string[] = [
  // They run the tests of other files once more, over TLS: those register when their module is first run.
  "packages/router/src/http/server/https-suites.test.ts",
  "packages/cluster/src/grpc-door/grpc-door-tls.test.ts",
  // They replace modules by doubles.
  "packages/accelerator/src/create-accelerator.test.ts",
  "packages/cluster/src/trust/worker-address.test.ts",
  // It measures how the memory of its process grows.
  "packages/accelerator/src/gpu/memory/device-memory.test.ts",
];
/** Whole systems in one process: they run compiled packages, which vitest's own imports make a sixth slower. */
const WHOLE: readonly string[] = [
  "test/cut-searches.test.ts",
  "test/oracle.test.ts",
  "test/router-and-workers.test.ts",
  "test/simulation/*.test.ts",
];
const GPU_PROCESSES = 2;
const UNIT_PROCESSES = 4;
const CLUSTER_PROCESSES = 4;

export default defineConfig({
  test: {
    pool: "forks",
    env: {
      TEST_SEED: seed,
      ORT_DISABLE_TELEMETRY: "1",
      // Every process would read further certificates of the machine as it starts, and no test asks beyond it.
      NODE_EXTRA_CA_CERTS: "",
    },
    globalSetup: ["test/temporary-folder.ts"],
    setupFiles: ["test/plain-output.ts", "test/property-seed.ts", "test/patient-waits.ts"],
    expect: { poll: { timeout: POLL_MS_MAX } },
    sequence: { sequencer: LongestFirst },
    projects: [
      {
        extends: true,
        resolve: fromSource,
        ssr: { resolve: fromSource },
        test: {
          name: "gpu",
          testTimeout: UNIT_MS_MAX,
          hookTimeout: UNIT_MS_MAX,
          include: [gpuTests],
          exclude: ["**/node_modules/**", ...ALONE],
          benchmark: { include: [] },
          isolate: false,
          maxWorkers: GPU_PROCESSES,
          sequence: { groupOrder: 0 },
        },
      },
      {
        extends: true,
        resolve: fromSource,
        ssr: { resolve: fromSource },
        test: {
          name: "unit",
          testTimeout: UNIT_MS_MAX,
          hookTimeout: UNIT_MS_MAX,
          include: ["packages/*/src/**/*.test.ts", "test/**/*.test.ts"],
          exclude: ["**/node_modules/**", "**/dist/**", gpuTests, clusterTests, ...ALONE, ...WHOLE],
          benchmark: { include: ["packages/*/src/**/*.bench.ts", "test/**/*.bench.ts"] },
          isolate: false,
          maxWorkers: UNIT_PROCESSES,
          sequence: { groupOrder: 1 },
        },
      },
      {
        extends: true,
        resolve: fromSource,
        ssr: { resolve: fromSource },
        test: {
          name: "alone",
          testTimeout: UNIT_MS_MAX,
          hookTimeout: UNIT_MS_MAX,
          include: [...ALONE],
          benchmark: { include: [] },
          maxWorkers: UNIT_PROCESSES,
          sequence: { groupOrder: 1 },
        },
      },
      {
        extends: true,
        test: {
          name: "whole",
          server: { deps: { external: [compiled] } },
          testTimeout: UNIT_MS_MAX,
          hookTimeout: UNIT_MS_MAX,
          include: [...WHOLE],
          benchmark: { include: [] },
          isolate: false,
          maxWorkers: UNIT_PROCESSES,
          sequence: { groupOrder: 1 },
        },
      },
      {
        extends: true,
        test: {
          name: "cluster",
          server: { deps: { external: [compiled] } },
          testTimeout: CLUSTER_MS_MAX,
          hookTimeout: CLUSTER_MS_MAX,
          include: [clusterTests],
          benchmark: { include: [] },
          isolate: false,
          maxWorkers: CLUSTER_PROCESSES,
          sequence: { groupOrder: 2 },
        },
      },
    ],
  },
});
