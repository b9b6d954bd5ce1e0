// Which kernels of the scan this machine's processor can run, to explain the speed of the scan.

import { cpus } from "node:os";
import process from "node:process";
import { type AddonOrigin, loadNativeAddon } from "./native-addon.ts";

/** Kernels of the scan by architecture, best first; native/kernels/kernel.h lists the same. */
const KERNELS: Readonly<Record<string, readonly string[]>> = {
  x64: ["amx", "avx512-vnni", "avx2"],
  arm64: ["neon-i8mm", "neon-dotprod"],
};

/** A processor, and the kernel of the scan that is chosen for it. */
export interface CpuSurvey {
  readonly model: string;
  /** The kernel used by default; `undefined` without the native scan. */
  readonly kernel: string | undefined;
  /** Faster kernels that this processor cannot run, best first. */
  readonly unavailable: readonly string[];
  /** Where the native scan came from, if there is one. */
  readonly origin: AddonOrigin | undefined;
  /** Why there is no native scan. */
  readonly fault: string | undefined;
}

/** Surveys this machine's processor. */
export function surveyCpu(): CpuSurvey {
  const model = cpus()[0]?.model.trim() ?? "unknown processor";
  const { addon, origin, reason } = loadNativeAddon();
  if (addon === undefined) {
    return { model, kernel: undefined, unavailable: [], origin, fault: reason };
  }
  const kernelOf = (wanted: string | undefined): string => {
    const { handle, kernel } = addon.createDevice(1, wanted);
    addon.releaseDevice(handle);
    return kernel;
  };
  const kernel = kernelOf(undefined);
  const unavailable = kernelsAbove(kernel, process.arch);
  return { model, kernel, unavailable, origin, fault: undefined };
}

/**
 * The kernels for an architecture that are faster than one of them, best first.
 * @internal
 */
export function kernelsAbove(kernel: string, architecture: string): readonly string[] {
  const kernels = KERNELS[architecture] ?? [];
  const at = kernels.indexOf(kernel);
  return at < 0 ? kernels : kernels.slice(0, at);
}
