// Device memory for rows of one dim: a buffer of float32 values and one of int8 codes, in groups.

import type { RowLayout } from "../codes.ts";
import type { GpuDevice } from "../device/device.ts";
import { GROUP_ROWS } from "../shaders/prelude.ts";
import { BUFFER_USAGE } from "../webgpu-api.ts";
import type { GpuBindGroup, GpuBuffer } from "../webgpu-api.ts";

/** Two buffers that hold groups of rows, of one partition or of many. */
export interface Slab {
  readonly groups: number;
  readonly codes: GpuBuffer;
  readonly values: GpuBuffer;
  readonly bindGroup: GpuBindGroup;
}

/** Consecutive rows in consecutive groups of a slab. */
export interface Extent {
  readonly slab: Slab;
  readonly firstGroup: number;
  readonly groups: number;
  /** Global number of its first row. */
  readonly firstRow: number;
  readonly rows: number;
}

/** Number of groups that hold this many rows. */
export function groupsOf(rows: number): number {
  return Math.ceil(rows / GROUP_ROWS);
}

/** Bytes of a group's values and of its codes with their head. */
export function groupBytes({ valueQuads, groupQuads }: RowLayout): {
  readonly values: number;
  readonly codes: number;
} {
  return { values: 16 * valueQuads * GROUP_ROWS, codes: 16 * groupQuads };
}

/** Allocates a slab. @throws WinnowError RESOURCE_EXHAUSTED when the device has no room */
export async function allocateSlab(
  device: GpuDevice,
  layout: RowLayout,
  groups: number,
): Promise<Slab> {
  const usage = BUFFER_USAGE.storage | BUFFER_USAGE.copyTarget | BUFFER_USAGE.copySource;
  const bytes = groupBytes(layout);
  const values = await device.allocate(groups * bytes.values, usage);
  const codes = await device.allocate(groups * bytes.codes, usage).catch((error) => {
    values.destroy();
    throw error;
  });
  const bindGroup = device.connection.createBindGroup({
    layout: device.kernels.slabLayout,
    entries: [codes, values].map((buffer, binding) => ({ binding, resource: { buffer } })),
  });
  return { groups, codes, values, bindGroup };
}

/** Frees slabs. WebGPU frees the memory with its next work, which is submitted and awaited here. */
export async function freeSlabs(slabs: readonly Slab[], device: GpuDevice): Promise<void> {
  if (slabs.length === 0) return;
  for (const { codes, values } of slabs) {
    codes.destroy();
    values.destroy();
  }
  device.connection.queue.submit([]);
  await device.settled(device.connection.queue.onSubmittedWorkDone());
}
