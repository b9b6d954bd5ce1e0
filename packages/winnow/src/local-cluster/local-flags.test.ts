// What `winnow up` and `winnow serve` pass on to the processes that they start.

import { availableParallelism } from "node:os";
import { expect, test } from "vitest";
import { createCommandLine } from "../command-line/command-line.ts";
import { servingCommands } from "../command-line/serving-commands.ts";
import { type LocalFlags, localClusterShape } from "./local-flags.ts";

function shapeOf(args: readonly string[]) {
  const command = servingCommands["up"]!().action(() => undefined);
  command.parse(args, { from: "user" });
  const place = {
    source: { kind: "directory", directory: "/models" },
    script: "winnow.js",
    port: 8501,
  } as const;
  return localClusterShape(command.opts<LocalFlags>(), place);
}

test("limits go to the role that reads them, times of a request and CORS to the router", () => {
  const { routerArgs, workerArgs } = shapeOf([
    "--k-max=5",
    "--http-in-flight-max=6",
    "--worker-queue-rows-max=7",
    "--rest_api_timeout_in_ms=800",
    "--rest_api_enable_cors_support",
  ]);

  const router = ["--k-max=5", "--http-in-flight-max=6", "--rest_api_timeout_in_ms=800"];
  expect(routerArgs).toEqual(
    expect.arrayContaining([...router, "--rest_api_enable_cors_support=true"]),
  );
  expect(workerArgs).toContain("--worker-queue-rows-max=7");
  expect(workerArgs.join(" ")).not.toMatch(/k-max|in-flight|timeout/);
});

test("the model cache goes to workers, with its limit, once it has a directory", () => {
  const { routerArgs, workerArgs } = shapeOf([
    "--model-cache-dir=/c",
    "--model-cache-bytes=67108864",
  ]);

  const args = "--model-cache-dir /c --model-cache-bytes 67108864";
  expect(workerArgs.join(" ")).toContain(args);
  expect(routerArgs.join(" ")).not.toContain("cache");
  expect(shapeOf(["--model-cache-bytes=67108864"]).workerArgs.join(" ")).not.toContain("cache");
});

test("the Redis of seen items is the routers', and is in no flag, since its URL may hold a password", () => {
  const shape = shapeOf(["--seen-redis=redis://:secret@seen:6379"]);

  expect(shape.seenRedis).toBe("redis://:secret@seen:6379");
  expect([...shape.routerArgs, ...shape.workerArgs].join(" ")).not.toContain("secret");
});

test("nothing is passed on that was not given, and the roles know every flag that is", () => {
  const { routerArgs, workerArgs } = shapeOf([]);
  const { commands } = createCommandLine("0.0.0");
  const known = new Set(commands.flatMap(({ options }) => options.map(({ long }) => long)));

  const flags = [...routerArgs, ...workerArgs].filter((arg) => arg.startsWith("--"));

  expect(flags.filter((flag) => !known.has(flag.split("=", 1)[0]))).toEqual([]);
  expect(flags.join(" ")).not.toMatch(/k-max|queue-rows|keepalive/);
});

test("routers and workers are given how many replicas a swap has", () => {
  const { routerArgs, workerArgs } = shapeOf(["--replication=2", "--swap-replicas=1"]);

  for (const args of [routerArgs, workerArgs]) {
    expect(args.join(" ")).toContain("--replication 2 --swap-replicas 1");
  }
});

test("workers share the machine: each has threads for all cores, and searches ask few of them", () => {
  const cores = availableParallelism();
  const shared = (args: readonly string[]): string => shapeOf(args).workerArgs.join(" ");

  expect(shared([])).toContain(
    `--threads ${cores} --machine local --partition-bytes ${2 ** 30} --extra-memory 0`,
  );
  expect(shared(["--partition-bytes=5", "--extra-memory=0.5"])).toContain(
    `--threads ${cores} --machine local --partition-bytes 5 --extra-memory 0.5`,
  );
  expect(shared(["--workers=1"])).toContain(`--threads ${cores}`);
  expect(shared(["--workers=1"])).not.toMatch(/--machine|--partition-bytes|--extra-memory/);
  expect(shared(["--accelerator=gpu"])).not.toContain("--machine");
});
