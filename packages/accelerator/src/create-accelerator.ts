// Opens the kind of device that a worker was configured with, or the next best one on this machine.

import { WinnowError } from "@winnow/core";
import type { Accelerator, AcceleratorKind } from "./accelerator.ts";
import type { AcceleratorOptions } from "./accelerator-options.ts";
import { createCpuAccelerator } from "./cpu/accelerator.ts";
import { loadNativeAddon } from "./cpu/native-addon.ts";
import { createGpuAccelerator } from "./gpu/accelerator.ts";
import { openGpuDevice } from "./gpu/device/device.ts";
import { gpuOptionsFromEnvironment, resolveGpuOptions } from "./gpu/gpu-settings.ts";
import { createReferenceAccelerator } from "./reference/accelerator.ts";

/** An opened accelerator. */
export interface OpenedAccelerator {
  readonly accelerator: Accelerator;
  /** Why the device is not of the requested kind, for the caller's log; `undefined` if it is. */
  readonly fallbackReason: string | undefined;
}

/** Opens an accelerator of this kind; if that is impossible, the next best, with the reason. */
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
