// What the kernels need of a GPU, and which of it a GPU lacks, limit by limit.

import type { Gpu, GpuAdapter } from "../webgpu-api.ts";

/** Integer dot products of packed bytes, which the scan consists of. */
const LANGUAGE_FEATURE = "packed_4x8_integer_dot_product";

/** The least that the kernels' layouts need; every other limit may have WebGPU's default. */
const LIMITS = {
  maxStorageBuffersPerShaderStage: 8,
  maxComputeInvocationsPerWorkgroup: 256,
  maxComputeWorkgroupsPerDimension: 65_535,
  maxStorageBufferBindingSize: 2 ** 27,
  maxBufferSize: 2 ** 28,
} as const;

/** Everything that this GPU lacks, in words; empty if the kernels can run on it. */
export function adapterShortfalls(gpu: Gpu, { limits }: GpuAdapter): readonly string[] {
  const hasProducts = gpu.wgslLanguageFeatures?.has(LANGUAGE_FEATURE) ?? false;
  const lacking = hasProducts ? [] : [`the WGSL feature ${LANGUAGE_FEATURE}`];
  for (const [name, needed] of Object.entries(LIMITS)) {
    const value = limits[name as keyof typeof LIMITS];
    if (!(value >= needed)) lacking.push(`${name} of at least ${needed} (it has ${value})`);
  }
  return lacking;
}
