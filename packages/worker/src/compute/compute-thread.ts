// Entry of the compute thread: makes the accelerator, says hello, and serves requests until told to stop. Starts
// the reader thread when it is needed. Runs for as long as its worker does.

import { Worker, parentPort, workerData } from "node:worker_threads";

import { createAccelerator } from "@winnow/accelerator";
import { entryBeside, systemClock, toWinnowError } from "@winnow/core";

import { serveCompute } from "./compute-channel.ts";
import { ComputeHost } from "./compute-host.ts";
import type { ComputeHello, ComputeThreadData, ReaderSettings } from "./compute-thread-data.ts";
import { ProgressCounter } from "./progress-counter.ts";
import { keptFolder } from "./reader/kept-shapes.ts";
import { RemoteModelReader } from "./reader/reader-channel.ts";
import { StartReader } from "./reader/start-reader.ts";
import { freeUnheldArrays } from "./unheld-arrays.ts";

async function run(data: ComputeThreadData): Promise<void> {
  const port = parentPort;
  if (port === null) throw new RangeError("this file runs in a thread");
  const greet = (hello: ComputeHello): void => port.postMessage(hello);
  try {
    const { kind: wantedKind, ...limits } = data.device;
    const { accelerator, fallbackReason } = await createAccelerator(wantedKind, limits);
    const host = new ComputeHost({
      accelerator,
      reader: new StartReader({
        // Its code is loaded only where this thread reads.
        readHere: async () => {
          const { directoryReader } = await import("./reader/directory-reader.ts");
          return directoryReader(data.reader, keptFolder());
        },
        startThread: () => startReader(data.reader),
      }),
      progress: new ProgressCounter(data.progress),
      clock: systemClock,
      exclusionBytesMax: data.exclusionBytesMax,
      filterBytesMax: data.filterBytesMax,
      onClosed: freeUnheldArrays,
    });
    serveCompute(port, host);
    const { kind, device } = accelerator;
    greet({ device: { accelerator: kind, device }, memory: host.memory, fallbackReason });
  } catch (error) {
    const { code, message } = toWinnowError(error);
    greet({ problem: { code, message } });
  }
}

/**
 * Starts the reader thread. If the reader thread dies, this thread ends too, because the worker cannot load
 * any more.
 */
function startReader(settings: ReaderSettings): RemoteModelReader {
  const thread = new Worker(entryBeside(import.meta.url, "reader-thread"), {
    name: "winnow-reader",
    workerData: settings,
    execArgv: [],
  });
  let isEnding = false;
  thread.on("error", (error) => {
    throw error;
  });
  thread.on("exit", (code) => {
    if (!isEnding) throw new Error(`The reader thread ended with exit code ${code}`);
  });
  return new RemoteModelReader(thread, async () => {
    isEnding = true;
    await thread.terminate();
  });
}

void run(workerData as ComputeThreadData);
