// Processes that share the ports on which they listen, by Node's `cluster`: connections come to this process, which
// gives each to the next process in turn that has taken the one before. One that stands still holds one connection up,
// and no other. (A socket on which all of them listen would give a burst of connections to the one that wakes first.)

import type { ChildProcess } from "node:child_process";
import nodeCluster from "node:cluster";

/** How such a process is started. */
export interface SharingProcess {
  readonly script: string;
  readonly args: readonly string[];
  readonly nodeFlags: readonly string[];
  readonly env: Readonly<Record<string, string | undefined>> | undefined;
}

/** What `cluster` writes to a process, and what it expects back (Node's `lib/internal/cluster/utils.js`). */
interface InternalMessage {
  readonly act?: string;
  readonly seq?: number;
  readonly ack?: number;
}

/** Starts a process. */
export function startSharing({ script, args, nodeFlags, env }: SharingProcess): ChildProcess {
  nodeCluster.schedulingPolicy = nodeCluster.SCHED_RR;
  nodeCluster.setupPrimary({
    exec: script,
    args: [...args],
    execArgv: [...nodeFlags],
    stdio: ["ignore", "inherit", "inherit", "ipc"],
  });
  const child = nodeCluster.fork(env).process;
  passOnAtEnd(child);
  return child;
}

/**
 * `cluster` forgets the connection that it was giving to a process which ends, so that its client would wait for ever.
 * In the name of the process it is refused here, and goes to another; without another it is closed.
 */
function passOnAtEnd(child: ChildProcess): void {
  const given = new Set<number>();
  const send = child.send.bind(child) as (...parts: readonly unknown[]) => boolean;
  child.send = (message: InternalMessage, ...rest: readonly unknown[]) => {
    if (message.act === "newconn" && message.seq !== undefined) given.add(message.seq);
    return send(message, ...rest);
  };
  child.on("internalMessage", ({ ack }: InternalMessage) => {
    if (ack !== undefined) given.delete(ack);
  });
  const passOn = (): void => {
    // Else it is called again once all that the process wrote has been read.
    if (child.connected) return;
    const others = Object.values(nodeCluster.workers ?? {}).filter(
      (worker) => worker?.isConnected() === true && worker.process !== child,
    );
    for (const ack of given) {
      child.emit("internalMessage", { cmd: "NODE_CLUSTER", ack, accepted: others.length === 0 });
    }
  };
  child.on("exit", passOn);
  child.on("disconnect", passOn);
}
