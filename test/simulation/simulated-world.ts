// A simulated world: time, network, store, disk, workers and routers of one scenario, and the violations that
// were found.

import { RedisMembership, StaticMembership } from "@winnow/cluster";
import type { Describe, MembershipStore } from "@winnow/cluster";
import { workerId } from "@winnow/core";
import type { Scenario } from "./scenario.ts";
import { SimulatedDisk } from "./simulated-disk.ts";
import { LABEL, MODEL } from "./simulated-models.ts";
import { SimulatedNetwork } from "./simulated-network.ts";
import { SimulatedOrders } from "./simulated-orders.ts";
import type { ClockUnkindness, ProcessWorld, SimulatedProcess } from "./simulated-process.ts";
import { SimulatedRedis } from "./simulated-redis.ts";
import { RouterPlace } from "./simulated-routers.ts";
import { WorkerPlace } from "./simulated-workers.ts";
import { VirtualTime, seededRandom } from "./virtual-time.ts";

/** A violation: something that must never be, or a state that is not as it must be. */
export interface Violation {
  readonly invariant: string;
  readonly atMs: number;
  readonly what: string;
}

/** A line of a process's log, or of the world's. */
export interface NotedLine {
  readonly atMs: number;
  readonly process: string;
  readonly event: string;
  readonly fields: unknown;
}

const VIOLATIONS_MAX = 20;

/** Everything there is. */
export class SimulatedWorld implements ProcessWorld {
  readonly scenario: Scenario;
  readonly time: VirtualTime;
  readonly unkindness: ClockUnkindness;
  readonly network: SimulatedNetwork;
  readonly redis: SimulatedRedis;
  readonly disk: SimulatedDisk;
  readonly orders: SimulatedOrders;
  readonly workers: WorkerPlace[];
  readonly routers: RouterPlace[];
  readonly violations: Violation[] = [];
  /** The version of the label; `undefined`: there is none yet. */
  label: number | undefined;
  /** All that it has meant. */
  readonly labelled = new Set<number>();
  /** Told every line, with its time. */
  onNote: ((line: NotedLine) => void) | undefined;
  #trace = 0x811c9dc5;

  constructor(scenario: Scenario) {
    const { seed } = scenario;
    this.scenario = scenario;
    this.unkindness = scenario.clock;
    this.time = new VirtualTime(seededRandom(seed, "order"));
    this.network = new SimulatedNetwork(
      this.time,
      seededRandom(seed, "network"),
      scenario.latencyMs,
    );
    this.redis = new SimulatedRedis(this.time);
    this.disk = new SimulatedDisk(scenario.size);
    this.disk.put(1);
    this.orders = new SimulatedOrders(this);
    this.workers = Array.from(
      { length: scenario.workers },
      (_, index) => new WorkerPlace(this, `w${index}`),
    );
    this.routers = Array.from(
      { length: scenario.routers },
      (_, index) => new RouterPlace(this, `r${index}`),
    );
  }

  /** A number that two runs of one seed share. */
  get trace(): string {
    return (this.#trace >>> 0).toString(16).padStart(8, "0");
  }

  /** Workers that are to be there. */
  get staff(): WorkerPlace[] {
    return this.workers.filter(({ isGone }) => !isGone);
  }

  note(process: string, event: string, fields: unknown): void {
    const line = `${this.time.nowMs} ${process} ${event}`;
    for (let at = 0; at < line.length; at += 1) {
      this.#trace = Math.imul(this.#trace ^ line.charCodeAt(at), 0x01000193);
    }
    this.onNote?.({ atMs: this.time.nowMs, process, event, fields });
  }

  violate(invariant: string, what: string): void {
    this.note("world", `${invariant} ${what}`, undefined);
    if (this.violations.length < VIOLATIONS_MAX) {
      this.violations.push({ invariant, atMs: this.time.nowMs, what });
    }
  }

  /** How a process learns of the others. */
  membershipOf(process: SimulatedProcess, client: string): MembershipStore {
    const { environment } = process;
    if (this.scenario.membership === "redis") {
      const settings = { url: "redis://simulated", placementSettleMs: 8000 };
      return new RedisMembership(environment, settings, this.redis.openFor(process, client));
    }
    const connector = this.network.connectorOf(process, client);
    const describe: Describe = (address, timeoutMs) => connector.describe(address, timeoutMs);
    const members = this.workers.map(({ name, address }) => ({
      workerId: workerId(name),
      address,
    }));
    const isWorker = members.some(({ workerId: id }) => id === client);
    const streams = isWorker ? { connector, own: workerId(client) } : undefined;
    return new StaticMembership({ environment, describe, streams }, { members });
  }

  /** A process has ended: nothing is left but what others remember. */
  bury(process: SimulatedProcess, isSilent: boolean): void {
    process.kill();
    this.network.end(process, isSilent);
    this.redis.forget(process);
  }

  /** From now on the label means this version, at every router. */
  setLabel(version: number): void {
    this.label = version;
    this.labelled.add(version);
    const labels = new Map([[MODEL, new Map([[LABEL, version]])]]);
    for (const { router } of this.routers) router?.setLabels(labels);
  }

  addWorker(): void {
    const place = new WorkerPlace(this, `w${this.workers.length}`);
    this.workers.push(place);
    place.start();
  }
}
