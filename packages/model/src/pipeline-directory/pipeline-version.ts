// A directory with a `pipeline.yaml` as a model version: a program of stages, without tables.

import { WinnowError } from "@winnow/core";
import type { ModelProgram, SignatureTensor, WarmUpRequest } from "@winnow/core";
import type { BoundFile, ModelVersion, PartitionReader } from "../model-version.ts";
import { DirectoryFiles } from "../onnx-directory/directory-files.ts";
import type { ReadingOptions } from "../saved-model/version-files.ts";
import { readWarmUp } from "../saved-model/warm-up.ts";
import { LIST_BYTES_MAX } from "./item-list.ts";
import { PIPELINE_BYTES_MAX, PIPELINE_FILE, parsePipeline } from "./pipeline-description.ts";

/** Opens the directory. @throws WinnowError NOT_FOUND, DATA_LOSS, INVALID_ARGUMENT naming line and field */
export function openPipeline(
  directory: string,
  { store }: Pick<ReadingOptions, "store"> = {},
): ModelVersion {
  const files = new DirectoryFiles(directory, store);
  try {
    return new PipelineVersion(files, readProgram(files));
  } catch (error) {
    files.close();
    throw error;
  }
}

function readProgram(files: DirectoryFiles): ModelProgram {
  const where = `Cannot read ${PIPELINE_FILE}`;
  const content = files.read(PIPELINE_FILE, { where, bytesMax: PIPELINE_BYTES_MAX });
  const { inputs, items, pipeline } = parsePipeline(content, (name) =>
    files.read(name, { where: PIPELINE_FILE, bytesMax: LIST_BYTES_MAX }),
  );
  const declared = Array.from(inputs, ([name, type], value): SignatureTensor => {
    return { name, ...type, value, graphTensor: `${name}:0` };
  });
  const { scores, ids } = pipeline.outputs;
  const shape = [-1, -1];
  const value = declared.length;
  const outputs: readonly SignatureTensor[] = [
    { name: scores, dtype: "float32", shape, value, graphTensor: `${scores}:0` },
    { name: ids, dtype: items, shape, value: value + 1, graphTensor: `${ids}:0` },
  ];
  const signature = {
    name: "serving_default",
    methodName: "tensorflow/serving/predict",
    inputs: declared,
    outputs,
    constants: [],
    steps: [],
  };
  const fingerprint = files.fingerprintWith([]);
  const none = { tables: [], vocabularies: [], denseModels: [] };
  return { fingerprint, ...none, signatures: [signature], pipeline };
}

class PipelineVersion implements ModelVersion {
  readonly directory: string;
  readonly program: ModelProgram;
  readonly warmUp: readonly WarmUpRequest[];
  readonly #files: DirectoryFiles;

  constructor(files: DirectoryFiles, program: ModelProgram) {
    this.directory = files.directory;
    this.program = program;
    this.warmUp = readWarmUp(files.stored, program.signatures);
    this.#files = files;
  }

  get files(): readonly BoundFile[] {
    return this.#files.boundFiles;
  }

  get bytesRead(): number {
    return this.#files.stored.bytesRead;
  }

  partitionBytes(): number {
    throw new WinnowError("NOT_FOUND", "A pipeline has no partitions");
  }

  openPartition(): PartitionReader {
    throw new WinnowError("NOT_FOUND", "A pipeline has no partitions");
  }

  close(): void {
    this.#files.close();
  }
}
