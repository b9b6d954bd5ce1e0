// The order of test files: of unit tests and of cluster tests the longest files first. On a fresh clone vitest knows
// no durations and goes by file size; a file of 40 lines that takes a minute would then run last, beside idle
// processors.

import { BaseSequencer, type TestSpecification } from "vitest/node";

/** Files that take half a minute and more, of each kind the longest first. */
export const LONG_TESTS: readonly string[] = [
  "test/command-line",
  "test/simulation/simulation",
  "packages/accelerator/src/gpu/search/filter",
  "packages/accelerator/src/gpu/accelerator",
  "test/console-page",
  "packages/model/src/object-store/object-mirror",
  "test/cut-searches",
  "test/oracle",
  "test/router-and-workers",
  "packages/accelerator/src/gpu/search/device-filters",
  "packages/accelerator/src/gpu/device/process-life",
  "packages/cluster/src/membership/redis-membership",
  "test/cluster/versions-and-workers",
  "test/cluster/npm-package",
  "test/cluster/grpc-reload",
  "test/cluster/faults",
  "test/cluster/gpu-workers",
  "test/cluster/image-build",
  "test/cluster/replaced-directories",
  "test/cluster/shared-ports",
  "test/cluster/oracle",
  "test/cluster/verify",
  "test/cluster/verify-pipelines",
  "test/cluster/handbook",
  "test/cluster/uncut-filters",
  "test/cluster/object-store",
  "test/cluster/versions",
  "test/cluster/bench",
  "test/cluster/serve",
  "test/cluster/chaos",
  "test/cluster/console",
  "test/cluster/pipelines",
  "test/cluster/cluster-report",
  "test/cluster/drain",
];

/**
 * Lower is earlier: the project's group, in it what runs in processes of its own, then the place in the list. Files that
 * share processes are not divided by others, since a process ends where the next file may not share it.
 */
function rankOf({ moduleId, project }: TestSpecification): number {
  const { sequence, isolate } = project.config;
  const behind = LONG_TESTS.length;
  const found = LONG_TESTS.findIndex((name) => moduleId.endsWith(`/${name}.test.ts`));
  const place = found < 0 ? behind : found;
  return sequence.groupOrder * (behind + 2) + (isolate ? 0 : 1 + place);
}

/** Of each group the long files before all others, whose order stays vitest's own. */
export class LongestFirst extends BaseSequencer {
  override async sort(files: TestSpecification[]): Promise<TestSpecification[]> {
    // oxlint-disable-next-line unicorn/no-array-sort -- vitest's method, not an array's
    const sorted = await super.sort(files);
    return sorted.toSorted((a, b) => rankOf(a) - rankOf(b));
  }
}
