// The workers of a simulated cluster: real workers on simulated processes. They are started, killed, drained,
// and restarted under the same name, with incarnations from a wall clock that may be wrong.

import type { MembershipStore, OrderBook } from "@winnow/cluster";
import { startWorker } from "@winnow/worker";
import type { Worker } from "@winnow/worker";
import { SimulatedDevice, simulatedCompute } from "./simulated-compute.ts";
import type { DeviceHealth } from "./simulated-compute.ts";
import { MODEL } from "./simulated-models.ts";
import { SimulatedProcess } from "./simulated-process.ts";
import type { CopyFlaw } from "./simulated-models.ts";
import type { SimulatedWorld } from "./simulated-world.ts";
import { seededRandom } from "./virtual-time.ts";

/** How long a drain of a simulated worker waits for others at most. */
export const DRAIN_HOLD_MS_MAX = 30_000;
const RESTART_MS = 300;
/** A day of some year. */
const WALL_CLOCK_START_MS = 1.7e12;

/** A place for a worker: its name, its address and the present worker. */
export class WorkerPlace {
  readonly name: string;
  readonly address: string;
  readonly health: DeviceHealth;
  isDiskReadable = true;
  /** What it reads is not what was written. */
  isMisreading = false;
  /** What is wrong with the assets in its copy of every version. */
  copyFlaw: CopyFlaw | undefined;
  /** Scaled away: it does not come back. */
  isGone = false;
  isLeaving = false;
  /** By so much its machine's clock is wrong. */
  clockErrorMs = 0;
  process: SimulatedProcess | undefined;
  worker: Worker | undefined;
  device: SimulatedDevice | undefined;
  readonly #world: SimulatedWorld;
  #membership: MembershipStore | undefined;
  #orders: OrderBook | undefined;
  #lives = 0;

  constructor(world: SimulatedWorld, name: string) {
    this.#world = world;
    this.name = name;
    this.address = `${name}:7600`;
    const { scanMs, loadMs } = world.scenario;
    this.health = { slowness: 1, isWedged: false, isFull: false, scanMs, loadMs };
  }

  get isUp(): boolean {
    return this.process !== undefined && this.process.state !== "dead";
  }

  /** Whether it runs and is ready. */
  get isWell(): boolean {
    return this.process?.state === "running" && this.worker?.isReady === true && !this.isLeaving;
  }

  start(): void {
    if (this.isUp || this.isGone) return;
    this.#lives += 1;
    const world = this.#world;
    const { scenario, network, disk } = world;
    const title = `${this.name}#${this.#lives}`;
    const process = new SimulatedProcess(title, world, seededRandom(scenario.seed, title));
    const membership = world.membershipOf(process, this.name);
    const connector = network.connectorOf(process, this.name);
    const device = new SimulatedDevice(process, this.health);
    const compute = simulatedCompute(process, device, (directory) =>
      disk.open(directory, { copyFlaw: this.copyFlaw, misread: () => this.isMisreading }),
    );
    this.process = process;
    this.device = device;
    this.isLeaving = false;
    this.#membership = membership;
    const orders = world.orders.bookOf(process, this.name, membership);
    this.#orders = orders;
    const starting = startWorker(
      {
        workerId: this.name,
        incarnation: this.#wallClockMs(),
        advertisedAddress: this.address,
        models: [{ model: MODEL, basePath: `/models/${MODEL}` }],
        modelReloadRoot: "/models",
        pollIntervalMs: scenario.pollIntervalMs,
        replication: scenario.replication,
        swapReplicas: scenario.swapReplicas,
        requestDeadlineMsMax: scenario.requestDeadlineMsMax,
        versionPolicy: { kind: "latest", count: scenario.versionsKept },
        loadRetryIntervalMs: 2000,
        maxLoadRetries: 3,
        drainHoldMsMax: DRAIN_HOLD_MS_MAX,
      },
      {
        environment: process.environment,
        membership,
        orders,
        startCompute: async () => compute,
        storage: disk.storage(
          () => this.isDiskReadable,
          () => this.copyFlaw,
        ),
        listen: network.listenAt(process, this.address),
        describe: connector.describe.bind(connector),
      },
    );
    void this.#follow(process, starting);
  }

  /** The machine's wall clock. */
  #wallClockMs(): number {
    return Math.floor(WALL_CLOCK_START_MS + this.#world.time.nowMs + this.clockErrorMs);
  }

  async #follow(process: SimulatedProcess, starting: Promise<Worker>): Promise<void> {
    const worker = await starting;
    if (this.process !== process || process.state === "dead") return;
    this.worker = worker;
    const failure = await worker.ended;
    this.#exit(process, failure !== undefined);
  }

  /** The process ends at once; if its machine vanishes too, no connection is reset. */
  crash(isSilent: boolean): void {
    const { process } = this;
    if (process === undefined || process.state === "dead") return;
    this.worker = undefined;
    this.#world.bury(process, isSilent);
  }

  /** As on SIGTERM. */
  drain(): void {
    const { worker, process } = this;
    if (worker === undefined || process?.state !== "running") return;
    this.isLeaving = true;
    void worker.drain();
  }

  /** The worker has ended: nothing may be left of its process. */
  #exit(process: SimulatedProcess, isFailed: boolean): void {
    if (this.process !== process || process.state === "dead") return;
    this.worker = undefined;
    this.isLeaving = false;
    this.#orders?.close();
    void this.#membership?.close();
    const world = this.#world;
    world.network.connectorOf(process, this.name).close();
    const { time } = world;
    time.after(RESTART_MS, () => {
      if (process.state === "dead") return;
      if (process.pendingTimers > 0 && !isFailed) {
        world.violate("R5", `${process.name} ended with ${process.pendingTimers} timers`);
      }
      world.bury(process, false);
      this.start();
    });
  }
}
