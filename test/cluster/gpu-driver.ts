// What workers of a test need to run on a GPU: the package webgpu and a Vulkan driver. The driver is
// the one that VK_DRIVER_FILES names, or SwiftShader, which Debian's `chromium` brings.

import { existsSync } from "node:fs";
import { createRequire } from "node:module";
import { SLOW_POLLS } from "../../packages/accelerator/src/gpu/fixtures/slow-polls.ts";

const SWIFTSHADER = "/usr/lib/chromium/vk_swiftshader_icd.json";
const driver = process.env["VK_DRIVER_FILES"] ?? SWIFTSHADER;

/** Arguments of a worker on a GPU. */
export const onGpu: readonly string[] = ["--accelerator", "gpu"];

/** Environment of a worker on a GPU. */
export const gpuEnvironment = {
  NODE_OPTIONS: SLOW_POLLS,
  VK_DRIVER_FILES: driver,
  VK_ICD_FILENAMES: driver,
  WINNOW_GPU_ALLOW_SOFTWARE: "1",
};

/** Why tests with a GPU skip; empty if they run. They say it on stderr too. */
export const noGpuReason: string = whyNot();

function whyNot(): string {
  const missing = existsSync(driver) ? missingPackage() : `there is no Vulkan driver ${driver}`;
  if (missing === "") return "";
  process.stderr.write(`workers on a GPU skipped: ${missing}\n`);
  return `skipped: ${missing}`;
}

function missingPackage(): string {
  try {
    createRequire(import.meta.url).resolve("webgpu");
    return "";
  } catch {
    return "the package webgpu is not installed";
  }
}
