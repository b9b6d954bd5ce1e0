// Threads for host steps that read or make so much text that the event loop would stand still: a megabyte that
// TextVectorization cuts into words takes a second. Other requests are answered meanwhile. Steps that look texts up
// in a vocabulary stay, as it would have to go along.

import { Worker } from "node:worker_threads";
import { WinnowError, entryBeside, textWork } from "@winnow/core";
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

/** Work, in the unit of `textWork`, that the event loop does itself: 4096 short strings, or 128 KiB. */
const WORK_MAX = 2 ** 17;
/** A step of at least so much work is a giant; one thread is left to others. */
const GIANT_WORK = 2 ** 22;

/** The threads, and the steps that wait for one. */
export class TextThreads {
  readonly #threads: BoundedThreads<TextRequest, readonly Tensor[]>;

  constructor(
    clock: Clock,
    { textThreadsMax: threadsMax, textQueueMax: queueMax }: TextThreadLimits,
  ) {
    this.#threads = new BoundedThreads({
      clock,
      threadsMax,
      queueMax,
      start: () =>
        new Worker(entryBeside(import.meta.url, "text-thread"), {
          name: "winnow-text",
          execArgv: [],
        }),
      full: () =>
        new WinnowError(
          "UNAVAILABLE",
          `${queueMax} operations on long texts wait already (--text-queue-max); try again`,
        ),
      does: "runs operations on long texts",
    });
  }

  /**
   * Runs a step in a thread; `undefined` where it is little work. @throws as `runHostStep`; WinnowError UNAVAILABLE if
   * too many wait; the signal's reason when it is aborted while the step waits
   */
  run(
    step: HostStep,
    inputs: readonly Tensor[],
    signal: Signal,
  ): Promise<readonly Tensor[]> | undefined {
    if (step.vocabulary !== undefined) return undefined;
    const work = textWork(step, inputs);
    if (work <= WORK_MAX) return undefined;
    return this.#run({ step, inputs, work }, signal);
  }

  /** Ends all threads; steps under way are lost. */
  close(): Promise<void> {
    return this.#threads.close();
  }

  async #run(
    { step, inputs, work }: TextRequest & { readonly work: number },
    signal: Signal,
  ): Promise<readonly Tensor[]> {
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
}
