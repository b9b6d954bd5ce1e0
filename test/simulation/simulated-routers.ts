// The routers of a simulated cluster: real routers on simulated processes.

import { createRouter } from "@winnow/router";
import type { Router } from "@winnow/router";
import type { MembershipStore, OrderBook } from "@winnow/cluster";
import { SimulatedProcess } from "./simulated-process.ts";
import { LABEL, MODEL } from "./simulated-models.ts";
import type { SimulatedWorld } from "./simulated-world.ts";
import { seededRandom } from "./virtual-time.ts";

const RESTART_MS = 300;

/** A place for a router and who is there now. */
export class RouterPlace {
  readonly name: string;
  process: SimulatedProcess | undefined;
  router: Router | undefined;
  isDraining = false;
  readonly #world: SimulatedWorld;
  #membership: MembershipStore | undefined;
  #orders: OrderBook | undefined;
  #lives = 0;

  constructor(world: SimulatedWorld, name: string) {
    this.#world = world;
    this.name = name;
  }

  get isUp(): boolean {
    return this.process !== undefined && this.process.state !== "dead";
  }

  /** Whether a balancer sends requests here. */
  get takesRequests(): boolean {
    return this.isUp && !this.isDraining && this.router?.ready === true;
  }

  start(): void {
    if (this.isUp) return;
    this.#lives += 1;
    const world = this.#world;
    const { scenario } = world;
    const title = `${this.name}#${this.#lives}`;
    const process = new SimulatedProcess(title, world, seededRandom(scenario.seed, title));
    this.process = process;
    this.isDraining = false;
    this.#membership = world.membershipOf(process, this.name);
    this.#orders = world.orders.bookOf(process, this.name, this.#membership);
    this.router = createRouter(
      {
        routerId: this.name,
        replication: scenario.replication,
        swapReplicas: scenario.swapReplicas,
        hedge: scenario.hedge,
        ...(world.label === undefined
          ? {}
          : { labels: new Map([[MODEL, new Map([[LABEL, world.label]])]]) }),
        ...(scenario.inlineTables ? {} : { routerTableBytesMax: 0 }),
      },
      {
        environment: process.environment,
        connector: world.network.connectorOf(process, this.name),
        membership: this.#membership,
        orders: this.#orders,
        denseEngine: {
          load: () => Promise.reject(new Error("this model has no dense part")),
          close: () => Promise.resolve(),
        },
        defer: process.soon,
      },
    );
  }

  crash(): void {
    const { process } = this;
    if (process === undefined || process.state === "dead") return;
    this.router = undefined;
    this.#world.bury(process, false);
  }

  /** As on SIGTERM, and then a new one. */
  restart(): void {
    const { router, process } = this;
    if (router === undefined || process?.state !== "running" || this.isDraining) return;
    this.isDraining = true;
    void this.#leave(router, process);
  }

  async #leave(router: Router, process: SimulatedProcess): Promise<void> {
    await router.drain();
    if (process.state === "dead") return;
    this.close();
    this.#world.time.after(RESTART_MS, () => {
      if (process.state === "dead") return;
      this.end();
      this.start();
    });
  }

  close(): void {
    this.router?.close();
    this.#orders?.close();
    void this.#membership?.close();
    if (this.process !== undefined) {
      this.#world.network.connectorOf(this.process, this.name).close();
    }
  }

  /** A closed router leaves nothing behind. */
  end(): void {
    const { process, router } = this;
    if (process === undefined || router === undefined || process.state === "dead") return;
    const { pins, requests, questions } = router.counters;
    if (process.pendingTimers + pins + requests + questions > 0) {
      const left = JSON.stringify({ timers: process.pendingTimers, pins, requests, questions });
      this.#world.violate("R5", `${process.name} ended with ${left}`);
    }
    this.crash();
  }
}
