// Which WINNOW_* variables a serving process takes, and what is said of others.

import { Command, Option } from "commander";
import { describe, expect, test } from "vitest";
import { createCommandLine } from "./command-line.ts";
import { checkVariables, variablesOf } from "./setting-variables.ts";

const known = variablesOf(createCommandLine("0.0.0"));

describe("environment variables of settings", () => {
  test("are those of all flags of all commands, each once", () => {
    const child = new Command("child").addOption(new Option("--a <n>").env("WINNOW_A"));
    const root = new Command("root")
      .addOption(new Option("--a <n>").env("WINNOW_A"))
      .option("--b")
      .addCommand(child.addOption(new Option("--c <n>").env("WINNOW_C")));

    expect(variablesOf(root)).toEqual(["WINNOW_A", "WINNOW_C"]);
    expect(known).toContain("WINNOW_REPLICATION");
    expect(known).toContain("WINNOW_MODEL_CONFIG_FILE");
  });

  test("with a typo are named with the nearest, all of them at once", () => {
    const variables = { WINNOW_REPLICATON: "3", WINNOW_REDIS_URL: "redis://a", WINNOW_XYZZY: "" };

    expect(() => checkVariables(variables, () => known)).toThrow(
      "Nothing reads WINNOW_REDIS_URL (did you mean WINNOW_REDIS?), " +
        "WINNOW_REPLICATON (did you mean WINNOW_REPLICATION?), WINNOW_XYZZY: unset it",
    );
  });

  test("of which no known one is near are named alone: the prefix does not count", () => {
    expect(() => checkVariables({ WINNOW_FOO: "1" }, () => known)).toThrow(
      "Nothing reads WINNOW_FOO: unset it",
    );
    expect(() => checkVariables({ WINNOW_PRT: "1" }, () => known)).toThrow(
      "Nothing reads WINNOW_PRT (did you mean WINNOW_PORT?)",
    );
  });

  test("of others, of devices, of benchmarks and known ones pass", () => {
    const variables = {
      PATH: "/bin",
      MODEL_NAME: "movies",
      WINNOW_REPLICATION: "3",
      WINNOW_GPU_ADAPTER: "llvmpipe",
      WINNOW_BENCH_PYTHON: "/usr/bin/python3",
    };

    expect(() => checkVariables(variables, () => known)).not.toThrow();
  });

  test("that Kubernetes sets for services of that name pass", () => {
    const variables = {
      WINNOW_ROUTER_SERVICE_HOST: "10.0.0.1",
      WINNOW_ROUTER_SERVICE_PORT: "8501",
      WINNOW_ROUTER_SERVICE_PORT_REST: "8501",
      WINNOW_ROUTER_PORT: "tcp://10.0.0.1:8501",
      WINNOW_ROUTER_PORT_8501_TCP: "tcp://10.0.0.1:8501",
      WINNOW_ROUTER_PORT_8501_TCP_ADDR: "10.0.0.1",
    };

    expect(() => checkVariables(variables, () => known)).not.toThrow();
  });
});
