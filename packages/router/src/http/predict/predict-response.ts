// Output tensors → the body of a predict answer, byte for byte as TensorFlow Serving lays it out
// (util/json_tensor.cc, MakeRowFormatJsonFromTensors and MakeColumnarFormatJsonFromTensors). A single output
// stands alone; several become members, in the signature's order.
//
//   row      {                                   column   {
//                "predictions": [[-2.25], [1.5]              "outputs": [
//                ]                                               -2.25,
//            }                                                   1.5 …
//
// In the row format each instance has its own list. In the column format each output is one tensor, so lists
// of different lengths (exclusions may leave fewer than k items for one instance) are an error. Attributes of
// items and explanations, if the request wants them, follow the outputs as JSON objects.

import { requireEqualRows, WinnowError, nextLoopTurn } from "@winnow/core";
import type { Tensor } from "@winnow/core";
import { ATTRIBUTES_OUTPUT, EXPLANATION_OUTPUT, VECTORS_OUTPUT } from "../../predictor.ts";
import type { Prediction } from "../../predictor.ts";
import { JsonWriter } from "../json/json-writer.ts";
import type { PredictFormat } from "./predict-request.ts";
import { writeRun, writeValue } from "./tensor-values.ts";

/** A position within a tensor. */
interface Cell {
  readonly tensor: Tensor;
  readonly asBase64: boolean;
  readonly asJson: boolean;
  /** The first dimension that is still written as lists. */
  readonly dimension: number;
  /** Position of the next value. */
  readonly offset: number;
}

interface NamedOutput {
  readonly name: Uint8Array;
  readonly tensor: Tensor;
  /** Whether strings are written as base64 objects, as for outputs named `…_bytes`. */
  readonly asBase64: boolean;
  /** Whether strings are JSON already, and written unchanged. */
  readonly asJson: boolean;
  /** Values per element of the first dimension. */
  readonly stride: number;
}

const BYTES_PER_VALUE_GUESS = 16;
const STRING_BYTES_GUESS = 6;
const INDENT_BYTES = 4;
const PIECE_BYTES = 256 * 1024;
/** Values that are written before other work may run. */
const PIECE_VALUES = 16 * 1024;

/** What is written of a prediction. */
type WrittenPrediction = Pick<Prediction, "outputs" | "attributes" | "vectors" | "explanation">;

/**
 * Writes the body of an answer in the row format that is short enough to be written at once, as most are; `undefined`
 * for any other. @throws WinnowError as `writePrediction`
 */
export function writeShortPrediction(
  prediction: WrittenPrediction,
  format: PredictFormat,
  limits: { readonly answerBytesMax: number },
): Buffer | undefined {
  if (format !== "row") return undefined;
  const { named, guess } = namedOutputs(prediction, format);
  if (guess > PIECE_BYTES) return undefined;
  const rows = rowCountOf(prediction.outputs);
  const writer = writerOf(guess, limits);
  const areObjects = named.length > 1;
  openRows(writer);
  for (let row = 0; row < rows; row++) {
    openRow(writer, areObjects);
    for (const output of named) {
      if (areObjects) writer.string(output.name);
      writeCellOf(writer, output, row);
    }
    closeRow(writer, areObjects);
  }
  closeRows(writer);
  return writer.finish();
}

/**
 * Writes the body of an answer. A long body is written in pieces, between which other work may run.
 * @throws WinnowError INVALID_ARGUMENT where rows do not match, RESOURCE_EXHAUSTED if too long.
 */
export async function writePrediction(
  prediction: WrittenPrediction,
  format: PredictFormat,
  limits: { readonly answerBytesMax: number },
): Promise<Buffer> {
  const { named, guess } = namedOutputs(prediction, format);
  const writer = writerOf(guess, limits);
  if (format === "row") await writeRows(writer, named, rowCountOf(prediction.outputs));
  else await writeColumns(writer, named);
  return writer.finish();
}

/** The outputs with what a request wants beside them, and about how many bytes they take. */
function namedOutputs(
  { outputs, attributes, vectors, explanation }: WrittenPrediction,
  format: PredictFormat,
): { readonly named: readonly NamedOutput[]; readonly guess: number } {
  if (outputs.size === 0) refuse("Cannot convert empty tensor map to JSON");
  const named: NamedOutput[] = [];
  for (const [name, tensor] of outputs) named.push(namedOutput(name, tensor));
  if (attributes !== undefined) named.push(namedOutput(ATTRIBUTES_OUTPUT, attributes, true));
  if (vectors !== undefined) named.push(namedOutput(VECTORS_OUTPUT, vectors));
  if (explanation !== undefined) named.push(namedOutput(EXPLANATION_OUTPUT, explanation, true));
  let guess = 256;
  for (const { tensor } of named) guess += bytesGuess(tensor, format);
  return { named, guess };
}

function writerOf(
  guess: number,
  { answerBytesMax }: { readonly answerBytesMax: number },
): JsonWriter {
  return new JsonWriter({ bytes: Math.min(guess, answerBytesMax), bytesMax: answerBytesMax });
}

/**
 * A guess large enough that the buffer seldom grows, which would copy it. Memory that is never written costs
 * nothing.
 */
function bytesGuess({ dtype, shape, data }: Tensor, format: PredictFormat): number {
  const layout = format === "row" ? 0 : data.length * INDENT_BYTES * (shape.length + 1);
  if (dtype !== "string") return layout + data.length * BYTES_PER_VALUE_GUESS;
  const bytes = data.byteLength + data.length * STRING_BYTES_GUESS;
  return layout + (bytes > PIECE_BYTES ? bytes + PIECE_BYTES / 8 : bytes);
}

/** Gives a function that waits for the next turn of the event loop once a piece has been written. */
function turnsBetweenPieces(writer: JsonWriter): () => Promise<void> | undefined {
  let turnAt = writer.at;
  return () => {
    if (writer.at - turnAt <= PIECE_BYTES) return undefined;
    turnAt = writer.at;
    return nextLoopTurn();
  };
}

function namedOutput(name: string, tensor: Tensor, asJson = false): NamedOutput {
  const rows = tensor.shape[0] ?? 1;
  return {
    name: Buffer.from(name),
    tensor,
    asBase64: tensor.dtype === "string" && name.endsWith("_bytes"),
    asJson,
    stride: rows === 0 ? 0 : tensor.data.length / rows,
  };
}

function rowCountOf(outputs: ReadonlyMap<string, Tensor>): number {
  let expected: number | undefined;
  for (const [name, { shape }] of outputs) {
    const [rows] = shape;
    if (rows === undefined) refuse(`Tensor name: ${name} has no shape information `);
    expected ??= rows;
    if (rows !== expected) {
      refuse(`Tensor name: ${name} has inconsistent batch size: ${rows} expecting: ${expected}`);
    }
  }
  return expected ?? 0;
}

async function writeRows(
  writer: JsonWriter,
  outputs: readonly NamedOutput[],
  rows: number,
): Promise<void> {
  const areObjects = outputs.length > 1;
  openRows(writer);
  const nextTurn = turnsBetweenPieces(writer);
  for (let row = 0; row < rows; row++) {
    const next = nextTurn();
    if (next !== undefined) await next;
    openRow(writer, areObjects);
    for (const output of outputs) {
      if (areObjects) writer.string(output.name);
      if (isShortCell(output)) writeCellOf(writer, output, row);
      else await writeLargeCell(writer, cellOf(output, row), nextTurn);
    }
    closeRow(writer, areObjects);
  }
  closeRows(writer);
}

function openRows(writer: JsonWriter): void {
  writer.open("{");
  writer.text("predictions");
  writer.open("[");
}

function openRow(writer: JsonWriter, areObjects: boolean): void {
  if (areObjects) writer.open("{");
  writer.singleLine = true;
}

function closeRow(writer: JsonWriter, areObjects: boolean): void {
  writer.singleLine = false;
  if (areObjects) writer.close();
}

function closeRows(writer: JsonWriter): void {
  writer.close();
  writer.close();
}

function cellOf({ tensor, asBase64, asJson, stride }: NamedOutput, row: number): Cell {
  return { tensor, asBase64, asJson, dimension: 1, offset: row * stride };
}

/** Whether the values of a row are written without a pause. */
function isShortCell({ tensor, stride }: NamedOutput): boolean {
  return tensor.rowLengths !== undefined || stride <= PIECE_VALUES;
}

function writeCellOf(writer: JsonWriter, output: NamedOutput, row: number): void {
  const { rowLengths } = output.tensor;
  if (rowLengths === undefined) writeCell(writer, cellOf(output, row));
  else writeFilled(writer, cellOf(output, row), rowLengths[row]!);
}

async function writeColumns(writer: JsonWriter, outputs: readonly NamedOutput[]): Promise<void> {
  const areObjects = outputs.length > 1;
  writer.open("{");
  writer.text("outputs");
  if (areObjects) writer.open("{");
  for (const output of outputs) {
    requireEqualRows(output.tensor, 'the column format needs as many for each: use "instances"');
    if (areObjects) writer.string(output.name);
    await writeColumn(writer, output);
  }
  if (areObjects) writer.close();
  writer.close();
}

/** Writes all values of a tensor as one list, row by row. */
export function writeFlatList(writer: JsonWriter, tensor: Tensor): Promise<void> {
  const flat = { ...tensor, shape: [tensor.data.length] };
  const cell = { tensor: flat, asBase64: false, asJson: false, dimension: 0, offset: 0 };
  return writeLargeCell(writer, cell, turnsBetweenPieces(writer));
}

function writeColumn(writer: JsonWriter, { tensor, asBase64, asJson }: NamedOutput): Promise<void> {
  const cell = { tensor, asBase64, asJson, dimension: 0, offset: 0 };
  return writeLargeCell(writer, cell, turnsBetweenPieces(writer));
}

/** Writes a cell with any number of values. */
async function writeLargeCell(
  writer: JsonWriter,
  cell: Cell,
  nextTurn: () => Promise<void> | undefined,
): Promise<void> {
  const { tensor, dimension, offset } = cell;
  const { shape } = tensor;
  const inner = shape.slice(dimension + 1).reduce((product, size) => product * size, 1);
  const size = shape[dimension] ?? 1;
  if (size * inner <= PIECE_VALUES) return writeCell(writer, cell);
  writer.open("[");
  // Values are written in runs; lists one by one.
  const step = dimension === shape.length - 1 ? PIECE_VALUES : 1;
  for (let index = 0; index < size; index += step) {
    const next = nextTurn();
    if (next !== undefined) await next;
    const part = { ...cell, dimension: dimension + 1, offset: offset + index * inner };
    if (step > 1) writeRun(writer, part, Math.min(step, size - index));
    else if (inner <= PIECE_VALUES) writeCell(writer, part);
    else await writeLargeCell(writer, part, nextTurn);
  }
  writer.close();
}

function writeCell(writer: JsonWriter, cell: Cell): void {
  const { tensor, dimension, offset } = cell;
  const { shape } = tensor;
  if (dimension >= shape.length) return writeValue(writer, cell);
  const size = shape[dimension]!;
  if (dimension === shape.length - 1) return writeList(writer, cell, size);
  writer.open("[");
  let stride = 1;
  for (let level = dimension + 1; level < shape.length; level++) stride *= shape[level]!;
  for (let index = 0; index < size; index++) {
    const inner = offset + index * stride;
    writeCell(writer, { ...cell, dimension: dimension + 1, offset: inner });
  }
  writer.close();
}

/** Writes the first `count` elements of a row: values, or lists of equal lengths. */
function writeFilled(writer: JsonWriter, cell: Cell, count: number): void {
  const { shape } = cell.tensor;
  if (shape.length === 2) return writeList(writer, cell, count);
  const inner = shape.slice(2).reduce((product, size) => product * size, 1);
  writer.open("[");
  for (let index = 0; index < count; index += 1) {
    writeCell(writer, { ...cell, dimension: 2, offset: cell.offset + index * inner });
  }
  writer.close();
}

/** Writes `count` values of the last dimension as a list. */
function writeList(writer: JsonWriter, cell: Cell, count: number): void {
  writer.open("[");
  if (count > 0) writeRun(writer, cell, count);
  writer.close();
}

function refuse(message: string): never {
  throw new WinnowError("INVALID_ARGUMENT", message);
}
