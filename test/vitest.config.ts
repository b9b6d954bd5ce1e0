// How the tests run. Unit tests resolve packages to their source by an export condition, so they
// need no build. Cluster tests start real processes from `dist/`; they run one file at a time,
// after everything else, so that a timing they assert is not disturbed by a neighbour.

import { defineConfig } from "vitest/config";

const fromSource = ["@winnow/source"];
const clusterTests = "test/cluster/**/*.test.ts";

export default defineConfig({
  resolve: { conditions: fromSource },
  ssr: { resolve: { conditions: fromSource } },
  test: {
    pool: "forks",
    testTimeout: 20_000,
    projects: [
      {
        extends: true,
        test: {
          name: "unit",
          include: ["packages/*/src/**/*.test.ts", "test/**/*.test.ts"],
          exclude: ["**/node_modules/**", "**/dist/**", clusterTests],
          benchmark: { include: ["packages/*/src/**/*.bench.ts", "test/**/*.bench.ts"] },
          maxWorkers: 2,
          sequence: { groupOrder: 0 },
        },
      },
      {
        extends: true,
        test: {
          name: "cluster",
          include: [clusterTests],
          benchmark: { include: [] },
          fileParallelism: false,
          sequence: { groupOrder: 1 },
        },
      },
    ],
  },
});
