// The verdict over models and its exit code: a server that went away must not read as one that answers wrongly.

import { describe, expect, test } from "vitest";
import {
  EXIT_CODES,
  type VerificationReport,
  type VerifiedModel,
  verdictOf,
  verificationText,
} from "./verification-report.ts";
import { NO_VERDICTS } from "./verification-state.ts";

const progress = {
  model: "movies",
  version: 1,
  fingerprint: "f",
  next: 10,
  missing: [] as number[],
  instances: 9,
  files: { ...NO_VERDICTS, exact: 9 },
  grpc: undefined,
  servers: undefined,
  differences: [],
  missingText: undefined,
};

const checked = (changes: Partial<typeof progress> = {}, unchecked?: string): VerifiedModel => ({
  model: "movies",
  version: 1,
  wanted: 10,
  progress: { ...progress, ...changes },
  unchecked,
});

describe("the verdict", () => {
  const gone = checked({ missing: [9] }, "given up: connect ECONNREFUSED");
  const wrong = checked({ missing: [9], files: { ...NO_VERDICTS, different: 1 } });

  test.each<[VerificationReport["verdict"], number, readonly VerifiedModel[]]>([
    ["equal", 0, [checked()]],
    ["different", 1, [checked(), gone, wrong]],
    ["unchecked", 2, [checked({}, "no signature")]],
    ["unanswered", 3, [checked({}, "no signature"), gone]],
    ["interrupted", 130, [gone]],
  ])("is %s, exit code %i", (verdict, exitCode, models) => {
    const given = verdictOf(models, verdict === "interrupted");

    expect([given, EXIT_CODES[given]]).toEqual([verdict, exitCode]);
  });

  test("over a server that went away tells how much is missing and what to do", () => {
    const run = { url: "http://h:1", grpc: undefined, against: undefined, seed: 1 };
    const report = { ...run, tolerance: 0, serverTolerance: 0, verdict: "unanswered" } as const;

    const text = verificationText({ ...report, models: [gone] });

    expect(text).toContain("given up: connect ECONNREFUSED");
    expect(text).toMatch(/1 answers? (is|are) missing; see winnow status http:\/\/h:1/);
  });
});
