// Threads for host steps that read or make so much text that the event loop would stand still: a megabyte that
// TextVectorization cuts into words takes a second. So do steps that read or make very many numbers. Other requests are
// answered meanwhile. Steps that look keys up in a vocabulary stay, as it would have to go along: `lookedUpInTurns`.
//
// What a step makes of a text is as long as the text, and stays until the last step has read it. So no more requests than
// there are threads have such steps under way, and of each request one at a time, the newest first: it goes on with what
// was just made before it begins with another branch. The others wait with nothing but their inputs.

import { Worker } from "node:worker_threads";
import { WinnowError, entryBeside, nextLoopTurn, stepWork } from "@winnow/core";
import type { Clock, HostStep, Signal, Tensor } from "@winnow/core";
import { BoundedThreads } from "../threads/bounded-threads.ts";
import { copiedTensor, revivedTensor, tensorBuffers } from "../threads/tensor-messages.ts";

/** A step and what it reads. Its memory is transferred. */
export interface TextRequest {
  readonly step: HostStep;
  readonly inputs: readonly Tensor[];
}

/** Limits of the text threads. */
export interface TextThreadLimits {
  readonly textThreadsMax: number;
  readonly textQueueMax: number;
}

/** Work, in the unit of `stepWork`, that the event loop does itself: 4096 short strings, 128 KiB, or a million numbers. */
const WORK_MAX = 2 ** 17;
/** A step of at least so much work is a giant; one thread is left to others. */
const GIANT_WORK = 2 ** 22;

interface WaitingStep extends TextRequest {
  readonly work: number;
  readonly resolve: (outputs: readonly Tensor[]) => void;
  readonly reject: (error: unknown) => void;
}

/** The steps of one request. */
interface Lane {
  readonly signal: Signal;
  readonly steps: WaitingStep[];
  /** Whether its steps run, one at a time; otherwise it waits for another request to be done with its own. */
  isActive: boolean;
  /** Whether one of its steps so far is a giant. */
  isGiant: boolean;
}

/** The threads, and the requests whose steps wait for one. */
export class TextThreads {
  readonly #threads: BoundedThreads<TextRequest, readonly Tensor[]>;
  readonly #limits: TextThreadLimits;
  /** By the signal of the request, in the order in which they came. */
  readonly #lanes = new Map<Signal, Lane>();

  constructor(clock: Clock, limits: TextThreadLimits) {
    this.#limits = limits;
    const { textThreadsMax: threadsMax, textQueueMax: queueMax } = limits;
    this.#threads = new BoundedThreads({
      clock,
      threadsMax,
      queueMax,
      start: () =>
        new Worker(entryBeside(import.meta.url, "text-thread"), {
          name: "winnow-text",
          execArgv: [],
        }),
      full: () => this.#full(),
      does: "runs operations on long texts and many numbers",
    });
  }

  /**
   * Runs a step in a thread; `undefined` where it is little work. Steps with one signal are of one request. @throws as
   * `runHostStep`; WinnowError UNAVAILABLE if too many requests wait; the signal's reason when it is aborted while the
   * step waits
   */
  run(
    step: HostStep,
    inputs: readonly Tensor[],
    signal: Signal,
  ): Promise<readonly Tensor[]> | undefined {
    if (step.vocabulary !== undefined) return undefined;
    const work = stepWork(step, inputs);
    if (work <= WORK_MAX) return undefined;
    return new Promise((resolve, reject) => {
      signal.throwIfAborted();
      const lane = this.#lanes.get(signal) ?? this.#open(signal);
      lane.steps.push({ step, inputs, work, resolve, reject });
      lane.isGiant ||= work > GIANT_WORK;
      this.#activate();
    });
  }

  /** Ends all threads; steps under way are lost. */
  close(): Promise<void> {
    return this.#threads.close();
  }

  #open(signal: Signal): Lane {
    const { textThreadsMax, textQueueMax } = this.#limits;
    if (this.#lanes.size >= textThreadsMax + textQueueMax) throw this.#full();
    const lane: Lane = { signal, steps: [], isActive: false, isGiant: false };
    this.#lanes.set(signal, lane);
    signal.addEventListener("abort", () => this.#leave(lane), { once: true });
    return lane;
  }

  /** Lets the requests that came first run their steps, as many as there are threads; all but one of them giants. */
  #activate(): void {
    const { textThreadsMax } = this.#limits;
    const active = [...this.#lanes.values()].filter(({ isActive }) => isActive);
    let free = textThreadsMax - active.length;
    let giants = this.#threads.giantsMax - active.filter((lane) => lane.isGiant).length;
    for (const lane of this.#lanes.values()) {
      if (free <= 0) return;
      if (lane.isActive || (lane.isGiant && giants <= 0)) continue;
      lane.isActive = true;
      free -= 1;
      if (lane.isGiant) giants -= 1;
      void this.#runSteps(lane);
    }
  }

  /** Runs the steps of a request one after the other, until it has none. Never rejects. */
  async #runSteps(lane: Lane): Promise<void> {
    for (let next = lane.steps.pop(); next !== undefined; next = lane.steps.pop()) {
      await this.#runStep(next, lane.signal).then(next.resolve, next.reject);
      // Steps that read what was just made come first.
      await nextLoopTurn();
    }
    this.#lanes.delete(lane.signal);
    this.#activate();
  }

  async #runStep({ step, inputs, work }: WaitingStep, signal: Signal): Promise<readonly Tensor[]> {
    const outputs = await this.#threads.run({
      signal,
      isGiant: work > GIANT_WORK,
      bytes: work,
      prepare: () => {
        // Other steps read these too.
        const request = { step, inputs: inputs.map(copiedTensor) };
        return { request, transfer: tensorBuffers(request.inputs) };
      },
    });
    return outputs.map(revivedTensor);
  }

  /** A request is over: its steps wait no longer. */
  #leave(lane: Lane): void {
    for (const { reject } of lane.steps.splice(0)) reject(lane.signal.reason);
    if (lane.isActive) return;
    this.#lanes.delete(lane.signal);
  }

  #full(): WinnowError {
    const text = `Operations on long texts or many numbers of ${this.#limits.textQueueMax} requests wait already`;
    return new WinnowError("UNAVAILABLE", `${text} (--text-queue-max); try again`);
  }
}
