// A worker's end of the simulated network: what `WorkerServer` is in production, with its drain.

import type { WorkerListener, WorkerService } from "@winnow/cluster";
import type { SimulatedProcess } from "./simulated-process.ts";
import type { SimulatedStream } from "./simulated-stream.ts";

/** Time between the end of the last stream and that of the listener. */
const SHUTDOWN_MS = 20;

/** A worker that can be reached. */
export class Listener implements WorkerListener {
  readonly port = 1;
  readonly process: SimulatedProcess;
  readonly service: WorkerService;
  readonly streams = new Set<SimulatedStream>();
  isDraining = false;
  isClosed = false;
  readonly #onClose: () => void;
  #onLastStream: (() => void) | undefined;

  constructor(process: SimulatedProcess, service: WorkerService, onClose: () => void) {
    this.process = process;
    this.service = service;
    this.#onClose = onClose;
  }

  setHealth(): void {}

  /** A stream is over. */
  forget(stream: SimulatedStream): void {
    if (this.streams.delete(stream) && this.streams.size === 0) this.#onLastStream?.();
  }

  async drain(graceMs: number): Promise<void> {
    this.isDraining = true;
    for (const stream of this.streams) stream.drain();
    if (this.streams.size > 0) {
      await new Promise<void>((resolve) => {
        const timer = this.process.setTimer(graceMs, resolve);
        this.#onLastStream = () => {
          this.process.clearTimer(timer);
          resolve();
        };
      });
    }
    await new Promise<void>((resolve) => {
      this.process.setTimer(SHUTDOWN_MS, resolve);
    });
    this.close();
  }

  close(): void {
    if (this.isClosed) return;
    this.isDraining = true;
    this.isClosed = true;
    this.#onClose();
    for (const stream of this.streams) stream.resetByWorker();
  }
}
