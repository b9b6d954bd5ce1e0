// Opens the device a worker was told to use, or the next best one that exists here.

import type { Accelerator, AcceleratorKind } from "./accelerator.ts";
import type { AcceleratorOptions } from "./accelerator-options.ts";
import { createCpuAccelerator } from "./cpu/accelerator.ts";
import { loadNativeAddon } from "./cpu/native-addon.ts";
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
    case "gpu": {
      const { accelerator } = openCpu(options);
      return { accelerator, fallbackReason: "This version has no GPU accelerator" };
    }
  }
}

function openCpu(options: AcceleratorOptions): OpenedAccelerator {
  const { addon, reason } = loadNativeAddon();
  return addon === undefined
    ? { accelerator: createReferenceAccelerator(options), fallbackReason: reason }
    : { accelerator: createCpuAccelerator(addon, options), fallbackReason: undefined };
}
