// Processes that share the ports on which they listen, by Node's `cluster`: all of them listen on one socket, and whoever
// is free takes the next connection. What nobody has taken waits in the kernel's queue, whose length is limited. (`cluster`
// can also accept in this process and hand connections out by turns, one in each turn of a process' event loop: a flood of
// connections then waits here without a limit.)

import type { ChildProcess } from "node:child_process";
import nodeCluster from "node:cluster";

/** How such a process is started. */
export interface SharingProcess {
  readonly script: string;
  readonly args: readonly string[];
  readonly nodeFlags: readonly string[];
  readonly env: Readonly<Record<string, string | undefined>> | undefined;
}

/** Starts a process. */
export function startSharing({ script, args, nodeFlags, env }: SharingProcess): ChildProcess {
  nodeCluster.schedulingPolicy = nodeCluster.SCHED_NONE;
  nodeCluster.setupPrimary({
    exec: script,
    args: [...args],
    execArgv: [...nodeFlags],
    stdio: ["ignore", "inherit", "inherit", "ipc"],
  });
  return nodeCluster.fork(env).process;
}
