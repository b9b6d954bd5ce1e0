// Version directories for tests: written small, opened, and thrown away; and the recorded real ones.

import { existsSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { afterAll } from "vitest";
import { BundleWriter, type WrittenTensor } from "./writer/bundle-writer.ts";

/** Real SavedModels with TensorFlow's answers lie beside the repository. */
export const REAL_MODELS: string = path.resolve(
  import.meta.dirname,
  "../../../../../shared/savedmodels",
);
/** Whether they are there; tests of them are skipped otherwise. */
export const hasRealModels: boolean = existsSync(REAL_MODELS);

/** An empty directory that is removed after the file's tests. */
export function temporaryDirectory(): string {
  const directory = mkdtempSync(path.join(tmpdir(), "winnow-model-"));
  afterAll(() => rmSync(directory, { recursive: true, force: true }));
  return directory;
}

/** Writes a version directory with these tensors and an empty graph. */
export function writeVersionOf(
  directory: string,
  tensors: readonly WrittenTensor[],
  dataFiles = 1,
): void {
  rmSync(directory, { recursive: true, force: true });
  mkdirSync(directory, { recursive: true });
  const bundle = new BundleWriter(directory, dataFiles);
  for (const tensor of tensors) bundle.write(tensor);
  bundle.finish();
  writeFileSync(path.join(directory, "saved_model.pb"), new Uint8Array());
}

/** A float32 tensor to be written. */
export function floats(key: string, shape: readonly number[], values: Float32Array): WrittenTensor {
  const content = { kind: "numbers", dtype: "float32", pieces: () => [values] } as const;
  return { key, shape, content };
}
