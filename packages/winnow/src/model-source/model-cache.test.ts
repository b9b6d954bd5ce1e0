// The model cache's directory is tried when a worker starts, not when a model needs it.

import { mkdirSync, statSync, writeFileSync } from "node:fs";
import path from "node:path";
import { expect, test } from "vitest";
import { temporaryDirectory } from "../../../../test/temporary-directory.ts";
import { modelCache } from "./model-cache.ts";

function noted() {
  const warnings: (readonly [string, unknown])[] = [];
  const silent = (): void => undefined;
  const warn = (text: string, fields?: unknown): void => void warnings.push([text, fields]);
  return { warnings, log: { debug: silent, info: silent, error: silent, warn } };
}

test("without a directory there is no cache", async () => {
  const { log } = noted();
  await expect(modelCache({ modelCacheBytes: 1 }, log)).resolves.toBeUndefined();
  await expect(modelCache({ modelCacheDir: "", modelCacheBytes: 1 }, log)).resolves.toBeUndefined();
});

test("a directory is made, for its owner alone", async () => {
  const directory = path.join(temporaryDirectory(), "new", "cache");
  const { log, warnings } = noted();

  const cache = await modelCache({ modelCacheDir: directory, modelCacheBytes: 2 ** 26 }, log);

  expect(cache).toMatchObject({ directory, bytesMax: 2 ** 26 });
  expect(statSync(directory).mode & 0o777).toBe(0o700);
  expect(warnings).toEqual([]);
});

test("a disk with less room than the limit is told", async () => {
  const { log, warnings } = noted();
  const modelCacheBytes = Number.MAX_SAFE_INTEGER;

  await modelCache({ modelCacheDir: temporaryDirectory(), modelCacheBytes }, log);

  expect(warnings).toEqual([
    [
      expect.stringContaining("less room than --model-cache-bytes"),
      expect.objectContaining({
        bytesMax: modelCacheBytes,
        roomBytes: expect.any(Number) as number,
      }),
    ],
  ]);
});

test("a directory that cannot be is an error that says what to do", async () => {
  const file = path.join(temporaryDirectory(), "file");
  writeFileSync(file, "");
  mkdirSync(`${file}s`);

  await expect(
    modelCache({ modelCacheDir: path.join(file, "cache"), modelCacheBytes: 1 }, noted().log),
  ).rejects.toMatchObject({
    code: "FAILED_PRECONDITION",
    message: expect.stringMatching(/ENOTDIR.*--model-cache-dir/) as string,
  });
});

// Node.js tries for ever to make a directory there with those above it.
test.skipIf(process.platform !== "linux")("one below /proc is such an error too", async () => {
  const settings = { modelCacheDir: "/proc/winnow/cache", modelCacheBytes: 1 };

  await expect(modelCache(settings, noted().log)).rejects.toThrow(
    "Cannot keep models in /proc/winnow/cache: ENOENT",
  );
});
