// The compiled kernels and the buffer layouts that they share: group 0 belongs to a call, group 1
// to a slab of rows. The parameters of each dispatch lie in one uniform buffer, at an offset. The
// coder, which runs while rows are loaded, has a layout of its own.

import { CODER_PARAMS_BYTES, CODER_SHADER } from "../shaders/coder.ts";
import { scanShader, EXCLUDE_SHADER } from "../shaders/group-bounds.ts";
import { SCAN_TILE } from "../shaders/prelude.ts";
import { EXACT_SHADER, RESCORE_SHADER, SCORE_SHADER } from "../shaders/row-scores.ts";
import { FINISH_SHADER, ORDER_SHADER, SELECT_SHADER } from "../shaders/selection.ts";
import { SHADER_STAGE_COMPUTE } from "../webgpu-api.ts";
import type { GpuBindGroupLayout, GpuConnection, GpuPipeline } from "../webgpu-api.ts";

/** Bytes of one set of parameters. */
export const PARAMS_BYTES = 80;
/** Bytes from one set to the next: the alignment that every WebGPU device accepts. */
export const PARAMS_STRIDE = 256;

type SearchKernel =
  | "scanOne"
  | "scanTile"
  | "exclude"
  | "select"
  | "rescore"
  | "finish"
  | "score"
  | "order"
  | "exact";

const SEARCH_KERNELS: Readonly<Record<Exclude<SearchKernel, `scan${string}`>, string>> = {
  exclude: EXCLUDE_SHADER,
  select: SELECT_SHADER,
  rescore: RESCORE_SHADER,
  finish: FINISH_SHADER,
  score: SCORE_SHADER,
  order: ORDER_SHADER,
  exact: EXACT_SHADER,
};

/** Pipelines by name (their kernels: shaders/prelude.ts), and the layouts of their bind groups. */
export interface Kernels extends Readonly<Record<SearchKernel, GpuPipeline>> {
  readonly callLayout: GpuBindGroupLayout;
  readonly slabLayout: GpuBindGroupLayout;
  readonly coder: GpuPipeline;
  readonly coderLayout: GpuBindGroupLayout;
}

/** Compiles all kernels; takes some hundred milliseconds. */
export async function compileKernels(
  connection: GpuConnection,
  hasSubgroups: boolean,
): Promise<Kernels> {
  const readOnly = { type: "read-only-storage" };
  const writable = { type: "storage" };
  const params = { type: "uniform", hasDynamicOffset: true, minBindingSize: PARAMS_BYTES };
  const coderParams = { type: "uniform", minBindingSize: CODER_PARAMS_BYTES };
  const forReading = [params, readOnly, readOnly];
  const forWriting = [writable, writable, writable, writable];
  const callLayout = bindLayout(connection, [...forReading, ...forWriting]);
  const slabLayout = bindLayout(connection, [readOnly, readOnly]);
  const coderLayout = bindLayout(connection, [coderParams, readOnly, writable, writable]);
  const compile = (
    label: string,
    code: string,
    bindGroupLayouts = [callLayout, slabLayout],
  ): Promise<GpuPipeline> =>
    connection.createComputePipelineAsync({
      layout: connection.createPipelineLayout({ bindGroupLayouts }),
      compute: { module: connection.createShaderModule({ code, label }), entryPoint: "main" },
    });
  const shaders = {
    ...SEARCH_KERNELS,
    scanOne: scanShader(1, hasSubgroups),
    scanTile: scanShader(SCAN_TILE, hasSubgroups),
  };
  const compiled = Object.entries(shaders).map(
    async ([name, code]) => [name, await compile(name, code)] as const,
  );
  const [coder, ...named] = await Promise.all([
    compile("coder", CODER_SHADER, [coderLayout]),
    ...compiled,
  ]);
  const search = Object.fromEntries(named) as Record<SearchKernel, GpuPipeline>;
  return { ...search, coder, callLayout, slabLayout, coderLayout };
}

function bindLayout(connection: GpuConnection, buffers: readonly object[]): GpuBindGroupLayout {
  return connection.createBindGroupLayout({
    entries: buffers.map((buffer, binding) => ({
      binding,
      visibility: SHADER_STAGE_COMPUTE,
      buffer,
    })),
  });
}
