// The versions that requests hold: a version that is pinned stays loaded, and answers the request that pinned
// it, whatever becomes the default meanwhile. A pin of an experiment holds its arms, a request of a pipeline pins
// all of its models (S2).

import type { Experiment, ModelProgram, Pipeline } from "@winnow/core";
import {
  fallbackPipelineOf,
  modelsOf,
  Outstanding,
  toWinnowError,
  WinnowError,
} from "@winnow/core";
import type { RoutedVersion } from "@winnow/cluster";
import { commonSignatures } from "./experiments/arm-signatures.ts";
import type { ArmPin } from "./experiments/experiment-run.ts";
import type { ModelTarget, PinnedModel } from "./predictor.ts";
import type { KnownModels } from "./versions/known-models.ts";
import type { LoadedProgram } from "./versions/loaded-program.ts";
import type { ProgramStore } from "./versions/program-store.ts";

/** A pinned version, as the router that made it sees it. */
export interface Pin extends PinnedModel {
  readonly target: ModelTarget;
  readonly loaded: LoadedProgram;
  readonly routed: RoutedVersion;
  /** Of an experiment: the models of its arms, which are released together with it. */
  readonly arms: readonly ArmPin<Pin>[] | undefined;
  /** To be called when the pin is released: each gives back the candidates that a request of this pin holds. */
  readonly held: (() => void)[];
  /** Number of this pin among the pins of this router. */
  id: number;
}

/** What pins are made from. */
export interface PinParts {
  readonly known: KnownModels;
  readonly programs: ProgramStore;
  /** Called after each release. */
  readonly onRelease: () => void;
}

/** All pins of a router. */
export class Pins {
  readonly #parts: PinParts;
  readonly #pins = new Outstanding<Pin>();
  #closed = false;

  constructor(parts: PinParts) {
    this.#parts = parts;
  }

  /** Pins that are not released. */
  get size(): number {
    return this.#pins.size;
  }

  /** The pin that `pin()` returned. @throws RangeError if it is released, or another router's */
  heldBy(pinned: PinnedModel): Pin {
    const pin = pinned as Pin;
    if (this.#pins.get(pin.id) === pin) return pin;
    throw new RangeError("predict() without a pin of this router");
  }

  /** Pins the version that a target means now. @throws WinnowError NOT_FOUND, UNAVAILABLE, FAILED_PRECONDITION */
  pin(target: ModelTarget): Pin {
    return this.#pin(target, false);
  }

  /** The same for a model that an experiment asks: of an experiment the arms are not pinned. */
  pinArm(target: ModelTarget): Pin {
    return this.#pin(target, true);
  }

  #pin(target: ModelTarget, isArm: boolean): Pin {
    if (this.#closed) throw new WinnowError("UNAVAILABLE", "The router is closed");
    const { known, programs } = this.#parts;
    const routed = known.resolve(target);
    const { model, version, fingerprint } = routed.key;
    const loaded = programs.pin(fingerprint);
    if (loaded === undefined) {
      const cause = programs.errorOf(fingerprint);
      const message = `Model ${model} version ${version} is being loaded by this router; try again`;
      throw new WinnowError("UNAVAILABLE", message, { cause });
    }
    const arms = isArm ? undefined : this.#pinArms(loaded.program.experiment);
    const error = arms === undefined ? undefined : faultOfAll(arms);
    if (error !== undefined) {
      programs.release(fingerprint);
      throw error;
    }
    const pin: Pin = {
      target,
      model,
      version,
      program: arms === undefined ? loaded.program : withArms(loaded.program, arms),
      loaded,
      routed,
      arms,
      held: [],
      id: 0,
      release: () => {
        if (!this.#pins.delete(pin.id)) throw new RangeError(`${model}/${version} released twice`);
        for (const giveBack of pin.held) giveBack();
        for (const arm of arms ?? []) if ("pinned" in arm) arm.pinned.release();
        programs.release(fingerprint);
        this.#parts.onRelease();
      },
    };
    pin.id = this.#pins.add(pin);
    return pin;
  }

  /** The models of an experiment's arms, or the reason why an arm cannot answer. */
  #pinArms(experiment: Experiment | undefined): readonly ArmPin<Pin>[] | undefined {
    return experiment?.arms.map((arm) => {
      try {
        const pinned = this.#pin(arm, true);
        if (pinned.program.experiment === undefined) {
          return { pinned, isWhole: pinned.routed.coverage === 1 };
        }
        pinned.release();
        const text = `Model ${arm.model} is an experiment; name the models that it asks`;
        throw new WinnowError("FAILED_PRECONDITION", text);
      } catch (error) {
        return { error: toWinnowError(error) };
      }
    });
  }

  /** Pins all models of a pipeline, or none; with the pipeline that answers unknown users and its models. By name ascending. */
  pinMembers(pipeline: Pipeline): ReadonlyMap<string, Pin> {
    const pinned = new Map<string, Pin>();
    const fallback = fallbackPipelineOf(pipeline);
    const pinAll = (models: readonly string[]): void => {
      for (const model of models) {
        if (!pinned.has(model)) pinned.set(model, this.#pinMember(model));
      }
    };
    try {
      pinAll(modelsOf(pipeline));
      if (fallback === undefined) return pinned;
      const other = this.#pinMember(fallback, true);
      pinned.set(fallback, other);
      if (other.program.pipeline !== undefined) pinAll(modelsOf(other.program.pipeline));
      return new Map([...pinned].toSorted(([a], [b]) => (a < b ? -1 : 1)));
    } catch (error) {
      for (const member of pinned.values()) member.release();
      throw error;
    }
  }

  /**
   * Pins a model of a pipeline. @throws WinnowError UNAVAILABLE where no worker serves it;
   * FAILED_PRECONDITION for an experiment, or a pipeline where none may stand
   */
  #pinMember(model: string, mayBePipeline = false): Pin {
    const member = this.#pinNeeded(model);
    const { pipeline, experiment } = member.program;
    const isTaken = mayBePipeline || pipeline === undefined;
    if (isTaken && experiment === undefined) return member;
    member.release();
    const kind = experiment === undefined ? "a pipeline" : "an experiment";
    const text = `The pipeline names ${model}, which is ${kind}; name the models that it asks`;
    throw new WinnowError("FAILED_PRECONDITION", text);
  }

  #pinNeeded(model: string): Pin {
    try {
      return this.#pin({ model }, false);
    } catch (cause) {
      const text = `The pipeline needs model ${model}, which cannot answer`;
      throw new WinnowError("UNAVAILABLE", `${text}: ${toWinnowError(cause).message}`, { cause });
    }
  }

  /** Refuses new pins. Those that are held may still be released. */
  close(): void {
    this.#closed = true;
  }
}

/** The program of an experiment, reduced to the signatures of those arms that can answer. */
function withArms(program: ModelProgram, arms: readonly ArmPin<Pin>[]): ModelProgram {
  const programs = arms.flatMap((arm) => ("pinned" in arm ? [arm.pinned.program] : []));
  return { ...program, signatures: commonSignatures(programs) };
}

/** Why no arm can answer; `undefined` if one can. */
function faultOfAll(arms: readonly ArmPin<Pin>[]): WinnowError | undefined {
  const errors = arms.flatMap((arm) => ("error" in arm ? [arm.error] : []));
  return errors.length === arms.length ? errors[0] : undefined;
}
