// Reads the requests of both services from their bytes. Tensors stay bytes until the signature says what they
// must be. As in protobuf, a repeated field replaces the former value, or is merged into it if it is a
// message.

import { WinnowError } from "@winnow/core";
import type { ProtobufReader } from "@winnow/core";
import { readerOf } from "../client-message.ts";

/** `ModelSpec`: which model, version and signature. */
export interface ModelSpec {
  readonly name: string;
  /** At most one of version and label is present. */
  readonly version?: bigint | undefined;
  readonly label?: string | undefined;
  readonly signatureName: string;
}

/** `PredictRequest`. */
export interface PredictMessage {
  readonly spec: ModelSpec | undefined;
  /** TensorProto bytes by input name. */
  readonly inputs: ReadonlyMap<string, Uint8Array>;
  readonly outputFilter: readonly string[];
}

/** `GetModelMetadataRequest`. */
export interface MetadataMessage {
  readonly spec: ModelSpec | undefined;
  readonly fields: readonly string[];
}

const NO_BYTES = new Uint8Array();

/** Reads a `PredictRequest`. @throws WinnowError INVALID_ARGUMENT */
export function readPredictRequest(bytes: Uint8Array, namesMax: number): PredictMessage {
  const reader = readerOf(bytes);
  const inputs = new Map<string, Uint8Array>();
  const outputFilter: string[] = [];
  let spec: ModelSpec | undefined;
  let names = 0;
  while (reader.next()) {
    if (reader.field === 1) spec = readModelSpec(reader.message(), spec);
    else if (reader.field === 2) readEntry(reader.message(), inputs);
    else if (reader.field === 3) outputFilter.push(reader.text());
    else continue;
    if (++names > namesMax) throw tooManyNames(namesMax);
  }
  return { spec, inputs, outputFilter };
}

/** Reads a `GetModelMetadataRequest`. @throws WinnowError INVALID_ARGUMENT */
export function readMetadataRequest(bytes: Uint8Array, namesMax: number): MetadataMessage {
  const reader = readerOf(bytes);
  const fields: string[] = [];
  let spec: ModelSpec | undefined;
  while (reader.next()) {
    if (reader.field === 1) spec = readModelSpec(reader.message(), spec);
    else if (reader.field === 2) fields.push(reader.text());
    if (fields.length > namesMax) throw tooManyNames(namesMax);
  }
  return { spec, fields };
}

/** Reads the only field of `GetModelStatusRequest`. @throws WinnowError INVALID_ARGUMENT */
export function readStatusRequest(bytes: Uint8Array): ModelSpec | undefined {
  const reader = readerOf(bytes);
  let spec: ModelSpec | undefined;
  while (reader.next()) if (reader.field === 1) spec = readModelSpec(reader.message(), spec);
  return spec;
}

const EMPTY_SPEC: ModelSpec = { name: "", signatureName: "" };

/** Reads a `ModelSpec`, merged into one that came before. */
export function readModelSpec(reader: ProtobufReader, before: ModelSpec = EMPTY_SPEC): ModelSpec {
  let { name, version, label, signatureName } = before;
  while (reader.next()) {
    if (reader.field === 1) name = reader.text();
    else if (reader.field === 2) {
      version = readInt64Value(reader.message(), version);
      label = undefined;
    } else if (reader.field === 3) signatureName = reader.text();
    else if (reader.field === 4) {
      label = reader.text();
      version = undefined;
    }
  }
  return { name, version, label, signatureName };
}

function readInt64Value(reader: ProtobufReader, before = 0n): bigint {
  let value = before;
  while (reader.next()) if (reader.field === 1) value = reader.int64();
  return value;
}

/** Reads one entry of a map from text to message. */
function readEntry(reader: ProtobufReader, into: Map<string, Uint8Array>): void {
  let key = "";
  let value: Uint8Array = NO_BYTES;
  while (reader.next()) {
    if (reader.field === 1) key = reader.text();
    else if (reader.field === 2) value = reader.view();
  }
  into.set(key, value);
}

/** The error for a request that lists more names than it may. */
export function tooManyNames(namesMax: number): WinnowError {
  return new WinnowError("INVALID_ARGUMENT", `The request lists more than ${namesMax} names`);
}
