// Opens what questions are asked of: a version and, where it is a pipeline or an experiment, the versions that it
// names, which must lie in the same directory of models.

import path from "node:path";
import type { DenseEngine } from "@winnow/accelerator";
import { WinnowError, excerpt, fallbackPipelineOf } from "@winnow/core";
import type { Experiment, ModelProgram, Pipeline } from "@winnow/core";
import type { ModelVersion } from "@winnow/model";
import { lackOf } from "@winnow/router";
import { type ArmModel, ReferenceExperiment } from "./reference-experiment.ts";
import { ReferenceModel } from "./reference-model.ts";
import {
  type FallbackPipeline,
  type PipelineMember,
  ReferencePipeline,
} from "./reference-pipeline.ts";
import type { Reference } from "./reference.ts";

/** A version of a model, and where it lies. */
export interface LocatedVersion {
  readonly model: string;
  readonly version: number;
  readonly directory: string;
}

/** What opening takes. */
export interface OpeningParts {
  readonly engine: DenseEngine;
  /** The newest version of each model: what a name alone means. */
  readonly newest: readonly LocatedVersion[];
  readonly open: (directory: string) => Promise<ModelVersion>;
}

/** A reference with the files that it reads. */
export interface OpenedReference {
  readonly reference: Reference;
  /** Frees the reference and closes the files. */
  close(): Promise<void>;
}

/** @throws WinnowError as files are read, or saying what a pipeline or an experiment lacks */
export async function openReference(
  located: LocatedVersion,
  parts: OpeningParts,
): Promise<OpenedReference> {
  const opening = new Opening(parts);
  try {
    const reference = await opening.referenceOf(located);
    return { reference, close: () => opening.close() };
  } catch (error) {
    await opening.close();
    throw error;
  }
}

class Opening {
  readonly #parts: OpeningParts;
  readonly #versions: ModelVersion[] = [];
  /** By directory: arms and stages may name one model more than once. */
  readonly #models = new Map<string, ReferenceModel>();
  /** By directory. */
  readonly #programs = new Map<string, ModelProgram>();

  constructor(parts: OpeningParts) {
    this.#parts = parts;
  }

  async referenceOf(located: LocatedVersion): Promise<Reference> {
    const { model, directory } = located;
    const known = this.#models.get(directory);
    if (known !== undefined) return known;
    const version = await this.#parts.open(directory);
    this.#versions.push(version);
    this.#programs.set(directory, version.program);
    const { pipeline, experiment, fingerprint } = version.program;
    if (pipeline !== undefined) return this.#pipelineOf(version, pipeline);
    if (experiment !== undefined) {
      const arms = await this.#armsOf(experiment);
      return new ReferenceExperiment({ model, fingerprint }, experiment, arms);
    }
    const reference = await ReferenceModel.load(version, this.#parts.engine, located);
    this.#models.set(directory, reference);
    return reference;
  }

  async close(): Promise<void> {
    for (const reference of this.#models.values()) await reference.release();
    for (const version of this.#versions) version.close();
  }

  async #pipelineOf(version: ModelVersion, pipeline: Pipeline): Promise<Reference> {
    const { stages } = pipeline;
    const members = new Map<string, PipelineMember>();
    for (const stage of stages) {
      if (stage.kind !== "retrieve" && stage.kind !== "rank") continue;
      const { model } = stage;
      const located = this.#newest(model);
      const reference = await this.referenceOf(located);
      if (!(reference instanceof ReferenceModel)) {
        throw new WinnowError("FAILED_PRECONDITION", `${excerpt(model)} is no model of its own`);
      }
      members.set(model, { version: located.version, reference });
    }
    const fallback = await this.#fallbackOf(pipeline);
    // What answers would be put together wrongly: no server gives any.
    const lack = lackOf(version.program, (name) =>
      this.#programs.get(this.#newest(name).directory)!,
    );
    if (lack === undefined) return new ReferencePipeline(version, pipeline, members, fallback);
    throw new WinnowError("FAILED_PRECONDITION", `the pipeline waits: ${lack}`);
  }

  /** The pipeline that answers unknown users, which has no such pipeline itself. */
  async #fallbackOf(pipeline: Pipeline): Promise<FallbackPipeline | undefined> {
    const model = fallbackPipelineOf(pipeline);
    if (model === undefined) return undefined;
    const located = this.#newest(model);
    const reference = await this.referenceOf(located);
    if (reference instanceof ReferencePipeline) {
      return { model, version: located.version, reference };
    }
    throw new WinnowError("FAILED_PRECONDITION", `${excerpt(model)} is no pipeline`);
  }

  async #armsOf({ arms }: Experiment): Promise<readonly ArmModel[]> {
    const opened: ArmModel[] = [];
    for (const { name, model, version } of arms) {
      const newest = this.#newest(model);
      const located = version === undefined ? newest : sibling(newest, version);
      const reference = await this.referenceOf(located);
      if (reference instanceof ReferenceExperiment) {
        throw new WinnowError("FAILED_PRECONDITION", `arm ${name} names an experiment`);
      }
      opened.push({ model, version: located.version, reference });
    }
    return opened;
  }

  /** @throws WinnowError NOT_FOUND */
  #newest(model: string): LocatedVersion {
    const found = this.#parts.newest.find((each) => each.model === model);
    if (found !== undefined) return found;
    const names = this.#parts.newest.map((each) => each.model).join(", ");
    const text = `it asks model ${excerpt(model)}, which does not lie beside it; there are ${excerpt(names)}`;
    throw new WinnowError("NOT_FOUND", text);
  }
}

/** Another version of the same model, in a directory or an object store. */
function sibling({ model, directory }: LocatedVersion, version: number): LocatedVersion {
  const base = directory.slice(0, -path.posix.basename(directory).length);
  return { model, version, directory: `${base}${version}` };
}
