// Opens the device a worker was told to use, or the next best one that exists here.

import { WinnowError } from "@winnow/core";
import type { Accelerator, AcceleratorKind } from "./accelerator.ts";
import type { AcceleratorOptions } from "./accelerator-options.ts";
import { createCpuAccelerator } from "./cpu/accelerator.ts";
import { loadNativeAddon } from "./cpu/native-addon.ts";
import { createGpuAccelerator } from "./gpu/accelerator.ts";
import { openGpuDevice } from "./gpu/device.ts";
import { gpuOptionsFromEnvironment, resolveGpuOptions } from "./gpu/gpu-settings.ts";
import { createReferenceAccelerator } from "./reference/accelerator.ts";

/** What was opened. */
export interface OpenedAccelerator {
  readonly accelerator: Accelerator;
  /** Why it is not of the kind that was asked for; for the caller's log. */
  readonly fallbackReason: string | undefined;
}

/** Opens an accelerator of this kind; without the means for it, the next best and the reason. */
export async function createAccelerator(
  kind: AcceleratorKind,
  options: AcceleratorOptions,
): Promise<OpenedAccelerator> {
  switch (kind) {
    case "reference":
      return { accelerator: createReferenceAccelerator(options), fallbackReason: undefined };
    case "cpu":
      return openCpu(options);
    case "gpu":
      return openGpu(options);
  }
}

async function openGpu(options: AcceleratorOptions): Promise<OpenedAccelerator> {
  try {
    const settings = { ...gpuOptionsFromEnvironment(), ...options, ownsDevice: true };
    const device = await openGpuDevice(resolveGpuOptions(settings));
    const accelerator = createGpuAccelerator(device, settings);
    return { accelerator, fallbackReason: undefined };
  } catch (error) {
    if (!(error instanceof WinnowError)) throw error;
    return { ...openCpu(options), fallbackReason: error.message };
  }
}

function openCpu(options: AcceleratorOptions): OpenedAccelerator {
  const { addon, reason } = loadNativeAddon();
  return addon === undefined
    ? { accelerator: createReferenceAccelerator(options), fallbackReason: reason }
    : { accelerator: createCpuAccelerator(addon, options), fallbackReason: undefined };
}
