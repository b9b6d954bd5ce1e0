// The GPU accelerator does what every accelerator must do.

import { afterAll } from "vitest";
import { describeAccelerator } from "../accelerator.cases.ts";
import { createGpuAccelerator } from "./accelerator.ts";
import { openSoftwareGpu } from "./software-gpu.cases.ts";

const { device } = await openSoftwareGpu();

afterAll(async () => {
  await device?.close();
});

if (device !== undefined) {
  describeAccelerator("gpu", (options) => createGpuAccelerator(device, options));
}
