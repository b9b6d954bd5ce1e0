// The compiled kernels and the one layout of buffers they share: group 0 belongs to a call, group 1
// to a slab of rows. The parameters of each dispatch lie in one uniform buffer, at an offset.

import { scanShader, EXCLUDE_SHADER } from "./shaders/group-bounds.ts";
import { SCAN_TILE } from "./shaders/prelude.ts";
import { EXACT_SHADER, RESCORE_SHADER, SCORE_SHADER } from "./shaders/row-scores.ts";
import { FINISH_SHADER, SELECT_SHADER } from "./shaders/selection.ts";
import { SHADER_STAGE_COMPUTE } from "./webgpu-api.ts";
import type { GpuBindGroupLayout, GpuConnection, GpuPipeline } from "./webgpu-api.ts";

/** Bytes of one set of parameters. */
export const PARAMS_BYTES = 80;
/** Distance of two sets: the alignment every WebGPU device admits. */
export const PARAMS_STRIDE = 256;

/** Pipelines by what they do (shaders/prelude.ts), and the layouts of their two bind groups. */
export interface Kernels {
  readonly scanOne: GpuPipeline;
  readonly scanTile: GpuPipeline;
  readonly exclude: GpuPipeline;
  readonly select: GpuPipeline;
  readonly rescore: GpuPipeline;
  readonly finish: GpuPipeline;
  readonly score: GpuPipeline;
  readonly exact: GpuPipeline;
  readonly callLayout: GpuBindGroupLayout;
  readonly slabLayout: GpuBindGroupLayout;
}

/** Compiles all kernels; takes some hundred milliseconds. */
export async function compileKernels(
  connection: GpuConnection,
  hasSubgroups: boolean,
): Promise<Kernels> {
  const readOnly = { type: "read-only-storage" };
  const writable = { type: "storage" };
  const params = { type: "uniform", hasDynamicOffset: true, minBindingSize: PARAMS_BYTES };
  const layoutOf = (buffers: readonly object[]): GpuBindGroupLayout =>
    connection.createBindGroupLayout({
      entries: buffers.map((buffer, binding) => ({
        binding,
        visibility: SHADER_STAGE_COMPUTE,
        buffer,
      })),
    });
  const callLayout = layoutOf([params, readOnly, readOnly, writable, writable, writable, writable]);
  const slabLayout = layoutOf([readOnly, readOnly]);
  const layout = connection.createPipelineLayout({ bindGroupLayouts: [callLayout, slabLayout] });
  const compile = (label: string, code: string): Promise<GpuPipeline> =>
    connection.createComputePipelineAsync({
      layout,
      compute: { module: connection.createShaderModule({ code, label }), entryPoint: "main" },
    });
  const [scanOne, scanTile, exclude, select, rescore, finish, score, exact] = await Promise.all([
    compile("scan one", scanShader(1, hasSubgroups)),
    compile("scan tile", scanShader(SCAN_TILE, hasSubgroups)),
    compile("exclude", EXCLUDE_SHADER),
    compile("select", SELECT_SHADER),
    compile("rescore", RESCORE_SHADER),
    compile("finish", FINISH_SHADER),
    compile("score", SCORE_SHADER),
    compile("exact", EXACT_SHADER),
  ]);
  return {
    scanOne,
    scanTile,
    exclude,
    select,
    rescore,
    finish,
    score,
    exact,
    callLayout,
    slabLayout,
  };
}
