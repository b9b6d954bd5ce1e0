// Workers on cables of their own: each in a network namespace, joined by a pair of virtual interfaces
// to a bridge of this machine. What a user-space proxy cannot do is done here: packets vanish in one
// direction or both, nothing is acknowledged, no end of a connection arrives. Needs the right to
// administer the network (CAP_NET_ADMIN and mounts, that is, root).

import { execFileSync } from "node:child_process";

/** Which packets of a cable are lost. */
export type CableCut = "both" | "to worker" | "from worker";

interface Cable {
  readonly namespace: string;
  /** The interface on this side; the one inside is `eth0`. */
  readonly outside: string;
  readonly address: string;
}

/** A queue without room: every packet is dropped silently. */
const DROP_ALL = ["pfifo", "limit", "0"];

const ip = (...args: readonly string[]): void => {
  execFileSync("ip", args, { stdio: ["ignore", "ignore", "pipe"] });
};

let knownAbsence: string | undefined;

/** Why there can be no namespaces here; empty where there can. */
export function namespacesAbsence(): string {
  knownAbsence ??= lookForNamespaces();
  return knownAbsence;
}

function lookForNamespaces(): string {
  const name = `chaos-probe-${process.pid}`;
  try {
    ip("netns", "add", name);
    ip("netns", "del", name);
    execFileSync("tc", ["-V"], { stdio: "ignore" });
    return "";
  } catch (error) {
    return `network namespaces are not permitted here (${String(error).split("\n")[0]})`;
  }
}

const bridge = `chb${process.pid % 1_000_000}`;

/** Namespaces of some workers. */
export class NetworkNamespaces {
  readonly #cables: ReadonlyMap<string, Cable>;

  private constructor(cables: ReadonlyMap<string, Cable>) {
    this.#cables = cables;
  }

  /** Makes one for each worker, with an address of its own that this machine reaches. */
  static create(workers: readonly string[]): NetworkNamespaces {
    const cables = new Map<string, Cable>();
    const made = new NetworkNamespaces(cables);
    try {
      ip("link", "add", bridge, "type", "bridge");
      ip("addr", "add", `${addressBlock}.1/24`, "dev", bridge);
      ip("link", "set", bridge, "up");
      for (const [index, worker] of workers.entries()) {
        const cable = cableOf(index);
        cables.set(worker, cable);
        lay(cable);
      }
    } catch (error) {
      made.remove();
      throw error;
    }
    return made;
  }

  /** The address at which a process listens; `undefined` for one outside. */
  addressOf(name: string): string | undefined {
    return this.#cables.get(name)?.address;
  }

  /** The words before a command that should run inside. */
  commandIn(name: string): string[] {
    const cable = this.#cables.get(name);
    return cable === undefined ? [] : ["ip", "netns", "exec", cable.namespace];
  }

  /** Loses packets of one cable; heals it without a cut. */
  cut(worker: string, cut?: CableCut): void {
    const { namespace, outside } = this.#cables.get(worker)!;
    setQueue(["tc"], outside, cut === "both" || cut === "to worker" ? DROP_ALL : undefined);
    const inside = ["ip", "netns", "exec", namespace, "tc"];
    setQueue(inside, "eth0", cut === "both" || cut === "from worker" ? DROP_ALL : undefined);
  }

  /** Bounds what a cable carries towards this machine; without a rate the bound goes. */
  limit(worker: string, bytesPerSecond?: number): void {
    const { namespace } = this.#cables.get(worker)!;
    const rate = `${8 * (bytesPerSecond ?? 0)}bit`;
    const queue = ["tbf", "rate", rate, "burst", "32k", "latency", "400ms"];
    const inside = ["ip", "netns", "exec", namespace, "tc"];
    setQueue(inside, "eth0", bytesPerSecond === undefined ? undefined : queue);
  }

  /** Takes all cables and namespaces away. */
  remove(): void {
    const all = [...this.#cables.values()].map(({ namespace }) => ["netns", "del", namespace]);
    for (const command of [...all, ["link", "del", bridge]]) {
      try {
        ip(...command);
      } catch {
        // It was never made.
      }
    }
  }
}

/** Differs between runs that share a machine. */
const addressBlock = `10.${200 + (process.pid & 31)}.${(process.pid >> 5) & 255}`;

const cableOf = (index: number): Cable => ({
  namespace: `chaos-${process.pid}-${index}`,
  outside: `chv${process.pid % 1_000_000}.${index}`,
  address: `${addressBlock}.${index + 2}`,
});

function lay({ namespace, outside, address }: Cable): void {
  ip("netns", "add", namespace);
  ip("link", "add", outside, "type", "veth", "peer", "name", "eth0", "netns", namespace);
  ip("link", "set", outside, "master", bridge);
  ip("link", "set", outside, "up");
  ip("-n", namespace, "addr", "add", `${address}/24`, "dev", "eth0");
  ip("-n", namespace, "link", "set", "eth0", "up");
  ip("-n", namespace, "link", "set", "lo", "up");
}

function setQueue(tc: readonly string[], device: string, queue?: readonly string[]): void {
  const [command, ...before] = tc as [string, ...string[]];
  const args =
    queue === undefined
      ? ["del", "dev", device, "root"]
      : ["replace", "dev", device, "root", ...queue];
  try {
    execFileSync(command, [...before, "qdisc", ...args], { stdio: ["ignore", "ignore", "pipe"] });
  } catch (error) {
    // A queue that was never set cannot be deleted, which is fine.
    if (queue !== undefined) throw error;
  }
}
