// The dense engine: ONNX Runtime on a thread of its own. The engine keeps the bytes of every model,
// so that the death of the thread costs only the runs under way: the next request starts another
// thread and loads the models again.

import { Worker } from "node:worker_threads";
import { ThreadLink, WinnowError, entryBeside, excerpt } from "@winnow/core";
import type { Tensor } from "@winnow/core";
import type { DenseEngine, DenseModel } from "../dense-engine.ts";
import { buffersOf, detachedCopy } from "./dense-messages.ts";
import type { DenseRequest, DenseThreadSettings, NamedTensor } from "./dense-messages.ts";

/** Options of `createDenseEngine`. */
export interface DenseEngineOptions {
  /** Threads of one run; default 1. More shorten large runs and take processors from scans. */
  readonly threads?: number | undefined;
  /** Runs that wait or are under way, at most; default 256. Further runs get RESOURCE_EXHAUSTED. */
  readonly queueRunsMax?: number | undefined;
}

/** Starts the thread; a test passes its own, to observe what happens when it ends. */
export type StartDenseThread = (settings: DenseThreadSettings) => Worker;

const QUEUE_RUNS_MAX = 256;

/** Starts a dense engine. The thread starts with the first model. */
export function createDenseEngine(
  options: DenseEngineOptions = {},
  start: StartDenseThread = startDenseThread,
): DenseEngine {
  const { threads = 1, queueRunsMax = QUEUE_RUNS_MAX } = options;
  const dropped = new Int32Array(new SharedArrayBuffer(queueRunsMax * 4));
  return new OnnxEngine({ dropped, start: () => start({ threads, dropped }) });
}

/** @internal tests call it */
export function startDenseThread(settings: DenseThreadSettings): Worker {
  return new Worker(entryBeside(import.meta.url, "dense-thread"), {
    name: "winnow-dense",
    workerData: settings,
    execArgv: [],
  });
}

interface LoadedModel {
  readonly onnx: Uint8Array;
  readonly underWay: Set<Promise<unknown>>;
}

type Outputs = ReadonlyMap<string, Tensor>;

/** What `DenseModel.run` is asked. */
interface WantedRun {
  readonly inputs: ReadonlyMap<string, Tensor>;
  readonly outputs: readonly string[];
  readonly signal: AbortSignal | undefined;
}

interface EngineSettings {
  /** As `DenseThreadSettings.dropped`; as many places as runs may wait. */
  readonly dropped: Int32Array;
  readonly start: () => Worker;
}

class OnnxEngine implements DenseEngine {
  readonly #settings: EngineSettings;
  /** Models by their number on the thread. */
  readonly #models = new Map<number, LoadedModel>();
  #nextModel = 0;
  #link: ThreadLink<DenseRequest> | undefined;
  #restored: Promise<unknown> = Promise.resolve();
  /** Places that no run has. */
  readonly #places: number[];
  #isClosed = false;

  constructor(settings: EngineSettings) {
    this.#settings = settings;
    this.#places = Array.from(settings.dropped.keys());
  }

  async load(onnx: Uint8Array): Promise<DenseModel> {
    const link = await this.#openLink();
    const model = this.#nextModel;
    this.#nextModel += 1;
    const bytes = onnx.slice();
    await this.#load(link, model, bytes);
    this.#models.set(model, { onnx: bytes, underWay: new Set() });
    return {
      run: (inputs, outputs, signal) => this.#run(model, { inputs, outputs, signal }),
      release: () => this.#release(model),
    };
  }

  async close(): Promise<void> {
    this.#isClosed = true;
    this.#models.clear();
    await this.#link?.close();
  }

  async #load(link: ThreadLink<DenseRequest>, model: number, onnx: Uint8Array): Promise<void> {
    try {
      await link.call({ kind: "load", model, onnx });
    } catch (error) {
      if (!(error instanceof WinnowError) || error.code !== "INVALID_ARGUMENT") throw error;
      const message = `Cannot load a dense part of ${onnx.length} bytes: ${excerpt(error.message)}`;
      throw new WinnowError("INVALID_ARGUMENT", message, { cause: error });
    }
  }

  async #run(model: number, { inputs, outputs, signal }: WantedRun): Promise<Outputs> {
    signal?.throwIfAborted();
    const { underWay } = this.#loaded(model);
    const { dropped } = this.#settings;
    const copies = Array.from(inputs, ([name, value]) => [name, detachedCopy(value)] as const);
    const place = this.#places.pop();
    if (place === undefined) {
      const message = `${dropped.length} dense runs are waiting; at most that many may`;
      throw new WinnowError("RESOURCE_EXHAUSTED", message);
    }
    Atomics.store(dropped, place, 0);
    const drop = (): void => void Atomics.store(dropped, place, 1);
    signal?.addEventListener("abort", drop, { once: true });
    const run = this.#ask({ kind: "run", model, inputs: copies, outputs, place });
    underWay.add(run);
    try {
      const found = await run;
      signal?.throwIfAborted();
      return new Map(found);
    } finally {
      signal?.removeEventListener("abort", drop);
      this.#places.push(place);
      underWay.delete(run);
    }
  }

  async #ask(request: DenseRequest): Promise<readonly NamedTensor[]> {
    const link = await this.#openLink();
    return link.call(request, {
      transfer: request.kind === "run" ? buffersOf(request.inputs) : [],
    });
  }

  async #release(model: number): Promise<void> {
    const { underWay } = this.#loaded(model);
    this.#models.delete(model);
    await Promise.allSettled(underWay);
    // A thread that has ended holds no model.
    if (this.#link?.isEnded === false) await this.#link.call({ kind: "release", model });
  }

  #loaded(model: number): LoadedModel {
    if (this.#isClosed) throw closed();
    const loaded = this.#models.get(model);
    if (loaded === undefined) throw new RangeError("the dense model was released");
    return loaded;
  }

  /** A link whose thread has loaded every model. */
  async #openLink(): Promise<ThreadLink<DenseRequest>> {
    if (this.#isClosed) throw closed();
    if (this.#link === undefined || this.#link.isEnded) {
      const link = new ThreadLink<DenseRequest>(this.#settings.start(), { ended: threadEnded });
      this.#link = link;
      const loads = Array.from(this.#models, ([model, { onnx }]) => this.#load(link, model, onnx));
      this.#restored = Promise.allSettled(loads);
    }
    const link = this.#link;
    await this.#restored;
    return link;
  }
}

function threadEnded(cause?: unknown): WinnowError {
  return new WinnowError("UNAVAILABLE", "The thread that runs dense parts ended", { cause });
}

function closed(): WinnowError {
  return new WinnowError("UNAVAILABLE", "The dense engine is closed");
}
