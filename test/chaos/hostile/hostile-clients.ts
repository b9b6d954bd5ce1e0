// The harness's side of hostile clients: a process that attacks until it is told to stop.

import { type ChaosCluster, ROUTERS } from "../chaos-cluster.ts";
import { ChildScript } from "../processes/child-script.ts";

/** Messages to the attackers' process. */
export type HostileOrder =
  | { readonly type: "attack"; readonly attack: string; readonly targets: HostileTargets }
  | { readonly type: "stop" };

/** Messages from it. */
export type HostileReport =
  | { readonly type: "ready" }
  | { readonly type: "started" }
  | { readonly type: "stopped"; readonly seen: string };

/** Ports that are attacked. */
export interface HostileTargets {
  readonly routers: readonly { readonly rest: number; readonly grpc: number }[];
  readonly workers: readonly { readonly grpc: number; readonly metrics: number }[];
  readonly redis: number;
}

const ANSWERED_WITHIN_MS = 60_000;

/** An attack under way. */
export class HostileClients {
  readonly #child: ChildScript<HostileOrder, HostileReport>;

  private constructor(child: ChildScript<HostileOrder, HostileReport>) {
    this.#child = child;
  }

  /** Starts one. */
  static async start(
    cluster: ChaosCluster,
    { attack }: { readonly attack: string },
  ): Promise<HostileClients> {
    const child = new ChildScript<HostileOrder, HostileReport>("hostile/hostile-process.ts");
    await child.next("ready", ANSWERED_WITHIN_MS);
    const started = child.next("started", ANSWERED_WITHIN_MS);
    const targets: HostileTargets = {
      routers: ROUTERS.map((router) => cluster.ports(router)),
      workers: cluster.workers.map((worker) => cluster.ports(worker)),
      redis: cluster.redisPort,
    };
    child.send({ type: "attack", attack, targets });
    await started;
    return new HostileClients(child);
  }

  /** Ends it, and gives the attackers' counts. */
  async stop(): Promise<string> {
    const stopped = this.#child.next("stopped", ANSWERED_WITHIN_MS);
    this.#child.send({ type: "stop" });
    const { seen } = await stopped;
    this.#child.kill();
    await this.#child.ended();
    return seen;
  }
}
