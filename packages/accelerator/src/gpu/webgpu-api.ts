// The part of WebGPU that is used here, declared by hand: the package `webgpu` is optional, so its
// types may be absent when this is compiled. Names and meanings are those of the standard
// (https://www.w3.org/TR/webgpu/).

/** The result of the package's `create`. It must outlive everything made from it. */
export interface Gpu {
  /** What its shading language can do beyond the standard's core. */
  readonly wgslLanguageFeatures?: ReadonlySet<string>;
  requestAdapter(options?: {
    readonly powerPreference?: "low-power" | "high-performance";
  }): Promise<GpuAdapter | null>;
}

/** A GPU that was found. */
export interface GpuAdapter {
  readonly info: {
    readonly vendor: string;
    readonly architecture: string;
    readonly device: string;
    readonly description: string;
    readonly isFallbackAdapter: boolean;
    readonly subgroupMinSize: number;
    readonly subgroupMaxSize: number;
  };
  readonly features: ReadonlySet<string>;
  readonly limits: GpuLimits;
  requestDevice(options: {
    readonly requiredFeatures: readonly string[];
    readonly requiredLimits: Readonly<Partial<GpuLimits>>;
  }): Promise<GpuConnection>;
}

/** The limits that the accelerator depends on. */
export interface GpuLimits {
  readonly maxBufferSize: number;
  readonly maxStorageBufferBindingSize: number;
  readonly maxStorageBuffersPerShaderStage: number;
  readonly maxComputeWorkgroupsPerDimension: number;
  readonly maxComputeInvocationsPerWorkgroup: number;
  readonly maxComputeWorkgroupSizeX: number;
  readonly maxComputeWorkgroupStorageSize: number;
}

/** An opened GPU (`GPUDevice`). */
export interface GpuConnection {
  readonly limits: GpuLimits;
  readonly queue: GpuQueue;
  readonly lost: Promise<{ readonly reason: string; readonly message: string }>;
  onuncapturederror:
    | ((event: { readonly error: { readonly message: string } }) => void)
    | null
    | undefined;
  createBuffer(descriptor: {
    readonly size: number;
    readonly usage: number;
    readonly label?: string;
  }): GpuBuffer;
  createShaderModule(descriptor: {
    readonly code: string;
    readonly label: string;
  }): Brand<"shader module">;
  createBindGroupLayout(descriptor: {
    readonly entries: readonly object[];
  }): Brand<"bind group layout">;
  createPipelineLayout(descriptor: {
    readonly bindGroupLayouts: readonly Brand<"bind group layout">[];
  }): Brand<"pipeline layout">;
  createComputePipelineAsync(descriptor: {
    readonly layout: Brand<"pipeline layout"> | "auto";
    readonly compute: { readonly module: Brand<"shader module">; readonly entryPoint: string };
  }): Promise<GpuPipeline>;
  createBindGroup(descriptor: {
    readonly layout: Brand<"bind group layout">;
    readonly entries: readonly {
      readonly binding: number;
      readonly resource: { readonly buffer: GpuBuffer; readonly size?: number };
    }[];
  }): GpuBindGroup;
  createCommandEncoder(): GpuEncoder;
  createQuerySet(descriptor: { readonly type: "timestamp"; readonly count: number }): GpuQuerySet;
  pushErrorScope(filter: "validation" | "out-of-memory" | "internal"): void;
  popErrorScope(): Promise<{ readonly message: string } | null>;
  destroy(): void;
}

interface Brand<Name extends string> {
  readonly brand: Name;
}

/** How buffers are bound (`GPUBindGroupLayout`). */
export type GpuBindGroupLayout = Brand<"bind group layout">;
/** Bound buffers (`GPUBindGroup`). */
export type GpuBindGroup = Brand<"bind group">;

/** A compiled kernel (`GPUComputePipeline`). */
export interface GpuPipeline {
  getBindGroupLayout(index: number): GpuBindGroupLayout;
}

/** Memory for timestamps (`GPUQuerySet`). */
export interface GpuQuerySet {
  destroy(): void;
}

/** Memory of a GPU. */
export interface GpuBuffer {
  readonly size: number;
  mapAsync(mode: number, offset?: number, size?: number): Promise<void>;
  getMappedRange(offset?: number, size?: number): ArrayBuffer;
  unmap(): void;
  destroy(): void;
}

/** The queue of a GPU's work (`GPUQueue`). */
interface GpuQueue {
  writeBuffer(
    buffer: GpuBuffer,
    offset: number,
    data: ArrayBufferView,
    dataOffset?: number,
    size?: number,
  ): void;
  submit(commands: readonly Brand<"command buffer">[]): void;
  onSubmittedWorkDone(): Promise<void>;
}

/** Collects commands (`GPUCommandEncoder`). */
export interface GpuEncoder {
  // oxlint-disable-next-line max-params -- the standard's signature
  copyBufferToBuffer(
    source: GpuBuffer,
    sourceOffset: number,
    target: GpuBuffer,
    targetOffset: number,
    size: number,
  ): void;
  clearBuffer(buffer: GpuBuffer, offset: number, size: number): void;
  beginComputePass(descriptor?: {
    readonly timestampWrites: {
      readonly querySet: GpuQuerySet;
      readonly beginningOfPassWriteIndex: number;
      readonly endOfPassWriteIndex: number;
    };
  }): GpuComputePass;
  // oxlint-disable-next-line max-params -- the standard's signature
  resolveQuerySet(
    querySet: GpuQuerySet,
    first: number,
    count: number,
    target: GpuBuffer,
    offset: number,
  ): void;
  finish(): Brand<"command buffer">;
}

/** Collects dispatches (`GPUComputePassEncoder`). */
export interface GpuComputePass {
  setPipeline(pipeline: GpuPipeline): void;
  setBindGroup(index: number, group: GpuBindGroup, dynamicOffsets?: readonly number[]): void;
  dispatchWorkgroups(x: number, y?: number, z?: number): void;
  end(): void;
}

/** Bits of a buffer's `usage` (`GPUBufferUsage`). */
export const BUFFER_USAGE = {
  mapRead: 0x01,
  copySource: 0x04,
  copyTarget: 0x08,
  uniform: 0x40,
  queryResolve: 0x200,
  storage: 0x80,
} as const;

/** `GPUMapMode.READ`. */
export const MAP_MODE_READ = 1;
/** `GPUShaderStage.COMPUTE`. */
export const SHADER_STAGE_COMPUTE = 4;
