// The compute side of a simulated worker: the real client and host over message ports whose messages
// take virtual time, and a device that can be slow, wedged, full or lost.

import { createReferenceAccelerator } from "@winnow/accelerator";
import type { Accelerator, LoadShape, Resident, RowFilter, TopKQuery } from "@winnow/accelerator";
import { WinnowError } from "@winnow/core";
import type { ThreadPort, Timer, TopKBlock } from "@winnow/core";
import type { ModelVersion } from "@winnow/model";
import { serveCompute } from "../../packages/worker/src/compute/compute-channel.ts";
import { ComputeClient } from "../../packages/worker/src/compute/compute-client.ts";
import { ComputeHost } from "../../packages/worker/src/compute/compute-host.ts";
import { LocalModelReader } from "../../packages/worker/src/compute/reader/model-reader.ts";
import { ProgressCounter } from "../../packages/worker/src/compute/progress-counter.ts";
import {
  RemoteModelReader,
  serveReader,
} from "../../packages/worker/src/compute/reader/reader-channel.ts";
import type { SimulatedProcess } from "./simulated-process.ts";

/** The state of a device; faults change it. */
export interface DeviceHealth {
  /** Factors on the usual duration of a scan and a load. */
  slowness: number;
  isWedged: boolean;
  isFull: boolean;
  readonly scanMs: number;
  readonly loadMs: number;
}

const WEDGE_LOOK_MS = 20;

/** A device over the reference accelerator. */
export class SimulatedDevice implements Accelerator {
  readonly kind = "reference";
  readonly device = "simulated";
  readonly lost: Promise<WinnowError>;
  readonly health: DeviceHealth;
  readonly #process: SimulatedProcess;
  readonly #sound: Accelerator;
  #lose: (error: WinnowError) => void = () => undefined;
  #loss: WinnowError | undefined;
  readonly #timers = new Set<Timer>();
  /** Searches in progress keep their filters. */
  readonly #searches = new Set<Promise<TopKBlock>>();
  /** Rows that are on the device, by load. */
  readonly residents = new Set<Resident>();

  constructor(process: SimulatedProcess, health: DeviceHealth) {
    this.#process = process;
    this.health = health;
    this.#sound = createReferenceAccelerator({ capacityBytes: 2 ** 26 });
    this.lost = new Promise((resolve) => {
      this.#lose = resolve;
    });
  }

  /** The device is gone for good. */
  lose(): void {
    this.#loss = new WinnowError("UNAVAILABLE", "The device is lost");
    this.#lose(this.#loss);
  }

  memory(): ReturnType<Accelerator["memory"]> {
    return this.#sound.memory();
  }

  async load(
    shape: LoadShape,
    chunks: Iterable<Float32Array> | AsyncIterable<Float32Array>,
    signal?: AbortSignal,
  ): Promise<Resident> {
    await this.#work(this.health.loadMs);
    if (this.health.isFull) throw new WinnowError("RESOURCE_EXHAUSTED", "The device is full");
    const resident = await this.#sound.load(shape, chunks, signal);
    this.residents.add(resident);
    return resident;
  }

  topK(query: TopKQuery, signal?: AbortSignal): Promise<TopKBlock> {
    const search = this.#work(this.health.scanMs).then(() => this.#sound.topK(query, signal));
    this.#searches.add(search);
    const end = (): void => void this.#searches.delete(search);
    search.then(end, end);
    return search;
  }

  filter(resident: Resident, admittedRows: Uint8Array): RowFilter {
    return this.#sound.filter(resident, admittedRows);
  }

  releaseFilter(filter: RowFilter): void {
    void Promise.allSettled(this.#searches).then(() => this.#sound.releaseFilter(filter));
  }

  async gather(resident: Resident, localRows: Uint32Array): Promise<Float32Array> {
    await this.#work(this.health.scanMs / 4);
    return this.#sound.gather(resident, localRows);
  }

  release(resident: Resident): Promise<void> {
    this.residents.delete(resident);
    return this.#sound.release(resident);
  }

  close(): Promise<void> {
    return this.#sound.close();
  }

  async #work(usualMs: number): Promise<void> {
    const { health } = this;
    const { random } = this.#process.environment;
    await this.#sleep(usualMs * health.slowness * (0.5 + random()));
    while (health.isWedged && this.#loss === undefined) await this.#sleep(WEDGE_LOOK_MS);
    if (this.#loss !== undefined) throw this.#loss;
  }

  #sleep(delayMs: number): Promise<void> {
    return new Promise((resolve) => {
      const timer = this.#process.setTimer(delayMs, () => {
        this.#timers.delete(timer);
        resolve();
      });
      this.#timers.add(timer);
    });
  }

  /** The thread of the device is ended, whatever it was doing. */
  abandon(): void {
    for (const timer of this.#timers) this.#process.clearTimer(timer);
    this.#timers.clear();
  }
}

/** Starts the compute side of a worker. */
export function simulatedCompute(
  process: SimulatedProcess,
  device: SimulatedDevice,
  open: (directory: string) => ModelVersion,
): ComputeClient {
  const progress = new ProgressCounter();
  const [eventLoop, computeThread] = ports(process);
  const [computeSide, readerThread] = ports(process);
  serveReader(readerThread, new LocalModelReader(open));
  const host = new ComputeHost({
    accelerator: device,
    reader: new RemoteModelReader(computeSide, async () => undefined),
    progress,
    clock: process,
    exclusionBytesMax: 2 ** 20,
    filterBytesMax: 2 ** 20,
  });
  serveCompute(computeThread, host);
  return new ComputeClient({
    port: eventLoop,
    progress,
    clock: process,
    device: { accelerator: device.kind, device: device.device },
    memory: host.memory,
    end: async () => device.abandon(),
  });
}

/** Two ends of a channel between threads of one process. */
function ports(process: SimulatedProcess): readonly [ThreadPort, ThreadPort] {
  const listeners: ((message: unknown) => void)[][] = [[], []];
  const end = (own: number): ThreadPort => ({
    on: (_event, listener) => listeners[own]!.push(listener),
    postMessage: (message, transfer) => {
      const sent: unknown = structuredClone(message, { transfer: [...transfer] });
      inOrder.push({ to: 1 - own, sent });
      process.soon(() => {
        const first = inOrder.shift();
        for (const listener of listeners[first!.to]!) listener(first!.sent);
      });
    },
  });
  const inOrder: { readonly to: number; readonly sent: unknown }[] = [];
  return [end(0), end(1)];
}
