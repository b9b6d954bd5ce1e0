// TensorFlow Serving's configuration flags as people type them, and as `winnow up` hands them on.

import { mkdirSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { Command } from "commander";
import { afterAll, describe, expect, test } from "vitest";
import { configuredVersions } from "../model-source/object-versions.ts";
import {
  addLoadOptions,
  addModelConfigOptions,
  addRequestOptions,
  argumentsOf,
} from "./config-flags.ts";

function parse(...args: readonly string[]): Record<string, unknown> {
  const command = addRequestOptions(addLoadOptions(addModelConfigOptions(new Command("t"))));
  command.exitOverride().configureOutput({ writeErr: () => undefined });
  return command.parse(args, { from: "user" }).opts();
}

describe("configuration flags", () => {
  test("have TensorFlow Serving's defaults, but for the wait between tries", () => {
    expect(parse()).toEqual({
      model_config_file_poll_wait_seconds: 0,
      enable_model_warmup: true,
      file_system_poll_wait_seconds: 1,
      max_num_load_retries: 5,
      load_retry_interval_micros: 10_000_000,
      modelCacheBytes: 2 ** 34,
      allow_version_labels_for_unavailable_models: false,
    });
  });

  test.each([
    ["--allow_version_labels_for_unavailable_models", true],
    ["--allow_version_labels_for_unavailable_models=true", true],
    ["--allow_version_labels_for_unavailable_models=false", false],
  ])("%s is %s", (arg, expected) => {
    expect(parse(arg)["allow_version_labels_for_unavailable_models"]).toBe(expected);
  });

  test.each([
    "--enable_model_warmup=perhaps",
    "--file_system_poll_wait_seconds=-1",
    "--max_num_load_retries=1.5",
  ])("%s is refused", (arg) => {
    expect(() => parse(arg)).toThrow("It must be");
  });

  test("mean the same when they are handed on", () => {
    const flags = parse("--model_config_file=a b.config", "--enable_model_warmup=false");

    const args = argumentsOf(flags, [
      "model_config_file",
      "enable_model_warmup",
      "monitoring_config_file",
    ]);

    expect(args).toEqual(["--model_config_file=a b.config", "--enable_model_warmup=false"]);
    expect(parse(...args)).toEqual(flags);
  });
});

describe("configuredVersions()", () => {
  const directory = mkdtempSync(path.join(tmpdir(), "winnow-configured-"));
  for (const version of ["1", "2", "007"]) mkdirSync(path.join(directory, version));
  afterAll(() => rmSync(directory, { recursive: true, force: true }));
  const model = (versions: readonly number[]) => ({
    model: "m",
    basePath: directory,
    policy: { kind: "specific", versions } as const,
    labels: new Map<string, number>(),
  });

  test("is the newest version the policy allows, wherever it lies", async () => {
    expect(await configuredVersions([model([1, 2])])).toMatchObject([{ model: "m", version: 2 }]);
    expect((await configuredVersions([model([7])]))[0]?.directory).toBe(
      path.join(directory, "007"),
    );
    expect(
      await configuredVersions([{ ...model([]), policy: { kind: "latest", count: 1 } }]),
    ).toMatchObject([{ model: "m", version: 7 }]);
  });

  test("says which versions are missing where", async () => {
    await expect(configuredVersions([model([8, 9])])).rejects.toThrow(
      `Model m: ${directory} has no version 8, 9`,
    );
  });
});
