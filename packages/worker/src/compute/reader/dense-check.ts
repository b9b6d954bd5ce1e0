// Whether ONNX Runtime can load the dense parts of a version, checked before the version is opened. Routers
// run these parts, but workers' announcements decide which version becomes the default and when the one
// before it is given up. The check runs in a process of its own, so that a graph that crashes ONNX Runtime
// is refused as well.
//
// To start that process and to load ONNX Runtime takes 0.2 to 0.3 s of processor time, and to load the dense
// parts of most models a few ms. So the process is kept for the versions that are opened next, which on a
// worker that starts are all of them, and ends when none has come for a while.

import type { DenseEngine } from "@winnow/accelerator";
import { WinnowError, excerpt } from "@winnow/core";
import type { Clock, Timer } from "@winnow/core";

import type { CheckProgram } from "./model-reader.ts";

/** How long an engine is kept after its last check. Its process takes about 60 MB. */
const KEPT_MS = 3000;

/**
 * The check of dense parts, with engines made by `start`. A machine without enough memory for a part, or one
 * that cannot start the process, does not fail the version: routers run it, not this worker.
 * @throws WinnowError INVALID_ARGUMENT
 */
export function denseCheck(start: () => DenseEngine, clock: Clock): CheckProgram {
  const kept = new KeptEngine(start, clock);
  return async ({ denseModels }, directory) => {
    if (denseModels.length === 0) return;
    const engine = kept.take();
    let isSound = false;
    try {
      for (const onnx of denseModels) {
        const model = await engine.load(onnx, { model: directory, version: 0 });
        await model.release();
      }
      isSound = true;
    } catch (error) {
      if (!(error instanceof WinnowError) || error.code !== "INVALID_ARGUMENT") return;
      const text = `Cannot serve ${excerpt(directory)}: ${error.message}`;
      throw new WinnowError("INVALID_ARGUMENT", text, { cause: error });
    } finally {
      if (isSound) kept.giveBack(engine);
      else await engine.close();
    }
  };
}

/** At most one engine that waits for the next check. One in which a part could not be loaded is never kept. */
class KeptEngine {
  readonly #start: () => DenseEngine;
  readonly #clock: Clock;
  #idle: { readonly engine: DenseEngine; readonly end: Timer } | undefined;

  constructor(start: () => DenseEngine, clock: Clock) {
    this.#start = start;
    this.#clock = clock;
  }

  /** The engine that waits, or a new one. It is the caller's until it is given back. */
  take(): DenseEngine {
    if (this.#idle === undefined) return this.#start();
    const { engine, end } = this.#idle;
    this.#clock.clearTimer(end);
    this.#idle = undefined;
    return engine;
  }

  giveBack(engine: DenseEngine): void {
    // Of two checks at a time each has its own engine.
    if (this.#idle !== undefined) return void engine.close();
    const end = this.#clock.setTimer(KEPT_MS, () => {
      this.#idle = undefined;
      void engine.close();
    });
    this.#idle = { engine, end };
  }
}
