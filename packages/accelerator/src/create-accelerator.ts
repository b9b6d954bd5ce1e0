// Opens the device a worker was told to use, or the next best one that exists here.

import type { Accelerator, AcceleratorKind } from "./accelerator.ts";
import type { AcceleratorOptions } from "./accelerator-options.ts";
import { createReferenceAccelerator } from "./reference/accelerator.ts";

/** What was opened. */
export interface OpenedAccelerator {
  readonly accelerator: Accelerator;
  /** Why it is not of the kind that was asked for; for the caller's log. */
  readonly fallbackReason: string | undefined;
}

/** Opens an accelerator of this kind; without the means for it, `reference` and the reason. */
export async function createAccelerator(
  kind: AcceleratorKind,
  options: AcceleratorOptions,
): Promise<OpenedAccelerator> {
  const accelerator = createReferenceAccelerator(options);
  if (kind === "reference") return { accelerator, fallbackReason: undefined };
  return { accelerator, fallbackReason: `No ${kind} accelerator is built here` };
}
