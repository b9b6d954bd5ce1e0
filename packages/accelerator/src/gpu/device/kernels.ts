// The compiled kernels and the buffer layouts that they share: group 0 belongs to a call, group 1
// to a slab of rows. The parameters of each dispatch lie in one uniform buffer, at an offset. The
// coder, which runs while rows are loaded, has a layout of its own.

import { CODER_PARAMS_BYTES, CODER_SHADER } from "../shaders/coder.ts";
import { EXCLUDE_SHADER, SIFT_SHADER, scanShader } from "../shaders/group-bounds.ts";
import { SCAN_ROWS, SCAN_TILE, SELECT_THREADS, SELECT_THREADS_MAX } from "../shaders/prelude.ts";
import { EXACT_SHADER, SCORE_SHADER } from "../shaders/row-scores.ts";
import { RANK_SHADER, listShader, selectShader } from "../shaders/selection.ts";
import type { ScanShape } from "../shaders/group-bounds.ts";
import type { SelectShape } from "../shaders/selection.ts";
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
  | "selectMany"
  | "sift"
  | "score"
  | "list"
  | "listMany"
  | "rank"
  | "exact";

/** What kernels are made for. */
type KernelShape = SelectShape & Pick<ScanShape, "quadsAtOnce">;

/** The source of each kernel for a device with workgroups of `threads`. */
function searchShaders(shape: KernelShape): Record<SearchKernel, string> {
  const { threads, hasSubgroups, quadsAtOnce } = shape;
  const few = { threads: SELECT_THREADS, hasSubgroups };
  const many = { threads: Math.min(SELECT_THREADS_MAX, threads), hasSubgroups };
  return {
    scanOne: scanShader({ tile: 1, rowsEach: 1, quadsAtOnce }, hasSubgroups),
    scanTile: scanShader({ tile: SCAN_TILE, rowsEach: SCAN_ROWS, quadsAtOnce }, hasSubgroups),
    exclude: EXCLUDE_SHADER,
    select: selectShader(few),
    selectMany: selectShader(many),
    sift: SIFT_SHADER,
    score: SCORE_SHADER,
    list: listShader(few),
    listMany: listShader(many),
    rank: RANK_SHADER,
    exact: EXACT_SHADER,
  };
}

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
  shape: KernelShape,
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
  const searchLayouts = [callLayout, slabLayout];
  const compiled = Object.entries(searchShaders(shape)).map(
    async ([label, code]) =>
      [label, await compileKernel(connection, { label, code }, searchLayouts)] as const,
  );
  const [coder, ...named] = await Promise.all([
    compileKernel(connection, { label: "coder", code: CODER_SHADER }, [coderLayout]),
    ...compiled,
  ]);
  const search = Object.fromEntries(named) as Record<SearchKernel, GpuPipeline>;
  return { ...search, coder, callLayout, slabLayout, coderLayout };
}

/** Compiles one kernel. */
export function compileKernel(
  connection: GpuConnection,
  { label, code }: { readonly label: string; readonly code: string },
  bindGroupLayouts: readonly GpuBindGroupLayout[],
): Promise<GpuPipeline> {
  return connection.createComputePipelineAsync({
    layout: connection.createPipelineLayout({ bindGroupLayouts }),
    compute: { module: connection.createShaderModule({ code, label }), entryPoint: "main" },
  });
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
