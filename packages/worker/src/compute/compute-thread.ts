// Entry of the compute thread: makes the accelerator, says hello, and serves requests until told to
// stop. Runs for as long as its worker does.

import { parentPort, workerData } from "node:worker_threads";

import { createAccelerator } from "@winnow/accelerator";
import { systemClock, toWinnowError } from "@winnow/core";
import { openModelVersion } from "@winnow/model";

import { serveCompute } from "./compute-channel.ts";
import { ComputeHost } from "./compute-host.ts";
import type { ComputeHello, ComputeThreadData } from "./compute-thread-data.ts";
import { ProgressCounter } from "./progress-counter.ts";

async function run(data: ComputeThreadData): Promise<void> {
  const port = parentPort;
  if (port === null) throw new RangeError("this file runs in a thread");
  const greet = (hello: ComputeHello): void => port.postMessage(hello);
  try {
    const { kind: wantedKind, ...limits } = data.device;
    const { accelerator, fallbackReason } = await createAccelerator(wantedKind, limits);
    const host = new ComputeHost({
      accelerator,
      openModel: openModelVersion,
      progress: new ProgressCounter(data.progress),
      clock: systemClock,
      exclusionBytesMax: data.exclusionBytesMax,
    });
    serveCompute(port, host);
    const { kind, device } = accelerator;
    greet({ device: { accelerator: kind, device }, memory: host.memory, fallbackReason });
  } catch (error) {
    const { code, message } = toWinnowError(error);
    greet({ problem: { code, message } });
  }
}

await run(workerData as ComputeThreadData);
