// Whether ONNX Runtime can load the dense parts of a version, and whether what they give fits what takes it where an
// export does not declare its sizes, checked before the version is opened: by what ONNX Runtime infers or, of a
// query, by a run on zeros (dense-trial.ts). Routers run these parts, but workers' announcements decide which version
// becomes the default and when the one before it is given up. The check runs in a process of its own, so that a graph
// that crashes ONNX Runtime is refused as well.
//
// To start that process and to load ONNX Runtime takes 0.2 to 0.3 s of processor time, and to load the dense
// parts of most models a few ms. So the process is kept for the versions that are opened next, which on a
// worker that starts are all of them, and ends when none has come for a while. Where all parts of a version were
// loaded on this machine before and no run is needed, no process is started (kept-shapes.ts).

import type { DenseEngine, DenseShapes } from "@winnow/accelerator";
import { WinnowError, excerpt } from "@winnow/core";
import type { Clock, ModelProgram, Timer, ValueId } from "@winnow/core";

import { type DenseTrial, trialsOf, triedWidth } from "./dense-trial.ts";
import { type KeptShapes, noShapes } from "./kept-shapes.ts";
import type { CheckProgram } from "./model-reader.ts";

/** How long an engine is kept after its last check. Its process takes about 60 MB. */
const KEPT_MS = 3000;

/**
 * The check of dense parts, with engines made by `start`, as `checkDenseParts` does it.
 * @throws WinnowError INVALID_ARGUMENT
 */
export function denseCheck(
  start: () => DenseEngine,
  clock: Clock,
  kept: KeptShapes = noShapes,
): CheckProgram {
  const engines = new KeptEngine(start, clock);
  return async (program, directory) => {
    const known = program.denseModels.map((onnx) => kept.get(onnx));
    if (isAllKnown(program, known)) return refuseMisfits(program, known, directory);
    const engine = engines.take();
    let isSound = false;
    try {
      isSound = await checkDenseParts({ engine, clock, kept }, program, directory);
    } finally {
      if (isSound) engines.giveBack(engine);
      else await engine.close();
    }
  };
}

interface DenseCheckParts {
  readonly engine: DenseEngine;
  readonly clock: Clock;
  /** Told of the parts that can be loaded. Default: nothing is kept. */
  readonly kept?: KeptShapes;
}

/**
 * Whether all dense parts could be checked. A machine without enough memory for a part, or one that cannot start the
 * process, does not fail the version: routers run it, not this worker.
 * @throws WinnowError INVALID_ARGUMENT for a version whose dense parts cannot be run
 */
export async function checkDenseParts(
  { engine, clock, kept = noShapes }: DenseCheckParts,
  program: ModelProgram,
  directory: string,
): Promise<boolean> {
  const shapes: (DenseShapes | undefined)[] = [];
  let isSound = true;
  try {
    for (const onnx of program.denseModels) {
      const model = await engine.load(onnx, { model: directory, version: 0 });
      shapes.push(model.shapes);
      if (model.shapes !== undefined) kept.keep(onnx, model.shapes);
      for (const trial of trialsOf(program, shapes.length - 1, model)) {
        const width = await triedWidth(model, trial, clock);
        // The run may still be under way, or have left something behind.
        if (width === undefined) isSound = false;
        else checkWidth(trial, width);
      }
      if (isSound) await model.release();
    }
  } catch (error) {
    if (!(error instanceof WinnowError) || error.code !== "INVALID_ARGUMENT") return false;
    throw refusal(directory, error);
  }
  refuseMisfits(program, shapes, directory);
  return isSound;
}

/** Whether the shapes of all parts are known, and no run must tell a width. */
function isAllKnown(program: ModelProgram, known: readonly (DenseShapes | undefined)[]): boolean {
  return known.every(
    (shapes, part) => shapes !== undefined && trialsOf(program, part, { shapes }).length === 0,
  );
}

/** `checkShapes`, which names the version. @throws WinnowError INVALID_ARGUMENT */
function refuseMisfits(
  program: ModelProgram,
  shapes: readonly (DenseShapes | undefined)[],
  directory: string,
): void {
  // Without a dense part there is nothing to fit.
  if (shapes.length === 0) return;
  try {
    checkShapes(program, shapes);
  } catch (error) {
    if (error instanceof WinnowError) throw refusal(directory, error);
    throw error;
  }
}

function refusal(directory: string, cause: WinnowError): WinnowError {
  const text = `Cannot serve ${excerpt(directory)}: ${cause.message}`;
  return new WinnowError("INVALID_ARGUMENT", text, { cause });
}

/** @throws WinnowError INVALID_ARGUMENT for a query of another width than what is searched */
function checkWidth({ output, table, width }: DenseTrial, found: number): void {
  if (found === width) return;
  throw unfit(
    { name: output, shape: [-1, found] },
    [-1, width],
    `the search of "${excerpt(table)}"`,
  );
}

function unfit(
  { name, shape }: { readonly name: string; readonly shape: Shape },
  wanted: Shape,
  taker: string,
): WinnowError {
  const text = `output "${excerpt(name)}" of its graph is [${textOf(shape)}] where ${taker} takes [${textOf(wanted)}]`;
  return new WinnowError("INVALID_ARGUMENT", `${text}; export both of one training`);
}

type Shape = readonly number[];

/**
 * Refuses what would fail at every request: a part that gives vectors of another width than the next part, or the
 * searched table, takes.
 * @throws WinnowError INVALID_ARGUMENT
 */
function checkShapes(
  { signatures, tables }: ModelProgram,
  shapes: readonly (DenseShapes | undefined)[],
): void {
  for (const { steps } of signatures) {
    const given = new Map<ValueId, { readonly name: string; readonly shape: Shape }>();
    const check = (value: ValueId, wanted: Shape, taker: string): void => {
      const found = given.get(value);
      if (found === undefined || fits(found.shape, wanted)) return;
      throw unfit(found, wanted, taker);
    };
    for (const step of steps) {
      if (step.kind === "dense") {
        const known = shapes[step.model];
        for (const { name, value } of step.inputs) {
          check(value, known?.inputs[name] ?? [], "the next part");
        }
        for (const { name, value } of step.outputs) {
          const shape = known?.outputs[name];
          if (shape !== undefined) given.set(value, { name, shape });
        }
      } else if (step.kind === "topK") {
        const { name, dim } = tables[step.table]!;
        check(step.query, [-1, dim * (step.vectors ?? 1)], `the search of "${excerpt(name)}"`);
      }
    }
  }
}

/** Whether both may be of one tensor; [] is also a shape of which nothing is known. */
function fits(given: Shape, wanted: Shape): boolean {
  if (given.length === 0 || wanted.length === 0) return true;
  if (given.length !== wanted.length) return false;
  return given.every((size, axis) => size < 0 || wanted[axis]! < 0 || size === wanted[axis]);
}

function textOf(shape: Shape): string {
  return shape.map((size) => (size < 0 ? "?" : size)).join(",");
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
