// The survey of GPUs in a process of its own, also when that process crashes or hangs.

import { existsSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { pathToFileURL } from "node:url";
import { afterAll, afterEach, describe, expect, test, vi } from "vitest";
import { listGpus } from "./gpu-survey.ts";
import { SLOW_POLLS } from "./fixtures/slow-polls.ts";
import { sharedSoftwareGpu } from "./fixtures/software-gpu.ts";
import { startGpuSurvey } from "./survey-start.ts";

const built = path.resolve(import.meta.dirname, "../../dist/gpu/survey-process.js");
const directory = mkdtempSync(path.join(tmpdir(), "winnow-survey-"));
const { device, reason } = await sharedSoftwareGpu();
afterAll(() => rmSync(directory, { recursive: true }));
afterEach(() => vi.unstubAllEnvs());

function entryOf(name: string, code: string): URL {
  const file = path.join(directory, name);
  writeFileSync(file, code);
  return pathToFileURL(file);
}

describe("a survey of GPUs", () => {
  test("finds a driver that kills its process, with what it said last", async () => {
    const entry = entryOf(
      "crash.mjs",
      'process.stderr.write("driver: bad page\\n"); process.kill(process.pid, "SIGSEGV");',
    );

    const survey = await startGpuSurvey(entry);

    expect(survey.gpus).toEqual([]);
    expect(survey.fault).toContain("ended with SIGSEGV; suspect the driver: driver: bad page");
  });

  test("passes on what the process says", async () => {
    const told = { gpus: [], opened: "a GPU", fault: undefined };
    const entry = entryOf("tell.mjs", `process.send(${JSON.stringify(told)})`);

    expect(await startGpuSurvey(entry)).toEqual({ gpus: [], opened: "a GPU" });
  });

  test.skipIf(device === undefined || !existsSync(built))(
    `opens a GPU, checks its answers, and lists features and limits ${reason}`,
    async () => {
      vi.stubEnv("WINNOW_GPU_ALLOW_SOFTWARE", "1");
      vi.stubEnv("NODE_OPTIONS", SLOW_POLLS);

      const { gpus, opened, fault } = await startGpuSurvey();

      expect(fault).toBeUndefined();
      expect(opened).toBe(device!.name);
      expect(gpus.length).toBeGreaterThan(0);
      expect(gpus[0]!.features).toContain("core-features-and-limits");
      expect(gpus[0]!.limits["maxStorageBufferBindingSize"]).toBeGreaterThanOrEqual(2 ** 27);
    },
  );

  test.skipIf(device?.isSoftware !== true || !existsSync(built))(
    `refuses a software device, yet lists it ${reason}`,
    async () => {
      vi.stubEnv("WINNOW_GPU_ALLOW_SOFTWARE", "0");

      const { gpus, opened, fault } = await startGpuSurvey();

      expect(opened).toBeUndefined();
      expect(fault).toContain("the only device is software");
      expect(gpus.map(({ isSoftware }) => isSoftware)).toContain(true);
    },
  );

  test.skipIf(device === undefined)(`lists GPUs without opening one ${reason}`, async () => {
    const gpus = await listGpus();

    expect(gpus.map(({ name }) => name).join()).not.toBe("");
    expect(gpus[0]!.features).toContain("core-features-and-limits");
  });
});
