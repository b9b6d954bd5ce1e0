// The operator's handbook, run as it stands there: its blocks in one bash session, with a real Redis and real
// processes. Only ports are replaced by free ones. What a block prints must hold the lines that follow it.

import { type ChildProcessWithoutNullStreams, spawn } from "node:child_process";
import { once } from "node:events";
import { chmodSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { supplyPorts } from "../port-supply.ts";
import { RedisProcess, hasRedisServer } from "./redis-process.ts";
import { repositoryRoot } from "./running-cluster.ts";

interface Step {
  readonly section: string;
  readonly commands: string;
  /** Lines of which the output has one after the other; `…` stands for anything, any number for any other. */
  readonly lines: readonly string[];
}

const handbook = readFileSync(path.join(repositoryRoot, "docs/handbook.md"), "utf8");
const steps = handbook.split(/^## /m).flatMap(stepsOf);
const directory = mkdtempSync(path.join(tmpdir(), "winnow-handbook-"));
const END = "end of the step";
let redis: RedisProcess;
let bash: ChildProcessWithoutNullStreams;
let output = "";
let ports: readonly number[];

function stepsOf(section: string): Step[] {
  const name = section.split("\n", 1)[0]!;
  const blocks = Array.from(section.matchAll(/```(sh|text)\n([\s\S]*?)```/g));
  return blocks.flatMap(([, kind, commands], at) => {
    if (kind !== "sh") return [];
    const next = blocks[at + 1];
    const lines = next?.[1] === "text" ? next[2]!.trim().split("\n") : [];
    return [{ section: name, commands: commands!, lines }];
  });
}

/** The commands of a step with this machine's ports. */
function localised(commands: string): string {
  const [router, w0, w1, w2, w3, secureRouter, secureWorker] = ports;
  return commands
    .replaceAll("6379", String(redis.port))
    .replaceAll("8501", String(router))
    .replaceAll("8502", String(secureRouter))
    .replaceAll("7610", String(secureWorker))
    .replaceAll(
      "--port 760$1",
      `--port $(echo "${w0} ${w1} ${w2} ${w3}" | cut -d' ' -f$(($1 + 1)))`,
    );
}

async function run({ commands }: Step): Promise<string> {
  output = "";
  bash.stdin.write(`${localised(commands)}\necho "${END}"\n`);
  while (!output.includes(END)) {
    if (bash.exitCode !== null) throw new Error(`bash ended:\n${output}`);
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
  return output;
}

function patternOf(line: string): RegExp {
  const source = line
    .trim()
    .replaceAll(/[.*+?^${}()|[\]\\/]/g, String.raw`\$&`)
    .replaceAll(/ *… */g, ".*")
    .replaceAll(/\d+/g, String.raw`\d+`)
    .replaceAll(/ +/g, " +");
  return new RegExp(source);
}

beforeAll(async () => {
  if (!hasRedisServer) return;
  redis = await RedisProcess.start();
  ports = await supplyPorts(7);
  const winnow = path.join(directory, "winnow");
  const script = path.join(repositoryRoot, "packages/winnow/bin/winnow.js");
  writeFileSync(winnow, `#!/bin/sh\nexec ${process.execPath} ${script} "$@"\n`);
  chmodSync(winnow, 0o755);
  const PATH = `${directory}:${process.env["PATH"] ?? ""}`;
  // Nobody dies here just before a drain: coverage need not be watched for as long as a lease lasts.
  const settle = { WINNOW_WORKER_DRAIN_SETTLE_MS: "1000" };
  // Nothing here is about a GPU: `winnow doctor` need not wait for one in software.
  const withoutGpu = { VK_DRIVER_FILES: "/absent/icd.json", VK_ICD_FILENAMES: "/absent/icd.json" };
  const plain = { PATH, NO_COLOR: "1", FORCE_COLOR: "0" };
  const env = { ...process.env, ...settle, ...withoutGpu, ...plain };
  bash = spawn("bash", ["--noprofile", "--norc"], { cwd: directory, env, detached: true });
  for (const stream of [bash.stdout, bash.stderr]) {
    stream.on("data", (data: Buffer) => (output += data.toString("utf8")));
  }
});

afterAll(async () => {
  if (!hasRedisServer) return;
  // The whole group: workers and routers that a failed step has left.
  if (bash.pid !== undefined) process.kill(-bash.pid, "SIGKILL");
  await redis.kill();
  rmSync(directory, { recursive: true, force: true });
});

test.skipIf(!hasRedisServer).each([
  ["--require-security lacks something", "router --host 0.0.0.0 --port 0 --require-security"],
  ["--require-security lacks something", "worker --host 0.0.0.0 --port 0 --require-security"],
  ["the keys are no keys", "router --port 0 --api-keys winnow"],
  ["the keys are no keys", "worker --port 0 --metrics-port 0 --api-keys winnow"],
  ["the port is taken", "router --port 6379"],
])("a process with a Redis ends where its start fails: %s, %s", async (_, command) => {
  const script = path.join(repositoryRoot, "packages/winnow/bin/winnow.js");
  const args = localised(command).split(" ");
  const child = spawn(process.execPath, [script, ...args, "--redis", redis.url], {
    cwd: directory,
    stdio: ["ignore", "ignore", "pipe"],
  });
  let told = "";
  child.stderr.setEncoding("utf8").on("data", (text: string) => (told += text));

  const [code] = (await once(child, "exit")) as [number | null];

  expect(code).toBe(/^INVALID_ARGUMENT: /m.test(told) ? 2 : 1);
  expect(told).toMatch(/^(FAILED_PRECONDITION|INVALID_ARGUMENT|UNAVAILABLE): /m);
});

describe.skipIf(!hasRedisServer)("the handbook", () => {
  test("has its sections in order", () => {
    const names = steps.map(({ section }) => section);
    expect([...new Set(names)]).toEqual([
      "Install",
      "Size",
      "Start",
      "Scale",
      "Secure",
      "Observe",
      "Upgrade a model",
      "Roll a model back",
      "Upgrade Winnow",
      "Recover",
      "Tune",
      "Stop",
    ]);
    expect(steps.every(({ lines }) => lines.length > 0)).toBe(true);
  });

  test.each(steps)(
    "$section: $commands",
    async (step) => {
      let rest = await run(step);
      for (const line of step.lines) {
        expect(rest).toMatch(patternOf(line));
        const [found] = patternOf(line).exec(rest)!;
        rest = rest.slice(rest.indexOf(found) + found.length);
      }
    },
    120_000,
  );
});
