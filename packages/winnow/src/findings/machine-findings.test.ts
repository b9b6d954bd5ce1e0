// What a machine's state means for Winnow: good, worth a note, or a fault.

import { describe, expect, test } from "vitest";
import { diagnosisText } from "../commands/doctor.ts";
import { coresFinding, gpuFinding, nodeFinding } from "./machine-findings.ts";

describe("a diagnosis", () => {
  test.each([
    ["20.3.0", "good"],
    ["26.0.1", "good"],
    ["20.2.9", "fault"],
    ["18.20.0", "fault"],
  ])("Node %s is %s", (version, state) => {
    expect(nodeFinding(version).state).toBe(state);
  });

  test("a quota below the cores that are seen is noted with the flag that respects it", () => {
    expect(coresFinding(8, undefined).state).toBe("good");
    expect(coresFinding(8, 8).state).toBe("good");
    expect(coresFinding(8, 2.5)).toMatchObject({ state: "note" });
    expect(coresFinding(8, 2.5).text).toContain("--threads 2");
    expect(coresFinding(8, 0.25).text).toContain("--threads 1");
  });

  test("a missing GPU is a fault only where one is asked for", () => {
    const none = { gpus: [], opened: undefined, fault: "Cannot open a GPU: no driver" };

    expect(gpuFinding(none, "cpu")).toMatchObject({ state: "note", text: none.fault });
    expect(gpuFinding(none, "gpu")).toMatchObject({ state: "fault", text: none.fault });
  });

  test("each GPU is told with its features and limits", () => {
    const gpu = {
      name: "Some GPU",
      vendor: "nvidia",
      architecture: "hopper",
      driver: "570.1",
      isSoftware: false,
      features: ["subgroups", "timestamp-query"],
      limits: { maxBufferSize: 4096 },
    };
    const finding = gpuFinding({ gpus: [gpu], opened: "Some GPU", fault: undefined }, "gpu");

    const text = diagnosisText({ isWell: true, findings: [finding], gpus: [gpu] }, "All is well.");

    expect(text).toContain("Some GPU (hardware; nvidia hopper; 570.1)");
    expect(text).toContain("features: subgroups, timestamp-query");
    expect(text).toContain("maxBufferSize 4096");
    expect(text).toMatch(/All is well\.$/);
  });
});
