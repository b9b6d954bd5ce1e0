// A directory with an `experiment.yaml` as a model version: arms, without tables. Its signatures are those of
// the models that it names, which only the router knows.

import { WinnowError } from "@winnow/core";
import type { ModelProgram, WarmUpRequest } from "@winnow/core";
import type { BoundFile, ModelVersion, PartitionReader } from "../model-version.ts";
import { DirectoryFiles } from "../onnx-directory/directory-files.ts";
import type { ReadingOptions } from "../saved-model/version-files.ts";
import {
  EXPERIMENT_BYTES_MAX,
  EXPERIMENT_FILE,
  parseExperiment,
} from "./experiment-description.ts";

/** Opens the directory. @throws WinnowError NOT_FOUND, DATA_LOSS, INVALID_ARGUMENT naming line and field */
export function openExperiment(
  directory: string,
  { store }: Pick<ReadingOptions, "store"> = {},
): ModelVersion {
  const files = new DirectoryFiles(directory, store);
  try {
    return new ExperimentVersion(files);
  } catch (error) {
    files.close();
    throw error;
  }
}

class ExperimentVersion implements ModelVersion {
  readonly directory: string;
  readonly program: ModelProgram;
  /** None: each arm's model is warmed up by its own requests. */
  readonly warmUp: readonly WarmUpRequest[] = [];
  readonly #files: DirectoryFiles;

  constructor(files: DirectoryFiles) {
    this.directory = files.directory;
    const where = `Cannot read ${EXPERIMENT_FILE}`;
    const content = files.read(EXPERIMENT_FILE, { where, bytesMax: EXPERIMENT_BYTES_MAX });
    const experiment = parseExperiment(content);
    const fingerprint = files.fingerprintWith([]);
    const none = { tables: [], vocabularies: [], denseModels: [], signatures: [] };
    this.program = { fingerprint, ...none, experiment };
    this.#files = files;
  }

  get files(): readonly BoundFile[] {
    return this.#files.boundFiles;
  }

  get bytesRead(): number {
    return this.#files.stored.bytesRead;
  }

  partitionBytes(): number {
    throw new WinnowError("NOT_FOUND", "An experiment has no partitions");
  }

  openPartition(): PartitionReader {
    throw new WinnowError("NOT_FOUND", "An experiment has no partitions");
  }

  close(): void {
    this.#files.close();
  }
}
