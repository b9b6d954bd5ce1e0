// The end of a process whose GPU is lost. Dawn (webgpu 0.6.2) can abort it while the thread that used the
// device is torn down with work pending, so it ends without teardown where the native addon is there.

import { loadNativeAddon } from "./cpu/native-addon.ts";

/**
 * Ends the process with `code`, 0 to 255, running no exit handlers and ending no thread in order. What
 * was written to a pipe or file before is kept. Without the native addon it is `process.exit`.
 */
export function exitAtOnce(code: number): never {
  loadNativeAddon().addon?.exitAtOnce(code);
  process.exit(code);
}
