// The README's commands, run as they stand there: the demo is written, the cluster comes up, every
// curl line is answered, Ctrl-C leaves nothing behind. Only the port is replaced, by 0: a free one, which the output names.

import { type ChildProcess, execFileSync, spawn } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { pause, repositoryRoot } from "./running-cluster.ts";

const readme = readFileSync(path.join(repositoryRoot, "README.md"), "utf8");
const blocks = Array.from(readme.matchAll(/```sh\n([\s\S]*?)```/g), (match) => match[1]!);
const commands = blocks.flatMap((block) => block.trim().split("\n"));
const quickStart = commands.find((line) => line.includes("winnow up"))!;
const curlLines = blocks[1]!.trim().split("\n");

const directory = mkdtempSync(path.join(tmpdir(), "winnow-readme-"));
let port = 0;
let up: ChildProcess;
let output = "";

/** A README command with `npx winnow` run from this repository and a free port. */
function runnable(command: string): string {
  const script = path.join(repositoryRoot, "packages/winnow/bin/winnow.js");
  return command
    .replace("npx winnow", `exec ${process.execPath} ${script}`)
    .replace("8501", `${port}`);
}

beforeAll(async () => {
  const steps = quickStart.split("&&").map((step) => step.trim());
  const demo = steps.find((step) => step.startsWith("npx winnow demo"))!;
  const start = steps.find((step) => step.startsWith("npx winnow up"))!;
  execFileSync("sh", ["-c", runnable(demo)], { cwd: directory, stdio: "ignore" });
  up = spawn("sh", ["-c", `${runnable(start)} --port 0`], {
    cwd: directory,
    env: { ...process.env, NO_COLOR: "1" },
  });
  up.stdout?.on("data", (data: Buffer) => (output += data.toString("utf8")));
  up.stderr?.on("data", (data: Buffer) => (output += data.toString("utf8")));
  for (let waited = 0; !output.includes("Ctrl-C stops everything"); waited += 1) {
    if (waited > 600 || up.exitCode !== null) throw new Error(`did not come up:\n${output}`);
    await pause(100);
  }
  port = Number(/^http:\/\/127\.0\.0\.1:(\d+)$/m.exec(output)?.[1]);
});

afterAll(() => {
  up?.kill("SIGKILL");
  rmSync(directory, { recursive: true, force: true });
});

describe("README", () => {
  test("its quick start installs, builds, writes the demo and starts the cluster", () => {
    expect(quickStart).toMatch(/^npm ci && npm run build && npx winnow demo \S+ && npx winnow up /);
    expect(output).toContain("ready   movies, version 1");
    expect(output).toContain("ready   movies-ranking, version 1");
    expect(output).toContain("ready   home-feed, version 1");
    expect(output).toContain("ready   similar-movies, version 1");
  });

  test.each(curlLines)("answers %s", (line) => {
    const text = execFileSync("sh", ["-c", runnable(line.replace("curl ", "curl -sS -f "))], {
      encoding: "utf8",
    });

    expect(JSON.parse(text)).toSatisfy(
      (answer: object) => "predictions" in answer || "model_version_status" in answer,
    );
  });

  test("its pipeline gives a filtered, ranked, explained answer", () => {
    const line = curlLines.find((each) => each.includes("home-feed"))!;
    const text = execFileSync("sh", ["-c", runnable(line.replace("curl ", "curl -sS -f "))], {
      encoding: "utf8",
    });

    const { predictions } = JSON.parse(text) as {
      predictions: readonly [
        {
          readonly output_1: readonly number[];
          readonly attributes: readonly { readonly year: number }[];
          readonly explain: { readonly stages: readonly { readonly stage: string }[] };
        },
      ];
    };
    const [{ output_1: ratings, attributes, explain }] = predictions;
    expect(ratings).toHaveLength(5);
    expect(ratings).toEqual(ratings.toSorted((a, b) => b - a));
    expect(Math.min(...attributes.map(({ year }) => year))).toBeGreaterThanOrEqual(1970);
    expect(explain.stages.map(({ stage }) => stage)).toEqual([
      "retrieve",
      "filter",
      "rank",
      "diversify",
      "limit",
    ]);
  });

  test("answers the curl lines that `winnow up` prints", () => {
    const printed = Array.from(output.matchAll(/^\s+(curl .*)$/gm), (match) => match[1]!);
    const answers = printed.map((line) =>
      execFileSync("sh", ["-c", line.replace("curl ", "curl -sS -f ")], { encoding: "utf8" }),
    );

    expect(answers).toHaveLength(4);
    for (const answer of answers) {
      expect(answer).toContain("predictions");
      expect(answer).not.toContain("[]");
    }
  });

  test("Ctrl-C ends every process and says so with exit code 0", async () => {
    const processIds = Array.from(output.matchAll(/is process (\d+)/g), (match) =>
      Number(match[1]),
    );
    const ended = new Promise((resolve) => {
      up.once("exit", (code, signal) => resolve(code ?? signal));
    });

    up.kill("SIGINT");

    expect(await ended).toBe(0);
    expect(processIds.length).toBe(4);
    for (const id of processIds) expect(() => process.kill(id, 0)).toThrow("ESRCH");
  });
});
