// The dense engine: ONNX Runtime in two processes, so that a crash of ONNX Runtime does not end this process,
// and slow runs do not delay short ones:
//
//   main    every model begins here
//   apart   started when needed: models whose runs take long (SLOW_RUN_MS), and models of which a
//           run has ended a process. None of them comes back before it is loaded anew.
//
// The engine keeps the bytes of every model, so that the end of a process costs the run that it ended on,
// which is run once more, and the others some time. What becomes of a run that ended its process is said in
// `fatal-runs.ts`.

import { systemClock, WinnowError, excerpt, nextLoopTurn } from "@winnow/core";
import type { Clock, Signal, Tensor } from "@winnow/core";
import type { DenseEngine, DenseModel, DenseOwner } from "./dense-engine.ts";
import { tensorFrame, tensorHeaders, tensorsOf } from "./dense-frames.ts";
import type { DenseAnswer, DenseShapes, Frame } from "./dense-frames.ts";
import { DenseLane, isMemoryFault } from "./dense-lane.ts";
import type { DenseRun, FatalRequest, LaneModel } from "./dense-lane.ts";
import { FatalRuns } from "./fatal-runs.ts";
import { startDenseProcess } from "./process-start.ts";
import type { StartDenseProcess } from "./process-start.ts";

/** Which of the engine's processes. */
export type DenseLaneName = "main" | "apart";

/** Receives events for the operator; every method is optional. */
export interface DenseObserver {
  /** A process ended. `title` is the dense part that it was running or loading; "" for none. */
  processEnded?(lane: DenseLaneName, how: string, title: string): void;
  /** From now on a model's runs go to the separate process. */
  setApart?(title: string, why: string): void;
}

/** Options of `createDenseEngine`. */
export interface DenseEngineOptions {
  /** Threads of one run; default 1. More shorten large runs and take processors from scans. */
  readonly threads?: number | undefined;
  /** Runs of one model that wait, at most; default 256. Further runs get RESOURCE_EXHAUSTED. */
  readonly queueRunsMax?: number | undefined;
  /** Bytes of all inputs that wait in one process's queue; default 256 MiB. */
  readonly queueBytesMax?: number | undefined;
  /**
   * Default 20 ms. Models whose runs take longer share a separate process. Lower lets short runs wait less,
   * and puts more models together that wait for each other.
   */
  readonly slowRunMs?: number | undefined;
  readonly clock?: Clock | undefined;
  readonly observer?: DenseObserver | undefined;
}

const QUEUE_RUNS_MAX = 256;
const QUEUE_BYTES_MAX = 2 ** 28;
const SLOW_RUN_MS = 20;
const MEAN_SHARE_OF_LAST = 0.25;
const NO_INPUTS = new Uint8Array(0);

/**
 * Makes a dense engine. Its processes are started with the first model, and with the first model that needs
 * the other process.
 */
export function createDenseEngine(
  options: DenseEngineOptions = {},
  start: StartDenseProcess = startDenseProcess,
): DenseEngine {
  return new OnnxEngine(options, start);
}

interface EngineModel extends LaneModel {
  readonly title: string;
  /** How many loads of these bytes it answers for. */
  holders: number;
  /** Absent until it is loaded. */
  shapes: DenseShapes | undefined;
  lane: DenseLaneName;
  /** Mean ms of a run, by the last ones. */
  meanMs: number | undefined;
  /** Whether it is being loaded into the separate process. */
  isMoving: boolean;
  readonly underWay: Set<Promise<unknown>>;
}

/** The arguments of `DenseModel.run`. */
interface WantedRun {
  readonly inputs: ReadonlyMap<string, Tensor>;
  readonly outputs: readonly string[];
  readonly signal: Signal | undefined;
}

function released(): RangeError {
  return new RangeError("the dense model was released");
}

/** Bytes that are compared between two looks at other work: a millisecond or two. */
const COMPARED_BYTES = 2 ** 23;

async function areSameBytes(a: Uint8Array, b: Uint8Array): Promise<boolean> {
  for (let at = 0; at < a.length; at += COMPARED_BYTES) {
    const end = at + COMPARED_BYTES;
    if (Buffer.compare(a.subarray(at, end), b.subarray(at, end)) !== 0) return false;
    if (end < a.length) await nextLoopTurn();
  }
  return true;
}

class OnnxEngine implements DenseEngine {
  readonly #clock: Clock;
  readonly #observer: DenseObserver;
  readonly #slowRunMs: number;
  readonly #lanes: Readonly<Record<DenseLaneName, DenseLane>>;
  readonly #models = new Map<number, EngineModel>();
  readonly #fatal = new FatalRuns();
  #lastNumber = 0;
  #isClosed = false;

  constructor(options: DenseEngineOptions, start: StartDenseProcess) {
    const { threads = 1, clock = systemClock, observer = {}, slowRunMs = SLOW_RUN_MS } = options;
    const { queueRunsMax: itemsMax = QUEUE_RUNS_MAX, queueBytesMax: bytesMax = QUEUE_BYTES_MAX } =
      options;
    this.#clock = clock;
    this.#observer = observer;
    this.#slowRunMs = slowRunMs;
    const lane = (name: DenseLaneName): DenseLane =>
      new DenseLane({
        clock,
        start,
        threads,
        limits: { itemsMax, bytesMax },
        onRun: ({ number }, ms) => this.#noteRun(number, ms),
        onEnd: (how, fatal) => this.#noteEnd(name, how, fatal),
      });
    this.#lanes = { main: lane("main"), apart: lane("apart") };
  }

  async load(onnx: Uint8Array, { model, version }: DenseOwner): Promise<DenseModel> {
    if (this.#isClosed) throw closed();
    const title = `model ${model} version ${version}`;
    const alike = await this.#takeLoaded(onnx, title);
    if (alike !== undefined) return this.#held(alike);
    if (this.#isClosed) throw closed();
    this.#lastNumber += 1;
    const loaded: EngineModel = {
      number: this.#lastNumber,
      name: model,
      title,
      holders: 1,
      shapes: undefined,
      onnx,
      lane: "main",
      meanMs: undefined,
      isMoving: false,
      underWay: new Set(),
    };
    this.#models.set(loaded.number, loaded);
    try {
      loaded.shapes = await this.#lanes.main.load(loaded).catch((error: unknown) => {
        if (!(error instanceof FatalLoad)) throw error;
        return this.#lanes.apart.load(loaded);
      });
    } catch (error) {
      this.#models.delete(loaded.number);
      this.#fatal.forget(loaded.number);
      throw error;
    }
    return this.#held(loaded);
  }

  /**
   * A model of the same version with the same bytes, such as that of a content that differs in the attributes of its
   * items alone. Hundreds of megabytes are compared in a fraction of the time that loading them takes.
   */
  async #takeLoaded(onnx: Uint8Array, title: string): Promise<EngineModel | undefined> {
    for (const model of this.#models.values()) {
      const isLike = model.title === title && model.onnx.length === onnx.length;
      if (!isLike || !(await areSameBytes(model.onnx, onnx))) continue;
      if (model.shapes === undefined || !this.#models.has(model.number)) continue;
      model.holders += 1;
      return model;
    }
    return undefined;
  }

  #held(model: EngineModel): DenseModel {
    let isReleased = false;
    return {
      shapes: model.shapes!,
      run: async (inputs, outputs, signal) => {
        if (isReleased) throw released();
        return await this.#run(model, { inputs, outputs, signal });
      },
      release: async () => {
        if (isReleased) throw released();
        isReleased = true;
        await this.#release(model);
      },
    };
  }

  async close(): Promise<void> {
    this.#isClosed = true;
    this.#models.clear();
    await Promise.all(Object.values(this.#lanes).map((lane) => lane.close(closed())));
  }

  async #run(
    model: EngineModel,
    { inputs, outputs, signal }: WantedRun,
  ): Promise<ReadonlyMap<string, Tensor>> {
    signal?.throwIfAborted();
    this.#checkLoaded(model);
    const named = [...inputs];
    const { number } = model;
    const frame = tensorFrame(
      { kind: "run", model: number, inputs: tensorHeaders(named), outputs },
      named.map(([, tensor]) => tensor),
    );
    this.#checkMayRun(model, frame);
    const asked = this.#ask(model, frame, signal);
    model.underWay.add(asked);
    try {
      return outputsOf(await asked);
    } finally {
      model.underWay.delete(asked);
    }
  }

  /**
   * Refuses a run that may not start. @throws WinnowError INTERNAL for inputs that ended processes;
   * UNAVAILABLE while the model is paused
   */
  #checkMayRun({ number, title }: EngineModel, frame: Uint8Array): void {
    const nowMs = this.#clock.nowMs();
    const ends = this.#fatal.endsOf(number, frame, nowMs);
    if (ends > 0) throw new WinnowError("INTERNAL", refusalText(title, ends));
    const pauseMs = this.#fatal.pauseMsOf(number, nowMs);
    if (pauseMs === 0) return;
    const text = `Runs of ${title} ended the process they were in; it pauses for ${Math.ceil(pauseMs)} ms`;
    throw new WinnowError("UNAVAILABLE", text);
  }

  #ask(
    model: EngineModel,
    frame: Uint8Array,
    signal: Signal | undefined,
  ): Promise<Frame<DenseAnswer>> {
    return new Promise((resolve, reject) => {
      const run: DenseRun = {
        model,
        frame,
        bytes: frame.length,
        bystood: 0,
        isLeft: false,
        resolve: (answer) => {
          signal?.removeEventListener("abort", leave);
          resolve(answer);
        },
        reject: (error) => {
          signal?.removeEventListener("abort", leave);
          reject(error);
        },
      };
      const leave = (): void => {
        run.isLeft = true;
        this.#lanes[model.lane].remove(run);
        reject(signal?.reason);
      };
      this.#lanes[model.lane].run(run);
      signal?.addEventListener("abort", leave, { once: true });
    });
  }

  async #release(model: EngineModel): Promise<void> {
    this.#checkLoaded(model);
    model.holders -= 1;
    if (model.holders > 0) return;
    this.#models.delete(model.number);
    await Promise.allSettled(model.underWay);
    for (const lane of Object.values(this.#lanes)) lane.release(model);
    this.#fatal.forget(model.number);
  }

  #checkLoaded({ number }: EngineModel): void {
    if (this.#isClosed) throw closed();
    if (!this.#models.has(number)) throw released();
  }

  #noteRun(number: number, ms: number): void {
    const model = this.#models.get(number);
    if (model === undefined) return;
    const { meanMs = ms } = model;
    model.meanMs = meanMs + (ms - meanMs) * MEAN_SHARE_OF_LAST;
    const isSlow = model.meanMs > this.#slowRunMs && model.lane === "main";
    if (isSlow && !model.isMoving) void this.#moveLoaded(model);
  }

  /** Loads a slow model into the separate process first, so that its runs go on meanwhile. Never rejects. */
  async #moveLoaded(model: EngineModel): Promise<void> {
    model.isMoving = true;
    // Once it is loaded there, its runs may have become quick: what was decided by is told.
    const ms = Math.round(model.meanMs ?? 0);
    try {
      await this.#lanes.apart.load(model);
    } catch {
      return; // The model stays where it is, and `isMoving` prevents another attempt.
    }
    if (this.#models.has(model.number) && model.lane === "main") this.#move(model);
    else if (!this.#models.has(model.number)) this.#lanes.apart.release(model);
    else return;
    this.#observer.setApart?.(model.title, `its runs take ${ms} ms`);
  }

  #move(model: EngineModel): void {
    model.lane = "apart";
    const { main, apart } = this.#lanes;
    apart.adopt(model);
    for (const run of main.release(model)) runOn(apart, run);
  }

  #noteEnd(lane: DenseLaneName, how: string, fatal: FatalRequest | undefined): void {
    const model = fatal && this.#models.get(fatal.model.number);
    this.#observer.processEnded?.(lane, how, model === undefined ? "" : model.title);
    if (fatal === undefined) return;
    // If the model was released in the meantime, only this request waits.
    if (model === undefined) fatal.reject?.(closed());
    else if (fatal.kind === "run") this.#noteFatalRun(model, fatal.run, how);
    else this.#noteFatalLoad(model, how, fatal.reject);
  }

  #noteFatalRun(model: EngineModel, run: DenseRun, how: string): void {
    const { runAgain, ends } = this.#fatal.ended(model.number, run.frame, this.#clock.nowMs());
    this.#setApart(model);
    if (run.isLeft) return;
    if (runAgain) return runOn(this.#lanes.apart, run);
    run.reject(new WinnowError("INTERNAL", `${refusalText(model.title, ends)}: ${excerpt(how)}`));
  }

  /** `reject` belongs to the first load; for a later one only the model's runs wait. */
  #noteFatalLoad(
    model: EngineModel,
    how: string,
    reject: ((error: Error) => void) | undefined,
  ): void {
    const { runAgain } = this.#fatal.ended(model.number, NO_INPUTS, this.#clock.nowMs());
    const text = `${model.title} cannot be loaded: ONNX Runtime ${how}`;
    if (reject !== undefined) {
      model.lane = "apart";
      return reject(runAgain ? new FatalLoad() : new WinnowError("INVALID_ARGUMENT", text));
    }
    this.#setApart(model);
    if (runAgain) return;
    const { apart } = this.#lanes;
    for (const run of apart.release(model)) run.reject(new WinnowError("UNAVAILABLE", text));
    apart.adopt(model);
  }

  #setApart(model: EngineModel): void {
    if (model.lane === "apart") return;
    this.#move(model);
    this.#observer.setApart?.(model.title, "it ended the process that it was in");
  }
}

/** The first load of a model ended its process, and is tried once more. */
class FatalLoad extends Error {}

function runOn(lane: DenseLane, run: DenseRun): void {
  try {
    lane.run(run);
  } catch (error) {
    run.reject(error as Error);
  }
}

/** The outputs in an answer. @throws WinnowError INVALID_ARGUMENT, RESOURCE_EXHAUSTED as the process says */
function outputsOf({ header, body }: Frame<DenseAnswer>): ReadonlyMap<string, Tensor> {
  if (header.kind === "done") return new Map(tensorsOf(header.outputs, body));
  const message = header.kind === "failed" ? header.message : "";
  const code = isMemoryFault(message) ? "RESOURCE_EXHAUSTED" : "INVALID_ARGUMENT";
  throw new WinnowError(code, message);
}

function refusalText(title: string, ends: number): string {
  const often = ends === 1 ? "ended" : `has ended ${ends} times`;
  return `A run of ${title} with these inputs ${often} the process of ONNX Runtime, and is refused`;
}

function closed(): WinnowError {
  return new WinnowError("UNAVAILABLE", "The dense engine is closed");
}
