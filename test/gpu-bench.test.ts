// The benchmark for real GPUs, run whole on a software one at tiny shapes: it must work the first time
// somebody runs it where the hardware is. No figure of it means anything here. Runs of the benchmark itself are left to
// `npm run test:benches`: they take a software GPU half a minute.

import { spawnSync } from "node:child_process";
import {
  copyFileSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  readdirSync,
  rmSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { pathToFileURL } from "node:url";
import { afterAll, describe, expect, test } from "vitest";
import { gpuEnvironment, noGpuReason } from "./cluster/gpu-driver.ts";

const root = path.resolve(import.meta.dirname, "..");
const scripts = path.join(root, "packages/accelerator/scripts");
const isBuilt = existsSync(path.join(root, "packages/accelerator/dist/gpu/gpu-survey.js"));
const isAsked = process.env["TEST_BENCHES"] !== undefined;
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

/** A PyTorch that answers by what the question is. */
const PRETENDED_TORCH = `
import { createInterface } from "node:readline";
console.log(JSON.stringify({ torch: "0", device: "no CUDA: on the CPU" }));
for await (const line of createInterface({ input: process.stdin })) {
  if (JSON.parse(line).rows !== 3) console.log(JSON.stringify({ wallMs: 1 }));
}
`;

test("a PyTorch that does not answer in time is ended and said to be", async () => {
  const torch = pathToFileURL(path.join(scripts, "gpu-bench/torch-contender.mjs")).href;
  const { startTorch } = (await import(torch)) as {
    startTorch: (
      python: string,
      script: string,
    ) => Promise<{
      about: Readonly<Record<string, string>>;
      ask: (question: object, seconds?: number) => Promise<object>;
    }>;
  };
  const script = path.join(directory, "torch.mjs");
  writeFileSync(script, PRETENDED_TORCH);
  const { about, ask } = await startTorch(process.execPath, script);

  expect(about["device"]).toContain("no CUDA");
  expect(await ask({ rows: 2 })).toEqual({ wallMs: 1 });
  expect(await ask({ rows: 3 }, 0.5)).toEqual({
    error: "PyTorch was ended: it said nothing for 1 s",
  });
  expect(await ask({ rows: 2 })).toHaveProperty(
    "error",
    expect.stringContaining("nothing for 1 s"),
  );
  rmSync(script);
});

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
    const setUp = entries.filter((entry) => /^test\/[^/]*\.ts$/.test(entry));
    const named = setUp.flatMap((entry) =>
      [
        ...readFileSync(path.join(root, entry), "utf8").matchAll(
          /"(?:\.|test)\/([^/"*]*(?<!\.test)\.ts)"/g,
        ),
      ].map(([, name]) => `test/${name}`),
    );
    expect(setUp).toEqual(expect.arrayContaining(named));
    expect(named.length).toBeGreaterThan(2);
  },
);

interface Run {
  readonly status: number | null;
  readonly log: string;
  readonly files: readonly string[];
}

/** Runs `run.sh` on a machine that knows nothing but a shell, with an archive of four small stand-ins. */
function runOnGpu(args: readonly string[], stages: Readonly<Record<string, string>>): Run {
  const folder = mkdtempSync(path.join(directory, "bare-"));
  const content = path.join(folder, "content");
  const scripted = (file: string, code: string): void => {
    mkdirSync(path.dirname(path.join(content, file)), { recursive: true });
    writeFileSync(path.join(content, file), code, { mode: 0o755 });
  };
  const passes = 'printf "%s" "$*" >"$(dirname "$0")/asked"\n';
  scripted("node", `#!/bin/sh\n[ "$1" = --version ] && exit 0\nexec sh "$@"\n`);
  scripted("packages/accelerator/scripts/gpu-doctor.mjs", stages["doctor"] ?? passes);
  scripted("node_modules/vitest/vitest.mjs", stages["tests"] ?? passes);
  scripted("packages/accelerator/scripts/gpu-exactness.mjs", stages["exactness"] ?? passes);
  scripted("packages/accelerator/scripts/gpu-bench.mjs", stages["bench"] ?? passes);
  const archive = path.join(folder, "winnow-gpu.tar.gz");
  spawnSync("tar", ["-C", content, "-czf", archive, "."]);
  copyFileSync(path.join(scripts, "run-on-gpu.sh"), path.join(folder, "run.sh"));
  const out = path.join(folder, "out");
  const env = { PATH: "/usr/bin:/bin", TMPDIR: folder, OUT: out, VK_DRIVER_FILES: "/none" };
  const { status } = spawnSync("bash", [path.join(folder, "run.sh"), ...args], { env });
  const files = existsSync(out) ? readdirSync(out) : [];
  const log = files.includes("run.log") ? readFileSync(path.join(out, "run.log"), "utf8") : "";
  return { status, log, files };
}

describe("run.sh, on a bare machine", () => {
  const tell = (name: string): string => `echo "${name} was asked $*"`;
  const telling = Object.fromEntries(
    ["doctor", "tests", "exactness", "bench"].map((name) => [name, tell(name)]),
  );

  test("runs every stage, tells each its time, and hands the benchmark its flags", () => {
    const { status, log } = runOnGpu(["all", "--minutes", "2", "--rows", "1e3"], telling);

    expect(status).toBe(0);
    for (const name of Object.keys(telling)) expect(log).toContain(`${name}: passed`);
    expect(log).toMatch(/exactness was asked --seconds 1\d --out/);
    expect(log).toMatch(/bench was asked --seconds-in-all \d+ --out .* --rows 1e3/);
  });

  test("runs one stage alone, after the doctor", () => {
    const { log } = runOnGpu(["bench"], telling);

    expect(log).toContain("doctor: passed");
    expect(log).toContain("bench: passed");
    expect(log).not.toMatch(/tests|exactness/);
  });

  test("begins nothing where the doctor finds no usable GPU, and says so", () => {
    const { status, log } = runOnGpu(["all"], { ...telling, doctor: "echo no driver; exit 1" });

    expect(status).toBe(1);
    expect(log).toContain("no driver");
    expect(log).toContain("no stage is begun without a usable GPU");
    expect(log).not.toContain("was asked");
  });

  test("goes on after a stage that fails, and its own status says so", () => {
    const { status, log } = runOnGpu(["all"], { ...telling, tests: "exit 3" });

    expect(status).toBe(1);
    expect(log).toContain("tests: FAILED with status 3");
    expect(log).toContain("bench: passed");
  });

  test("cuts off a stage at its part of the time, and keeps what it wrote", () => {
    const hangs = 'echo "first result"; exec sleep 60';
    const { status, log, files } = runOnGpu(["all", "--minutes", "1"], {
      ...telling,
      exactness: `echo partial >"$4"; ${hangs}`,
    });

    expect(status).toBe(1);
    expect(log).toContain("first result");
    expect(log).toMatch(/exactness: CUT OFF after 9 s/);
    expect(log).toContain("bench: passed");
    expect(files).toContain("exactness.json");
  }, 40_000);

  test.each([
    [["everything"], "no stage everything"],
    [["all", "--minutes", "1.5"], "whole number"],
  ])("%j is refused before anything is done", (args) => {
    const { status, files } = runOnGpu(args, telling);

    expect(status).toBe(2);
    expect(files).toEqual([]);
  });
});

describe.skipIf(noGpuReason !== "" || !isBuilt || !isAsked)(
  `the GPU benchmark ${noGpuReason}`,
  () => {
    test("of exactness compares searches by chance and writes what it compared", () => {
      const out = path.join(directory, "exactness.json");
      const script = path.join(scripts, "gpu-exactness.mjs");
      const ended = spawnSync(
        process.execPath,
        [script, "--small", "--seconds", "2", "--out", out],
        {
          encoding: "utf8",
          env: { ...process.env, ...gpuEnvironment },
        },
      );
      const told = JSON.parse(readFileSync(out, "utf8")) as {
        readonly searches: number;
        readonly queriesByRoad: Readonly<Record<string, number>>;
      };

      expect(ended.stdout).toContain("no difference");
      expect(ended.status).toBe(0);
      expect(told.searches).toBeGreaterThan(0);
      expect(Object.values(told.queriesByRoad).some((queries) => queries > 0)).toBe(true);
      rmSync(out);
    }, 60_000);

    test("measures, checks every cell, records what fails and goes on", () => {
      const shapes = ["--rows", "2000,1e15", "--dims", "8", "--batches", "1,3", "--k", "5"];
      const masked = ["--masked", "3000x8", "--masked-k", "40"];
      const resultFolder = path.join(directory, "results");
      const limits = ["--minutes", "4", "--seconds", "0.05", "--ceiling-mib", "1"];
      const ended = bench([...shapes, ...masked, ...limits, "--software", "--out", resultFolder]);
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
      expect(readdirSync(resultFolder)).toHaveLength(2);
    }, 300_000);

    test("memory to read that the device has no room for is halved until it has", async () => {
      const ceilings = pathToFileURL(path.join(scripts, "gpu-bench/ceilings.mjs")).href;
      const { largestBuffer } = (await import(ceilings)) as {
        largestBuffer: (device: unknown, bytes: number, usage: number) => Promise<unknown>;
      };
      const deviceOf = (room: number) => ({
        limits: { maxStorageBufferBindingSize: 2 ** 30 },
        allocate: async (size: number) => {
          if (size > room)
            throw Object.assign(new Error("no room"), { code: "RESOURCE_EXHAUSTED" });
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
  },
);
