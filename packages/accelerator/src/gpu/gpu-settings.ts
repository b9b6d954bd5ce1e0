// Settings of the GPU accelerator. Two of them may come from the environment: whether a software
// device is accepted (tests), and which GPU to take where there are several.

import type { AcceleratorOptions } from "../accelerator-options.ts";
import type { StageNs } from "./stage-timer.ts";

/** Options of the GPU accelerator beyond those of every accelerator. */
export interface GpuOptions {
  /** Whether a device in software is accepted. Default: no; it is for tests. */
  readonly allowSoftware?: boolean | undefined;
  /** Takes the first GPU whose name contains this text. Default: the first GPU. */
  readonly adapterName?: string | undefined;
  /** Bytes of one buffer of rows at most; default 4 GiB. Smaller ones cost more dispatches. */
  readonly slabBytesMax?: number | undefined;
  /**
   * Bytes of the capacity that are set aside for searches, at most; default 1 GiB. An eighth of the
   * capacity if that is less. Fewer bytes mean fewer queries per pass.
   */
  readonly scratchBytesMax?: number | undefined;
  /** Bytes in flight to the device while rows are loaded, at most; default 64 MiB. */
  readonly uploadBytesMax?: number | undefined;
  /** Batches on the device at once; default 2: one computes while another is prepared or read. */
  readonly lanes?: number | undefined;
  /** Multiplications per step of the exact path; default 2^24. Smaller steps can be aborted sooner. */
  readonly exactStepProducts?: number | undefined;
  /** Whether closing the accelerator closes the GPU; default: the GPU stays open. */
  readonly ownsDevice?: boolean | undefined;
  /** Whether subgroup operations are used where the device has them; default: yes. For tests. */
  readonly usesSubgroups?: boolean | undefined;
  /**
   * Whether batches are scanned on matrix units, an experiment of Dawn's, where the device has them and
   * agrees with the ordinary scan; default: yes.
   */
  readonly usesMatrixUnits?: boolean | undefined;
  /**
   * Quads of codes that a thread of the scan has under way at once; default: 4, and 1 on a device in software, for which
   * the scan is compiled in a quarter of the processor time then. For tests.
   */
  readonly quadsAtOnce?: number | undefined;
  /** Whether the device measures each stage, where it can; default: no. For measurements. */
  readonly isTimed?: boolean | undefined;
  /** Switches of Dawn to turn on, and off; default: none. For measurements. */
  readonly enabledToggles?: readonly string[] | undefined;
  readonly disabledToggles?: readonly string[] | undefined;
  /** Features to ask for where the device has them, beyond those the kernels use. For measurements. */
  readonly furtherFeatures?: readonly string[] | undefined;
  /** Called with how each search was answered; for tests. */
  readonly onSearch?: ((cost: GpuSearchCost) => void) | undefined;
}

/** How the queries of one search were answered. */
export interface GpuSearchCost {
  readonly queries: number;
  /** Queries answered by bounds and the scores of a few rows. */
  readonly filteredQueries: number;
  /** Queries for which the device scored every row canonically. */
  readonly exactQueries: number;
  /** Queries with values that are not finite, answered on the host. */
  readonly hostQueries: number;
  /** Groups kept and rows scored, over all filtered queries. */
  readonly keptGroups: number;
  readonly scoredRows: number;
  /** Queries that were scanned on matrix units. */
  readonly matrixQueries: number;
  /** Dispatches of the fast path, and bytes that the host read back. */
  readonly dispatches: number;
  readonly readBytes: number;
  /** Nanoseconds on the device by stage of the fast path; absent if not timed. */
  readonly stageNs?: Readonly<StageNs> | undefined;
}

/** `GpuOptions` with every default filled in. */
export interface GpuSettings {
  readonly allowSoftware: boolean;
  readonly adapterName: string | undefined;
  readonly slabBytesMax: number;
  readonly scratchBytesMax: number;
  readonly uploadBytesMax: number;
  readonly lanes: number;
  readonly exactStepProducts: number;
  readonly ownsDevice: boolean;
  readonly usesSubgroups: boolean;
  readonly usesMatrixUnits: boolean;
  readonly quadsAtOnce: number | undefined;
  readonly isTimed: boolean;
  readonly enabledToggles: readonly string[];
  readonly disabledToggles: readonly string[];
  readonly furtherFeatures: readonly string[];
  readonly onSearch: ((cost: GpuSearchCost) => void) | undefined;
}

/** All options of `createGpuAccelerator`. */
export interface GpuAcceleratorOptions extends AcceleratorOptions, GpuOptions {}

const COUNTS = [
  "slabBytesMax",
  "scratchBytesMax",
  "uploadBytesMax",
  "lanes",
  "exactStepProducts",
] as const;

const DEFAULTS: GpuSettings = {
  allowSoftware: false,
  adapterName: undefined,
  slabBytesMax: 2 ** 32,
  scratchBytesMax: 2 ** 30,
  uploadBytesMax: 2 ** 26,
  lanes: 2,
  exactStepProducts: 2 ** 24,
  ownsDevice: false,
  usesSubgroups: true,
  usesMatrixUnits: true,
  quadsAtOnce: undefined,
  isTimed: false,
  enabledToggles: [],
  disabledToggles: [],
  furtherFeatures: [],
  onSearch: undefined,
};

/** Fills in the defaults. @throws RangeError for a number that is not an integer from 1 */
export function resolveGpuOptions(options: GpuOptions): GpuSettings {
  const given = Object.entries(options).filter(([, value]) => value !== undefined);
  const settings: GpuSettings = { ...DEFAULTS, ...Object.fromEntries(given) };
  for (const name of COUNTS) {
    const value = settings[name];
    if (!(Number.isInteger(value) && value >= 1)) {
      throw new RangeError(`${name} is ${value}; it must be an integer from 1`);
    }
  }
  return settings;
}

/** The environment of this process, which also configures Vulkan's loader. */
export const gpuVariables: Readonly<Record<string, string | undefined>> = process.env;

/** `WINNOW_GPU_ALLOW_SOFTWARE=1` and `WINNOW_GPU_ADAPTER=<part of a name>`. */
export function gpuOptionsFromEnvironment(
  environment: Readonly<Record<string, string | undefined>> = process.env,
): Pick<GpuOptions, "allowSoftware" | "adapterName"> {
  const name = environment["WINNOW_GPU_ADAPTER"];
  return {
    allowSoftware: environment["WINNOW_GPU_ALLOW_SOFTWARE"] === "1",
    adapterName: name === "" ? undefined : name,
  };
}
