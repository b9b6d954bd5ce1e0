// A device for tests: Debian's `chromium` brings SwiftShader, a Vulkan driver in software. Where it or
// the package `webgpu` is absent, tests of the GPU skip, and say so on stderr.

import { existsSync } from "node:fs";
import { openGpuDevice } from "./device.ts";
import type { GpuDevice } from "./device.ts";
import { resolveGpuOptions } from "./gpu-settings.ts";

const SWIFTSHADER = "/usr/lib/chromium/vk_swiftshader_icd.json";

/** What there is to test on. */
export type SoftwareGpu =
  | { readonly device: GpuDevice; readonly reason: "" }
  | { readonly device: undefined; readonly reason: string };

/** Opens SwiftShader, or whatever VK_DRIVER_FILES names. */
export async function openSoftwareGpu(): Promise<SoftwareGpu> {
  if (process.env["VK_DRIVER_FILES"] === undefined && existsSync(SWIFTSHADER)) {
    process.env["VK_DRIVER_FILES"] = SWIFTSHADER;
    process.env["VK_ICD_FILENAMES"] = SWIFTSHADER;
  }
  try {
    const device = await openGpuDevice(resolveGpuOptions({ allowSoftware: true }));
    return { device, reason: "" };
  } catch (error) {
    const reason = `skipped: ${error instanceof Error ? error.message : String(error)}`;
    process.stderr.write(`GPU tests ${reason}\n`);
    return { device: undefined, reason };
  }
}
