// The benchmark for real GPUs, run whole on a software one at tiny shapes: it must work the first time
// somebody runs it where the hardware is. No figure of it means anything here.

import { spawnSync } from "node:child_process";
import { existsSync, mkdtempSync, readFileSync, readdirSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { pathToFileURL } from "node:url";
import { afterAll, describe, expect, test } from "vitest";
import { gpuEnvironment, noGpuReason } from "./cluster/gpu-driver.ts";

const root = path.resolve(import.meta.dirname, "..");
const scripts = path.join(root, "packages/accelerator/scripts");
const isBuilt = existsSync(path.join(root, "packages/accelerator/dist/gpu/gpu-survey.js"));
const directory = mkdtempSync(path.join(tmpdir(), "winnow-gpu-bench-"));
afterAll(() => rmSync(directory, { recursive: true }));

function bench(args: readonly string[]) {
  const script = path.join(scripts, "gpu-bench.mjs");
  const env: NodeJS.ProcessEnv = {
    ...process.env,
    ...gpuEnvironment,
    WINNOW_BENCH_PYTHON: "/none",
  };
  return spawnSync(process.execPath, [script, ...args], { encoding: "utf8", env });
}

interface Cell {
  readonly wallMs?: number;
  readonly deviceMs?: number;
  readonly exactQueries?: number;
  readonly error?: string;
  readonly skipped?: string;
}

interface Results {
  readonly survey: { readonly gpus: readonly { readonly features: readonly string[] }[] };
  readonly ceilings: Readonly<Record<string, number>>;
  readonly tables: readonly Cell[];
  readonly cells: readonly Cell[];
  readonly masked: readonly Cell[];
  readonly rivals: { readonly cells: readonly Cell[] };
}

test("gpu-bench.mjs --help tells every flag", () => {
  const { status, stdout } = bench(["--help"]);

  expect(status).toBe(0);
  for (const flag of ["--rows", "--masked", "--minutes", "--toggles", "WINNOW_BENCH_PYTHON"]) {
    expect(stdout).toContain(flag);
  }
});

test.skipIf(noGpuReason !== "" || !isBuilt)(
  `what is packed for a bare machine has the tests, what they import, and one platform ${noGpuReason}`,
  () => {
    const script = path.join(scripts, "pack-for-gpu.mjs");
    const { status, stdout } = spawnSync(process.execPath, [script, "--list"], {
      encoding: "utf8",
    });
    const entries = stdout.trim().split("\n");

    expect(status).toBe(0);
    for (const part of [
      "packages/accelerator/src",
      "packages/core/dist",
      "test/vitest.config.ts",
    ]) {
      expect(entries).toContain(part);
    }
    for (const name of ["webgpu", "vitest", "vite", "fast-check", "pure-rand"]) {
      expect(entries).toContain(`node_modules/${name}`);
    }
    expect(entries.filter((entry) => entry.includes("onnxruntime"))).toEqual([]);
  },
);

describe.skipIf(noGpuReason !== "" || !isBuilt)(`the GPU benchmark ${noGpuReason}`, () => {
  test("measures, checks every cell, records what fails and goes on", () => {
    const shapes = ["--rows", "2000,1e15", "--dims", "8", "--batches", "1,3", "--k", "5"];
    const masked = ["--masked", "3000x8", "--masked-k", "40"];
    const limits = ["--minutes", "1", "--seconds", "0.05", "--ceiling-mib", "1"];
    const ended = bench([...shapes, ...masked, ...limits, "--software", "--out", directory]);
    expect(ended.stderr).toContain("min  search 2000 × 8, batch 3");
    expect(ended.status).toBe(0);
    const [json, markdown] = ended.stdout.trim().split("\n") as [string, string];
    const results = JSON.parse(readFileSync(json, "utf8")) as Results;

    expect(results.survey.gpus[0]!.features.length).toBeGreaterThan(0);
    for (const name of ["readGbPerS", "dp4aTops", "fmaTflops", "uploadGbPerS", "readbackMs"]) {
      expect(results.ceilings[name]).toBeGreaterThan(0);
    }
    expect(results.cells.map(({ exactQueries }) => exactQueries)).toEqual([1, 2]);
    for (const { wallMs } of [...results.cells, ...results.masked])
      expect(wallMs).toBeGreaterThan(0);
    expect(results.masked).toHaveLength(1);
    const failed = results.tables.filter(({ error, skipped }) => error ?? skipped);
    expect(failed).toHaveLength(1);
    expect(results.rivals.cells[0]!.error).toContain("/none");
    const text = readFileSync(markdown, "utf8");
    expect(text).toContain("## Ceilings, measured in this run");
    expect(text).toContain("| 2,000 | 8 | 5 | 3 |");
    expect(readdirSync(directory)).toHaveLength(2);
  }, 120_000);

  test("memory to read that the device has no room for is halved until it has", async () => {
    const ceilings = pathToFileURL(path.join(scripts, "gpu-bench/ceilings.mjs")).href;
    const { largestBuffer } = (await import(ceilings)) as {
      largestBuffer: (device: unknown, bytes: number, usage: number) => Promise<unknown>;
    };
    const deviceOf = (room: number) => ({
      limits: { maxStorageBufferBindingSize: 2 ** 30 },
      allocate: async (size: number) => {
        if (size > room) throw Object.assign(new Error("no room"), { code: "RESOURCE_EXHAUSTED" });
        return { size };
      },
    });

    expect(await largestBuffer(deviceOf(2 ** 40), 2 ** 35, 0)).toEqual({ size: 2 ** 30 });
    expect(await largestBuffer(deviceOf(2 ** 29 + 5), 2 ** 35, 0)).toEqual({ size: 2 ** 29 });
    await expect(largestBuffer(deviceOf(1000), 2 ** 35, 0)).rejects.toThrow("no room");
  });

  test("an answer that differs in one bit is found", async () => {
    const rows = pathToFileURL(path.join(scripts, "gpu-bench/rows.mjs")).href;
    const { differenceOf } = (await import(rows)) as {
      differenceOf: (block: unknown, answers: readonly unknown[]) => string | undefined;
    };
    const expected = { rows: Uint32Array.of(4, 2), scores: Float32Array.of(3, 1) };
    const block = { k: 2, counts: Uint32Array.of(2), ...expected };

    expect(differenceOf(block, [expected])).toBeUndefined();
    const off = Float32Array.of(3, 1 + 2 ** -23);
    expect(differenceOf({ ...block, scores: off }, [expected])).toContain("place 1");
    const other = Uint32Array.of(4, 3);
    expect(differenceOf({ ...block, rows: other }, [expected])).toContain("row 3");
    expect(differenceOf({ ...block, counts: Uint32Array.of(1) }, [expected])).toContain("1 rows");
  });
});
