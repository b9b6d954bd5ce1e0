// A program as bytes, for the way from a worker to a router. A decoded program is checked as a
// whole: every reference has its target, and every value is defined before it is read. So no run of
// the program meets a missing table, value or model.

import { fingerprint } from "../../identity.ts";
import {
  count,
  count32,
  flag,
  listOf,
  optional,
  partialSizes,
  property,
  read,
  refuse,
  text,
} from "../header-reader.ts";
import type { HeaderReader, HeaderValue } from "../header-reader.ts";
import type { ModelProgram, SignatureProgram, SignatureTensor, Vocabulary } from "../program.ts";
import { optionalExperiment } from "../composed/experiment.ts";
import { optionalPipeline } from "../composed/pipeline.ts";
import { BlobReader, BlobWriter } from "../program-blobs.ts";
import { valuesDefinedBy, valuesReadBy } from "../program-plan.ts";
import { encodeRankedItems, rankedItemsReader } from "./column-codec.ts";
import { encodeStep, stepReader } from "./step-codec.ts";
import type { StepSurroundings } from "./step-codec.ts";
import { encodeInlineTable, encodeTable, inlineTableReader, tableReader } from "./table-codec.ts";
import { blob, dtype, encodeTensor, tensorReader } from "./tensor-codec.ts";
import { encodeWarmUp, warmUpReader } from "./warm-up.ts";
import type { WarmUpRequest } from "./warm-up.ts";
import type { InlineTable } from "./table-codec.ts";
import type { UncutTable } from "../uncut-table.ts";

/** A program, and the small tables that travel with it by position in `ModelProgram.tables`. */
export interface ProgramPackage {
  readonly program: ModelProgram;
  readonly inlineTables: ReadonlyMap<number, InlineTable>;
  /** Requests to replay before the version answers; absent without any. */
  readonly warmUp?: readonly WarmUpRequest[];
}

/** Packs a program without inline tables. */
export function encodeProgram(program: ModelProgram): Uint8Array {
  return encodeProgramPackage({ program, inlineTables: new Map() });
}

/** Unpacks and checks a program. @throws WinnowError DATA_LOSS */
export function decodeProgram(bytes: Uint8Array): ModelProgram {
  return decodeProgramPackage(bytes).program;
}

/** Packs a program with its inline tables. */
export function encodeProgramPackage(contents: ProgramPackage): Uint8Array {
  const { program, inlineTables, warmUp } = contents;
  const blobs = new BlobWriter();
  const header = {
    fingerprint: program.fingerprint,
    tables: program.tables.map((table) => encodeTable(table, blobs)),
    vocabularies: program.vocabularies.map(({ name, keys, values }) => ({
      name,
      keys: encodeTensor(keys, blobs),
      values: encodeTensor(values, blobs),
    })),
    denseModels: program.denseModels.map((onnx) => blobs.add(onnx)),
    // Routers of releases without experiments refuse a program that lacks this list; otherwise they would
    // serve a model without signatures.
    signatures:
      program.experiment === undefined
        ? program.signatures.map((signature) => encodeSignature(signature, blobs))
        : undefined,
    uncutTables: program.uncutTables,
    rankedItems: program.rankedItems?.map((items) => encodeRankedItems(items, blobs)),
    pipeline: program.pipeline,
    experiment: program.experiment,
    inlineTables: Array.from(inlineTables, (table) => encodeInlineTable(table, blobs)),
    warmUp: warmUp?.map((request) => encodeWarmUp(request, blobs)),
  };
  return blobs.finish(header);
}

/** Unpacks and checks; arrays are copies, but a dense model that is most of the bytes is a view of them. @throws WinnowError DATA_LOSS */
export function decodeProgramPackage(bytes: Uint8Array): ProgramPackage {
  const blobs = new BlobReader(bytes);
  const header: HeaderValue = { value: blobs.header, path: "" };
  const tables = read(header, "tables", listOf(tableReader(blobs)));
  const vocabularies = read(header, "vocabularies", listOf(vocabularyReader(blobs)));
  const denseModels = read(header, "denseModels", listOf(blob)).map((onnx) => blobs.bytes(onnx));
  const rankedItems = read(header, "rankedItems", optional(listOf(rankedItemsReader(blobs))));
  const around: StepSurroundings = {
    tables,
    vocabularies: vocabularies.length,
    denseModels: denseModels.length,
    rankedItems: rankedItems ?? [],
  };
  const uncutTables = read(header, "uncutTables", optional(listOf(uncutTable)));
  const pipeline = read(header, "pipeline", optionalPipeline);
  const experiment = read(header, "experiment", optionalExperiment);
  const readSignatures = listOf(
    signatureReader(blobs, { ...around, isPipeline: pipeline !== undefined }),
  );
  const program: ModelProgram = {
    fingerprint: fingerprint(read(header, "fingerprint", text)),
    tables,
    vocabularies,
    denseModels,
    signatures: experiment === undefined ? read(header, "signatures", readSignatures) : [],
    ...(uncutTables !== undefined && { uncutTables }),
    ...(rankedItems !== undefined && { rankedItems }),
    ...(pipeline !== undefined && { pipeline }),
    ...(experiment !== undefined && { experiment }),
  };
  const inline = read(header, "inlineTables", listOf(inlineTableReader(blobs, tables)));
  const warmUp = read(header, "warmUp", warmUpReader(blobs, program.signatures));
  return { program, inlineTables: new Map(inline), ...(warmUp.length > 0 && { warmUp }) };
}

const uncutTable: HeaderReader<UncutTable> = (from) => {
  const obstacle = property(from, "obstacle");
  return {
    tensor: read(from, "tensor", text),
    bytes: read(from, "bytes", count),
    ranking: read(from, "ranking", optional(text)),
    obstacle: { node: read(obstacle, "node", text), op: read(obstacle, "op", text) },
  };
};

function vocabularyReader(blobs: BlobReader): HeaderReader<Vocabulary> {
  return (from) => {
    const keys = read(from, "keys", tensorReader(blobs));
    const values = read(from, "values", tensorReader(blobs));
    const isKeyed = keys.dtype === "string" || keys.dtype === "int64" || keys.dtype === "int32";
    if (!isKeyed || keys.data.length !== values.data.length) {
      throw refuse(from, "string, int32 or int64 keys with one value each");
    }
    return { name: read(from, "name", text), keys, values };
  };
}

function encodeSignature(signature: SignatureProgram, blobs: BlobWriter): unknown {
  return {
    ...signature,
    constants: signature.constants.map(({ value, tensor }) => ({
      value,
      tensor: encodeTensor(tensor, blobs),
    })),
    steps: signature.steps.map(encodeStep),
  };
}

const signatureTensor: HeaderReader<SignatureTensor> = (from) => ({
  name: read(from, "name", text),
  graphTensor: read(from, "graphTensor", text),
  value: read(from, "value", count32),
  dtype: read(from, "dtype", dtype),
  shape: read(from, "shape", optional(partialSizes)),
});

function signatureReader(
  blobs: BlobReader,
  around: StepSurroundings & { readonly isPipeline: boolean },
): HeaderReader<SignatureProgram> {
  const tensor = tensorReader(blobs);
  return (from) => {
    const signature: SignatureProgram = {
      name: read(from, "name", text),
      methodName: read(from, "methodName", text),
      inputs: read(from, "inputs", listOf(signatureTensor)),
      outputs: read(from, "outputs", listOf(signatureTensor)),
      constants: read(
        from,
        "constants",
        listOf((item) => ({
          value: read(item, "value", count32),
          tensor: read(item, "tensor", tensor),
        })),
      ),
      steps: read(from, "steps", listOf(stepReader(around))),
      isElementwise: read(from, "isElementwise", optional(flag)),
    };
    // The outputs of a pipeline come from its stages, not from steps.
    if (!around.isPipeline) checkDataflow(signature, from);
    return signature;
  };
}

/** Checks that each value is defined once, and before any step or output reads it. */
function checkDataflow(signature: SignatureProgram, from: HeaderValue): void {
  const defined = new Set<number>();
  const define = (value: number): void => {
    if (defined.has(value)) throw refuse(from, `defining value ${value} once`);
    defined.add(value);
  };
  const need = (value: number): void => {
    if (!defined.has(value)) throw refuse(from, `defining value ${value} before it is read`);
  };
  for (const { value } of [...signature.inputs, ...signature.constants]) define(value);
  for (const step of signature.steps) {
    for (const value of valuesReadBy(step)) need(value);
    for (const value of valuesDefinedBy(step)) define(value);
  }
  for (const { value } of signature.outputs) need(value);
}
