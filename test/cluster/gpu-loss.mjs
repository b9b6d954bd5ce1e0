// Loses the GPU of a worker on SIGUSR2, for tests: loaded into the process from outside, by
// NODE_OPTIONS=--import=<this file>, so that Winnow itself has no switch for it. Node gives the option
// to every thread: the first one passes the signal on, and the one that opened a GPU destroys it.

import process from "node:process";
import { BroadcastChannel, isMainThread, workerData } from "node:worker_threads";

const channel = new BroadcastChannel("test: lose the GPU");
channel.unref();

if (isMainThread) {
  // oxlint-disable-next-line unicorn/require-post-message-target-origin -- not a window
  process.on("SIGUSR2", () => channel.postMessage("now"));
} else if (workerData?.device?.kind === "gpu") {
  const { globals } = await import("webgpu");
  const { requestDevice } = globals.GPUAdapter.prototype;
  globals.GPUAdapter.prototype.requestDevice = async function opened(...options) {
    const device = await requestDevice.apply(this, options);
    channel.addEventListener("message", () => device.destroy());
    channel.unref();
    return device;
  };
}
