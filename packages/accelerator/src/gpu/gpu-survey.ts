// Which GPUs WebGPU shows, what they offer, and whether the accelerator runs on its choice: that
// GPU is opened, and a small search on it is compared with the reference, bit for bit.

import { WinnowError } from "@winnow/core";
import { createReferenceAccelerator } from "../reference/accelerator.ts";
import type { Accelerator } from "../accelerator.ts";
import { createGpuAccelerator } from "./accelerator.ts";
import { importWebGpu, openGpuDevice } from "./device/device.ts";
import { resolveGpuOptions } from "./gpu-settings.ts";
import type { GpuOptions } from "./gpu-settings.ts";
import type { GpuAdapter } from "./webgpu-api.ts";

/** A GPU as WebGPU describes it. */
export interface SurveyedGpu {
  readonly name: string;
  readonly vendor: string;
  readonly architecture: string;
  /** The driver, in its own words. */
  readonly driver: string;
  readonly isSoftware: boolean;
  readonly features: readonly string[];
  readonly limits: Readonly<Record<string, number>>;
}

/** All GPUs, and whether Winnow runs on one. */
export interface GpuSurvey {
  readonly gpus: readonly SurveyedGpu[];
  /** Name of the GPU that was opened and whose answer was right. */
  readonly opened: string | undefined;
  /** Why there is no such GPU: what is missing and how to get it. */
  readonly fault: string | undefined;
}

/** Looks for GPUs. Never rejects. A driver's threads may remain: the caller ends the process. */
export async function surveyGpus(options: GpuOptions): Promise<GpuSurvey> {
  const gpus = await listGpus().catch(() => []);
  try {
    const device = await openGpuDevice(resolveGpuOptions(options));
    const settings = { ...options, capacityBytes: 2 ** 26, ownsDevice: true };
    const accelerator = createGpuAccelerator(device, settings);
    const isRight = await answersRightly(accelerator);
    await accelerator.close();
    if (isRight) return { gpus, opened: device.name, fault: undefined };
    const fault = `The GPU ${device.name} answers wrongly: do not use it with this driver`;
    return { gpus, opened: undefined, fault };
  } catch (error) {
    const fault = error instanceof WinnowError ? error.message : String(error);
    return { gpus, opened: undefined, fault };
  }
}

/** A name that no GPU has, so that WebGPU rejects with a list of the GPUs that exist. */
const NO_NAME = "no GPU has this name";

/**
 * Lists GPUs without opening one: for the benchmark, which opens its own and compares its answers itself.
 *
 * @internal
 */
export async function listGpus(): Promise<SurveyedGpu[]> {
  const webGpu = await importWebGpu();
  const listed = await webGpu
    .create([`adapter=${NO_NAME}`])
    .requestAdapter()
    .then(
      () => "",
      (error: unknown) => String(error),
    );
  const names = Array.from(listed.matchAll(/name: '([^'\n]+)'/g), (match) => match[1] ?? "");
  const adapters: SurveyedGpu[] = [];
  for (const name of names) {
    const adapter = await webGpu.create([`adapter=${name}`]).requestAdapter();
    if (adapter !== null) adapters.push(described(name, adapter));
  }
  return adapters;
}

function described(name: string, { info, features, limits }: GpuAdapter): SurveyedGpu {
  const named: Record<string, number> = {};
  // The limits are getters on the prototype, so there are no own keys.
  // oxlint-disable-next-line guard-for-in
  for (const limit in limits) named[limit] = limits[limit as keyof typeof limits];
  return {
    name,
    vendor: info.vendor,
    architecture: info.architecture,
    driver: info.description,
    isSoftware: info.isFallbackAdapter,
    features: [...features].toSorted(),
    limits: named,
  };
}

const SHAPE = { rows: 3000, dim: 24, firstRow: 0, use: "search" } as const;

async function answersRightly(accelerator: Accelerator): Promise<boolean> {
  const reference = createReferenceAccelerator({ capacityBytes: 2 ** 26 });
  const values = Float32Array.from({ length: SHAPE.rows * SHAPE.dim }, (_, at) =>
    Math.sin(at * at),
  );
  const vectors = Float32Array.from({ length: 3 * SHAPE.dim }, (_, at) => Math.cos(7 * at * at));
  const search = async (on: Accelerator): Promise<string> => {
    const resident = await on.load(SHAPE, [values.slice()]);
    const { rows, scores } = await on.topK({ residents: [resident], vectors, k: 20 });
    return `${rows.join()} ${new Uint32Array(scores.slice().buffer).join()}`;
  };
  return (await search(accelerator)) === (await search(reference));
}
