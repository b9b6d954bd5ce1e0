// `ModelInferRequest` from its bytes. Tensors stay bytes until the signature has said what they must be; what can
// be many is bounded before anything is allocated for it. A field that comes again replaces what came before, as
// protobuf has it.

import { VARINT_BYTES_MAX, WinnowError } from "@winnow/core";
import type { ProtobufReader } from "@winnow/core";
import { RANK_MAX } from "../../limits/tensor-shape.ts";
import { damaged, readerOf } from "../client-message.ts";

/** `InferParameter`. */
export type InferParameter =
  | { readonly kind: "bool"; readonly value: boolean }
  | { readonly kind: "integer"; readonly value: bigint }
  | { readonly kind: "double"; readonly value: number }
  | { readonly kind: "text"; readonly value: Uint8Array }
  | { readonly kind: "none" };

/** Parameters by name. */
export type InferParameters = ReadonlyMap<string, InferParameter>;

/** `InferInputTensor`. */
export interface InferInput {
  readonly name: string;
  readonly datatype: string;
  readonly shape: readonly bigint[];
  readonly parameters: InferParameters;
  /** Bytes of its `InferTensorContents`, if it has any. */
  readonly contents: Uint8Array | undefined;
}

/** `ModelInferRequest`. */
export interface InferMessage {
  readonly model: string;
  /** A number or a label; "" for the default. */
  readonly version: string;
  /** "" if there is none. */
  readonly id: string;
  readonly parameters: InferParameters;
  readonly inputs: readonly InferInput[];
  /** Those wanted; none: all. */
  readonly outputs: readonly { readonly name: string; readonly parameters: InferParameters }[];
  /** Values of the inputs, in their order; none: they stand in the inputs. */
  readonly raw: readonly Uint8Array[];
}

/** Which model a request is about. */
export interface ModelMessage {
  readonly name: string;
  /** As in `InferMessage`. */
  readonly version: string;
}

/** Bytes of a parameter: ids and filters, with what JSON adds to them. */
const PARAMETER_BYTES_MAX = 8 * 2 ** 20;

/** Counts what a request names. */
type Count = () => void;

/** @throws WinnowError INVALID_ARGUMENT */
export function readInferRequest(bytes: Uint8Array, namesMax: number): InferMessage {
  const reader = readerOf(bytes);
  const parameters = new Map<string, InferParameter>();
  const inputs: InferInput[] = [];
  const outputs: { name: string; parameters: InferParameters }[] = [];
  const raw: Uint8Array[] = [];
  let [model, version, id] = ["", "", ""];
  let names = 0;
  const count: Count = () => {
    if (++names <= namesMax) return;
    refuse(`The request has more than ${namesMax} inputs, outputs and parameters`);
  };
  while (reader.next()) {
    switch (reader.field) {
      case 1:
        model = reader.text();
        break;
      case 2:
        version = reader.text();
        break;
      case 3:
        id = reader.text();
        break;
      case 4:
        readParameter(reader, parameters, count);
        break;
      case 5:
        count();
        inputs.push(readInput(reader.message(), count));
        break;
      case 6:
        count();
        outputs.push(readOutput(reader.message(), count));
        break;
      case 7:
        count();
        raw.push(reader.view());
    }
  }
  return { model, version, id, parameters, inputs, outputs, raw };
}

/** `ModelReadyRequest` and `ModelMetadataRequest`. @throws WinnowError INVALID_ARGUMENT */
export function readModelRequest(bytes: Uint8Array): ModelMessage {
  const reader = readerOf(bytes);
  let [name, version] = ["", ""];
  while (reader.next()) {
    if (reader.field === 1) name = reader.text();
    else if (reader.field === 2) version = reader.text();
  }
  return { name, version };
}

/** A request that says nothing. @throws WinnowError INVALID_ARGUMENT for bytes that are no message */
export function readEmptyRequest(bytes: Uint8Array): void {
  const reader = readerOf(bytes);
  while (reader.next());
}

function readInput(reader: ProtobufReader, count: Count): InferInput {
  const parameters = new Map<string, InferParameter>();
  const shape: bigint[] = [];
  let [name, datatype] = ["", ""];
  let contents: Uint8Array | undefined;
  while (reader.next()) {
    switch (reader.field) {
      case 1:
        name = reader.text();
        break;
      case 2:
        datatype = reader.text();
        break;
      case 3:
        readSizes(reader, shape);
        break;
      case 4:
        readParameter(reader, parameters, count);
        break;
      case 5:
        // Merging them is legal, and nothing but an attack asks for it.
        if (contents !== undefined) throw damaged("contents of one input in two parts");
        contents = reader.view();
    }
  }
  return { name, datatype, shape, parameters, contents };
}

/** Sizes of a shape, packed or not. */
function readSizes(reader: ProtobufReader, shape: bigint[]): void {
  const isLong = reader.to - reader.from > RANK_MAX * VARINT_BYTES_MAX;
  if (!isLong) reader.int64s(shape);
  if (isLong || shape.length > RANK_MAX) refuse(`An input has a shape of rank above ${RANK_MAX}`);
}

function readOutput(
  reader: ProtobufReader,
  count: Count,
): { name: string; parameters: InferParameters } {
  const parameters = new Map<string, InferParameter>();
  let name = "";
  while (reader.next()) {
    if (reader.field === 1) name = reader.text();
    else if (reader.field === 2) readParameter(reader, parameters, count);
  }
  return { name, parameters };
}

function readParameter(
  reader: ProtobufReader,
  into: Map<string, InferParameter>,
  count: Count,
): void {
  count();
  const entry = reader.message();
  let name = "";
  let value: InferParameter = { kind: "none" };
  while (entry.next()) {
    if (entry.field === 1) name = entry.text();
    else if (entry.field === 2) value = readValue(entry.message());
  }
  into.set(name, value);
}

function readValue(reader: ProtobufReader): InferParameter {
  let value: InferParameter = { kind: "none" };
  while (reader.next()) {
    if (reader.field === 1) value = { kind: "bool", value: reader.bool() };
    else if (reader.field === 2) value = { kind: "integer", value: reader.int64() };
    else if (reader.field === 3) value = { kind: "text", value: textOf(reader) };
    else if (reader.field === 4) value = { kind: "double", value: reader.double() };
    else if (reader.field === 5) {
      value = { kind: "integer", value: BigInt.asUintN(64, reader.int64()) };
    }
  }
  return value;
}

function textOf(reader: ProtobufReader): Uint8Array {
  const { length } = reader.view();
  if (length <= PARAMETER_BYTES_MAX) return reader.view();
  refuse(`A parameter has ${length} bytes; at most ${PARAMETER_BYTES_MAX} are allowed`);
}

function refuse(message: string): never {
  throw new WinnowError("INVALID_ARGUMENT", message);
}
