// Child processes end with the process that started them, however that ends, kill -9 aside: a campaign
// that is broken off must not leave a cluster behind.

import type { ChildProcess } from "node:child_process";

const running = new Set<ChildProcess>();
let isWatching = false;

/** Has a child killed when this process ends, by itself or by a signal. */
export function endWithThisProcess(child: ChildProcess): ChildProcess {
  running.add(child);
  child.once("exit", () => running.delete(child));
  if (isWatching) return child;
  isWatching = true;
  process.once("exit", () => {
    for (const each of running) each.kill("SIGKILL");
  });
  for (const signal of ["SIGINT", "SIGTERM", "SIGHUP"] as const) {
    process.once(signal, () => process.exit(1));
  }
  return child;
}
