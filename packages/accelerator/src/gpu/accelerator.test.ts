// The GPU accelerator does what every accelerator must do.

import { describe, expect, test } from "vitest";
import { describeAccelerator } from "../cases/accelerator.cases.ts";
import type { AcceleratorOptions } from "../accelerator-options.ts";
import { createGpuAccelerator } from "./accelerator.ts";
import { sharedSoftwareGpu } from "./fixtures/software-gpu.ts";

const { device, reason } = await sharedSoftwareGpu();

if (device !== undefined) {
  const open = (options: AcceleratorOptions) => createGpuAccelerator(device, options);
  // `npm run fuzz:gpu` leaves nothing out.
  describeAccelerator("gpu", open, device.isSoftware && !("FUZZ_SEARCHES" in process.env));
}

describe.skipIf(device === undefined)(`gpu ${reason}`, () => {
  test("names the device", () => {
    const accelerator = createGpuAccelerator(device!, { capacityBytes: 2 ** 20 });

    expect(accelerator.kind).toBe("gpu");
    expect(accelerator.device).toMatch(/^GPU ./);
  });
});
