// One opened GPU. Where there is none, opening says in plain words what is missing. Once the GPU is
// lost, WebGPU accepts work silently and never does it, so every wait for the device also waits for
// the loss (`settled`).
//
// The object that `create` of the package `webgpu` returns must not be garbage collected while
// anything is pending (the process would crash), so `globalThis` holds it for the life of the
// thread.

import { WinnowError, nextLoopTurn } from "@winnow/core";
import { adapterShortfalls } from "./adapter-check.ts";
import { gpuVariables } from "../gpu-settings.ts";
import type { GpuSettings } from "../gpu-settings.ts";
import { compileKernels } from "./kernels.ts";
import { QUADS_AT_ONCE, SELECT_THREADS_MAX } from "../shaders/prelude.ts";
import { TENSOR_THREADS } from "../shaders/tensor-scan.ts";
import type { Kernels } from "./kernels.ts";
import { thisMachine, vulkanFault } from "./vulkan-fault.ts";
import type { Gpu, GpuAdapter, GpuBuffer, GpuConnection, GpuLimits } from "../webgpu-api.ts";

/** The version of the package `webgpu` that this file is written for. */
const WEBGPU_VERSION = "0.6.2";

const ABSENT = `the package webgpu is not installed (npm install --no-save webgpu@${WEBGPU_VERSION} where winnow is, with -g if winnow was)`;
const UNLOADABLE =
  "the package webgpu does not load here; on Linux it needs glibc 2.34 or newer on x86-64 or arm64";

const FEATURES_USED = ["subgroups", "timestamp-query"];
/** Dawn's experiment, and the switch without which it is hidden. */
const MATRIX_UNITS = {
  feature: "chromium-experimental-subgroup-matrix",
  toggle: "allow_unsafe_apis",
};
const ANCHOR = Symbol.for("winnow.gpu");

interface GpuTraits {
  readonly name: string;
  readonly isTimed: boolean;
  readonly isSoftware: boolean;
  readonly hasMatrixUnits: boolean;
}

/** An opened GPU with its kernels. */
export class GpuDevice {
  /** The GPU in words. */
  readonly name: string;
  readonly connection: GpuConnection;
  readonly kernels: Kernels;
  /** Whether the device measures stages; may be turned off and on again. */
  isTimed: boolean;
  /** Whether the device is software. */
  readonly isSoftware: boolean;
  /** Whether the device offers matrix units, as Dawn's experiment. */
  readonly hasMatrixUnits: boolean;
  /** Resolves when the GPU is lost or has reported an error; not when it is closed. */
  readonly lost: Promise<WinnowError>;
  readonly #failed: Promise<never>;
  #failure: WinnowError | undefined;
  #fail: (error: WinnowError) => void = () => undefined;

  constructor(
    { name, isTimed, isSoftware, hasMatrixUnits }: GpuTraits,
    connection: GpuConnection,
    kernels: Kernels,
  ) {
    this.name = name;
    this.isTimed = isTimed;
    this.isSoftware = isSoftware;
    this.hasMatrixUnits = hasMatrixUnits;
    this.connection = connection;
    this.kernels = kernels;
    this.#failed = new Promise((_resolve, reject) => {
      this.#fail = reject;
    });
    this.#failed.catch(() => undefined);
    this.lost = new Promise((resolve) => {
      const lose = (what: string, detail: string): void => {
        if (this.#end(what, detail)) resolve(this.#failure!);
      };
      connection.onuncapturederror = ({ error }) => lose("reported an error", error.message);
      void connection.lost.then(({ message }) => lose("is lost", message));
    });
  }

  get limits(): GpuLimits {
    return this.connection.limits;
  }

  /** @throws WinnowError UNAVAILABLE once the GPU is lost, closed, or has reported an error */
  checkAlive(): void {
    if (this.#failure !== undefined) throw this.#failure;
  }

  /** The result of `work`. @throws WinnowError UNAVAILABLE as soon as the GPU is lost */
  async settled<T>(work: Promise<T>): Promise<T> {
    try {
      return await Promise.race([work, this.#failed]);
    } catch (cause) {
      // The event of a loss may arrive a little later than a rejection that the loss causes.
      await nextLoopTurn();
      this.checkAlive();
      throw new WinnowError("UNAVAILABLE", `The GPU ${this.name} gave work up`, { cause });
    }
  }

  /** A buffer of `size` bytes. @throws WinnowError RESOURCE_EXHAUSTED when the device has no room */
  async allocate(size: number, usage: number): Promise<GpuBuffer> {
    this.checkAlive();
    const { connection } = this;
    connection.pushErrorScope("out-of-memory");
    connection.pushErrorScope("validation");
    const buffer = connection.createBuffer({ size, usage });
    const scopes = Promise.all([connection.popErrorScope(), connection.popErrorScope()]);
    const fault = (await this.settled(scopes)).find((error) => error !== null);
    if (fault === undefined) return buffer;
    buffer.destroy();
    const message = `The GPU has no room for ${size} bytes more`;
    throw new WinnowError("RESOURCE_EXHAUSTED", message, { cause: new Error(fault.message) });
  }

  /** Closes the GPU; pending work rejects. */
  async close(): Promise<void> {
    this.#end("is closed", "");
    this.connection.destroy();
    await this.connection.lost;
  }

  /** Makes all work reject; false if it did so already. */
  #end(what: string, detail: string): boolean {
    if (this.#failure !== undefined) return false;
    this.#failure = new WinnowError("UNAVAILABLE", `The GPU ${this.name} ${what}`, {
      cause: new Error(detail),
    });
    this.#fail(this.#failure);
    return true;
  }
}

/**
 * Opens a GPU.
 * @throws WinnowError FAILED_PRECONDITION that says what is missing and how to get it
 */
export async function openGpuDevice(
  settings: GpuSettings,
  load: () => Promise<WebGpuModule> = importWebGpu,
): Promise<GpuDevice> {
  const gpu = await startWebGpu(settings, load);
  const adapter = await requestAdapter(gpu, settings.adapterName);
  checkAdapter(gpu, adapter, settings);
  const { limits, features } = adapter;
  const hasSubgroups = settings.usesSubgroups && features.has("subgroups");
  const hasMatrixUnits =
    settings.usesMatrixUnits &&
    hasSubgroups &&
    features.has(MATRIX_UNITS.feature) &&
    adapter.info.subgroupMinSize === TENSOR_THREADS &&
    adapter.info.subgroupMaxSize === TENSOR_THREADS;
  const isTimed = settings.isTimed && features.has("timestamp-query");
  const threads = Math.min(
    SELECT_THREADS_MAX,
    limits.maxComputeInvocationsPerWorkgroup,
    limits.maxComputeWorkgroupSizeX,
  );
  const { isFallbackAdapter } = adapter.info;
  const quadsAtOnce =
    settings.quadsAtOnce ?? (isFallbackAdapter ? QUADS_AT_ONCE.software : QUADS_AT_ONCE.hardware);
  const connection = await adapter.requestDevice({
    requiredFeatures: [
      ...FEATURES_USED,
      ...(hasMatrixUnits ? [MATRIX_UNITS.feature] : []),
      ...settings.furtherFeatures,
    ].filter((name) => features.has(name)),
    requiredLimits: {
      maxBufferSize: limits.maxBufferSize,
      maxStorageBufferBindingSize: limits.maxStorageBufferBindingSize,
      maxComputeInvocationsPerWorkgroup: threads,
      maxComputeWorkgroupSizeX: threads,
      maxComputeWorkgroupStorageSize: limits.maxComputeWorkgroupStorageSize,
    },
  });
  const { description, device, vendor } = adapter.info;
  const name = [device || vendor, description].filter((word) => word !== "").join(", ");
  return new GpuDevice(
    { name, isTimed, isSoftware: isFallbackAdapter, hasMatrixUnits },
    connection,
    await compileKernels(connection, { threads, hasSubgroups, quadsAtOnce }),
  );
}

/** The package `webgpu`. */
export interface WebGpuModule {
  create(flags: readonly string[]): Gpu;
}

/** Imports the package; its GPU objects, one per set of flags, live as long as this thread. */
export async function importWebGpu(): Promise<WebGpuModule> {
  // In a variable, so that the compiler does not look for the package, which may be absent.
  const name: string = "webgpu";
  const webGpu = (await import(name)) as WebGpuModule;
  const holder = globalThis as { [ANCHOR]?: Map<string, Gpu> };
  const started = (holder[ANCHOR] ??= new Map());
  return {
    create: (flags) => {
      const key = flags.join(" ");
      const gpu = started.get(key) ?? webGpu.create(flags);
      started.set(key, gpu);
      return gpu;
    },
  };
}

async function startWebGpu(settings: GpuSettings, load: () => Promise<WebGpuModule>): Promise<Gpu> {
  try {
    const webGpu = await load();
    return webGpu.create(dawnFlags(settings));
  } catch (cause) {
    const message = cause instanceof Error ? cause.message : String(cause);
    const isAbsent = /(cannot find|could not resolve).*webgpu/i.test(message);
    throw missing(isAbsent ? ABSENT : `${UNLOADABLE}: ${message.slice(0, 1024)}`, cause);
  }
}

function dawnFlags(settings: GpuSettings): string[] {
  const { adapterName, disabledToggles, isTimed, usesMatrixUnits } = settings;
  const enabled = [...(usesMatrixUnits ? [MATRIX_UNITS.toggle] : []), ...settings.enabledToggles];
  // By default Dawn rounds timestamps, as browsers must so that pages cannot spy by them.
  const disabled = isTimed ? ["timestamp_quantization", ...disabledToggles] : disabledToggles;
  const flags = adapterName === undefined ? [] : [`adapter=${adapterName}`];
  if (enabled.length > 0) flags.push(`enable-dawn-features=${enabled.join(",")}`);
  if (disabled.length > 0) flags.push(`disable-dawn-features=${disabled.join(",")}`);
  return flags;
}

/** The adapter. For a name that no GPU has, Dawn rejects with a list of the GPUs that exist. */
async function requestAdapter(gpu: Gpu, adapterName: string | undefined): Promise<GpuAdapter> {
  const request = gpu.requestAdapter({ powerPreference: "high-performance" });
  const adapter = await request.catch((cause: unknown) => {
    const present = cause instanceof Error ? cause.message : String(cause);
    const wanted = (adapterName ?? "").slice(0, 256);
    throw missing(`no GPU has "${wanted}" in its name: ${present.slice(0, 1024)}`, cause);
  });
  if (adapter !== null) return adapter;
  throw missing(vulkanFault(thisMachine(gpuVariables)));
}

function checkAdapter(gpu: Gpu, adapter: GpuAdapter, { allowSoftware }: GpuSettings): void {
  const { info } = adapter;
  if (info.isFallbackAdapter && !allowSoftware) {
    throw missing(
      `the only device is software (${info.description}): install the driver of a real GPU; WINNOW_GPU_ALLOW_SOFTWARE=1 takes it, for tests`,
    );
  }
  const lacking = adapterShortfalls(gpu, adapter);
  if (lacking.length > 0) {
    const name = info.device || info.description;
    throw missing(`the GPU ${name} lacks ${lacking.join(", ")}; a newer driver may have it`);
  }
}

function missing(what: string, cause?: unknown): WinnowError {
  return new WinnowError("FAILED_PRECONDITION", `Cannot open a GPU: ${what}`, { cause });
}
