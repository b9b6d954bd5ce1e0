// Starts the compute side: in a thread of its own, as a worker runs it. An uncaught error or an exit of the
// thread fails every request that waits for an answer; a supervisor restarts the process.

import { Worker } from "node:worker_threads";

import { openInlineSearch } from "@winnow/accelerator";
import { WinnowError, entryBeside, systemClock } from "@winnow/core";
import type { Logger } from "@winnow/core";

import { ComputeClient } from "./compute-client.ts";
import type {
  ComputeHello,
  ComputeThreadData,
  DeviceSettings,
  ReaderSettings,
} from "./compute-thread-data.ts";
import type { Compute } from "./compute.ts";
import { ProgressCounter } from "./progress-counter.ts";

/** Options of the compute side. */
export interface ComputeSettings {
  readonly device: DeviceSettings;
  readonly reader: ReaderSettings;
  readonly exclusionBytesMax: number;
  readonly filterBytesMax: number;
  /** Rows × dim × queries up to which the event loop runs a scan itself, for each thread that shares the scan. */
  readonly inlineScanValuesMax: number;
}

/** Starts a compute side. @throws WinnowError when no device can be had */
export type StartCompute = (settings: ComputeSettings, log: Logger) => Promise<Compute>;

const ENTRY = entryBeside(import.meta.url, "compute-thread");

/** Starts the compute side in a thread of its own. */
export async function startComputeThread(settings: ComputeSettings, log: Logger): Promise<Compute> {
  const progress = new ProgressCounter();
  const { device, reader, exclusionBytesMax, filterBytesMax } = settings;
  const workerData: ComputeThreadData = {
    device,
    reader,
    exclusionBytesMax,
    filterBytesMax,
    progress: progress.shared,
  };
  // No inherited flags: the condition that makes tests resolve packages to their sources must not reach the
  // thread.
  const thread = new Worker(ENTRY, { workerData, name: "winnow-compute", execArgv: [] });
  const hello = await firstMessage(thread);
  if ("problem" in hello) {
    await thread.terminate();
    throw new WinnowError(hello.problem.code, hello.problem.message);
  }
  if (hello.fallbackReason !== undefined) {
    const { accelerator } = hello.device;
    log.warn("accelerator not available", { accelerator, reason: hello.fallbackReason });
  }
  const client = new ComputeClient({
    port: thread,
    progress,
    clock: systemClock,
    inline: {
      valuesMax: settings.inlineScanValuesMax,
      openSearch: () => openInlineSearch(device.threads),
    },
    ...hello,
    end: async () => {
      await thread.terminate();
    },
  });
  thread.on("error", (error) => client.fail(error));
  thread.on("exit", (code) => client.fail(new Error(`exit code ${code}`)));
  return client;
}

function firstMessage(thread: Worker): Promise<ComputeHello> {
  return new Promise((resolve, reject) => {
    thread.once("message", resolve);
    thread.once("error", reject);
    thread.once("exit", (code) => {
      reject(new WinnowError("UNAVAILABLE", `The compute thread ended with exit code ${code}`));
    });
  });
}
