// The scale benchmarks, run whole on tiny tables and two workers: they must work when somebody needs them.
// No figure of it means anything here but the counts. `npm run test:benches` runs the one that starts clusters.

import { execFileSync, spawnSync } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { afterAll, expect, test } from "vitest";
import { hasRedisServer } from "./redis-process.ts";

const root = path.resolve(import.meta.dirname, "../..");
const script = path.join(root, "test/bench/scale.mjs");
const directory = mkdtempSync(path.join(tmpdir(), "winnow-scale-bench-"));
afterAll(() => rmSync(directory, { recursive: true }));

interface Cell {
  readonly membership: string;
  readonly workers: number;
  readonly start: { readonly wallSeconds: number; readonly workerSeconds: number };
  readonly idle: { readonly router: number };
  readonly loads?: readonly {
    readonly connections: number;
    readonly routerUs: number;
    readonly touched: number;
    readonly failures: number;
  }[];
  readonly memory: { readonly held: number };
  readonly trouble: { readonly ejections: number };
}

const isAsked = process.env["TEST_BENCHES"] !== undefined;

test.runIf(isAsked)(
  "bench:scale measures clusters of real processes and keeps what it has found",
  () => {
    const out = path.join(directory, "figures.json");
    const sizes = ["--small", "400x8", "--large", "3000x8", "--k", "5", "--workers", "2"];
    const times = [
      "--seconds",
      "0.5",
      "--warm",
      "1",
      "--answers",
      "1",
      "--settle",
      "0",
      "--idle",
      "0.2",
    ];
    const args = [script, ...sizes, ...times, "--connections", "1,3", "--out", out];
    const markdown = execFileSync(process.execPath, args, { encoding: "utf8" });
    const cells = Object.values(JSON.parse(readFileSync(out, "utf8")) as Record<string, Cell>);

    expect(cells.map(({ membership }) => membership)).toEqual(
      hasRedisServer ? ["list", "redis", "list"] : ["list", "list"],
    );
    for (const { start, memory } of cells) {
      for (const figure of [start.wallSeconds, start.workerSeconds, memory.held]) {
        expect(figure).toBeGreaterThan(0);
      }
    }
    const loads = cells.flatMap((cell) => cell.loads ?? []);
    expect(loads.map(({ connections }) => connections)).toEqual([1, 3, 1, 3]);
    for (const { failures, touched } of loads) {
      expect(failures).toBe(0);
      expect(touched).toBeGreaterThan(0);
    }
    expect(markdown).toContain("| small |");

    const again = execFileSync(process.execPath, args, { encoding: "utf8" });
    expect(again).toBe(markdown);
  },
);

test("bench:placement lays a table over workers on paper", () => {
  const paper = path.join(root, "test/bench/placement.mjs");
  const args = [paper, "--rows", "1e6", "--workers", "2,4", "--rounds", "1"];
  const markdown = execFileSync(process.execPath, args, { encoding: "utf8" });

  expect(markdown).toContain("1,000,000 × 64 rows");
  expect(markdown).not.toMatch(/NaN|undefined/);
});

test("bench:scale --help tells every option", () => {
  const { status, stdout } = spawnSync(process.execPath, [script, "--help"], { encoding: "utf8" });

  expect(status).toBe(0);
  for (const option of ["--workers", "--tables", "--only", "--against", "--out"]) {
    expect(stdout).toContain(option);
  }
});
