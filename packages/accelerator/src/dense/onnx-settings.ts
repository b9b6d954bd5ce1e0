// What ONNX Runtime reads from the environment of its process. Its packages for Linux send statistics of
// use to Microsoft unless told not to: they keep an identifier of the machine and a growing database below
// `~/.cache`, leave an empty log in the temporary folder for each process, and try to send over the network.

import process from "node:process";

/** Has ONNX Runtime send and keep no statistics in this process. Call it before the first session is made. */
export function forbidStatistics(): void {
  process.env["ORT_DISABLE_TELEMETRY"] = "1";
}
