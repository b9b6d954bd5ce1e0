// The order of test files: the longest files of cluster tests first. On a fresh clone vitest knows no durations and
// goes by file size; a file of 40 lines that takes a minute would then run last, beside idle processors.

import path from "node:path";
import { BaseSequencer, type TestSpecification } from "vitest/node";

/** Files of cluster tests that take half a minute and more, the longest first. */
export const LONG_CLUSTER_TESTS: readonly string[] = [
  "oracle",
  "gpu-workers",
  "dense-faults",
  "chaos",
  "faults",
  "replaced-directories",
  "npm-package",
  "image-build",
  "handbook",
  "versions-and-workers",
  "pipeline-choice",
  "grpc-reload",
  "verify",
  "verify-pipelines",
  "bench",
  "object-store",
  "versions",
];

/** Lower is earlier: the project's group, then, of cluster tests, the place in the list. */
function rankOf({ moduleId, project }: TestSpecification): number {
  const place = LONG_CLUSTER_TESTS.indexOf(path.basename(moduleId, ".test.ts"));
  const isLong = project.name === "cluster" && place >= 0;
  const behind = LONG_CLUSTER_TESTS.length;
  return project.config.sequence.groupOrder * (behind + 1) + (isLong ? place : behind);
}

/** Of each group the long files of cluster tests before all others, whose order stays vitest's own. */
export class LongestFirst extends BaseSequencer {
  override async sort(files: TestSpecification[]): Promise<TestSpecification[]> {
    // oxlint-disable-next-line unicorn/no-array-sort -- vitest's method, not an array's
    const sorted = await super.sort(files);
    return sorted.toSorted((a, b) => rankOf(a) - rankOf(b));
  }
}
