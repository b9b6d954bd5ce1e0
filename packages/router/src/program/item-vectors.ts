// The vectors of items as numbers. Vectors come among the attributes, so that whatever carries attributes (searches,
// pipelines, arms of experiments) carries vectors: as bytes behind each object (core/attributes/item-cell), or from
// workers of older releases as the member `$vector`, base64 of the values.

import { StringColumn, VECTOR_ATTRIBUTE, WinnowError, cellOf, cellPartsAt } from "@winnow/core";
import type { CellParts, Tensor } from "@winnow/core";
import type { Prediction, PredictRequest } from "../predictor.ts";
import { inTurns, turnMeter } from "../turns/turns.ts";
import type { Steps } from "../turns/turns.ts";

/** The request with the vectors among its attributes. */
export function askingVectors(request: PredictRequest): PredictRequest {
  const { attributes = [] } = request;
  const others = attributes.filter((name) => name !== VECTOR_ATTRIBUTE);
  return { ...request, attributes: [...others, VECTOR_ATTRIBUTE], vectorBytes: true };
}

/**
 * The answer to `askingVectors(request)` as the request wants it.
 * @throws WinnowError INVALID_ARGUMENT for items whose vectors have different lengths; the signal's reason
 */
export async function withVectors(
  { attributes: cells, ...answer }: Prediction,
  { attributes: wanted = [], context }: PredictRequest,
): Promise<Prediction> {
  if (cells === undefined) throw new RangeError("an answer without the vectors wanted");
  const asText = wanted.includes(VECTOR_ATTRIBUTE);
  const { dim, values, texts } = await inTurns(splitCells(cells, asText), context.signal);
  const rows = cells.rowLengths === undefined ? {} : { rowLengths: cells.rowLengths };
  const shape = [...cells.shape, dim];
  const vectors: Tensor = { dtype: "float32", shape, data: values, ...rows };
  return { ...answer, vectors, ...(wanted.length > 0 && { attributes: texts }) };
}

/** Vectors of some cells, one behind the other, zeros for an empty cell. */
export interface CellVectors {
  readonly dim: number;
  /** `[cells, dim]`. */
  readonly values: Float32Array<ArrayBuffer>;
}

/** What is in some cells: vectors, and objects without them. */
export interface SplitCells extends CellVectors {
  readonly texts: Tensor;
}

/**
 * Splits cells into vectors and objects. `asText`: the objects have the vectors as texts, too.
 * @throws WinnowError INVALID_ARGUMENT for vectors of different lengths; INTERNAL for a cell without one
 */
export function* splitCells(cells: Tensor, asText: boolean): Steps<SplitCells> {
  const vectors = yield* vectorsIn(cells);
  const column = columnOf(cells);
  const objects: Uint8Array[] = [];
  const isTurnOver = turnMeter();
  for (let at = 0; at < column.length; at += 1) {
    const part = cellPartsAt(column, at);
    objects.push(part === undefined ? NO_BYTES : objectOf(column, part, asText));
    if (isTurnOver(WORK_OF_CELL + (asText ? vectors.dim : 0))) yield;
  }
  const texts: Tensor = { ...cells, dtype: "string", data: StringColumn.fromBytes(objects) };
  return { ...vectors, texts };
}

/** The vectors in cells. @throws WinnowError as `splitCells` */
export function* vectorsIn(cells: Tensor): Steps<CellVectors> {
  const column = columnOf(cells);
  const { bytes, length } = column;
  let dim = 0;
  let values = new Float32Array();
  let target = new Uint8Array();
  let isFirst = true;
  const isTurnOver = turnMeter();
  for (let at = 0; at < length; at += 1) {
    const part = cellPartsAt(column, at);
    if (part === undefined) continue;
    if (isFirst) {
      isFirst = false;
      ({ dim } = part);
      values = new Float32Array(length * dim);
      target = new Uint8Array(values.buffer);
    }
    if (part.dim !== dim) throw unequal(dim, part.dim);
    const vector = bytes.subarray(part.vectorAt, part.vectorAt + VALUE_BYTES * dim);
    target.set(vector, VALUE_BYTES * at * dim);
    if (isTurnOver(WORK_OF_CELL + dim)) yield;
  }
  return { dim, values };
}

function columnOf({ data }: Tensor): StringColumn {
  if (data instanceof StringColumn) return data;
  throw new RangeError("attributes that are no texts");
}

const VALUE_BYTES = 4;
const NO_BYTES = new Uint8Array();
/** Cost of splitting one cell beside its values, in units of `turnMeter`. */
const WORK_OF_CELL = 2 ** 7;

function objectOf({ bytes }: StringColumn, part: CellParts, asText: boolean): Uint8Array {
  const { start, vectorAt, dim } = part;
  if (!asText) return bytes.subarray(start, vectorAt);
  const open = Buffer.from(bytes.subarray(start, vectorAt - 1)).toString();
  const vector = Buffer.from(bytes.subarray(vectorAt, vectorAt + VALUE_BYTES * dim));
  return Buffer.from(`${open}${open === "{" ? "" : ","}${KEY}${vector.toString("base64")}${END}`);
}

const KEY = `"${VECTOR_ATTRIBUTE}":"`;
const END = '"}';

/**
 * Cells of objects whose last member is the vector as text. In a string of JSON the member's key would have its quotes
 * escaped. @throws WinnowError INTERNAL where an object has none
 */
export function cellsOfTexts(column: StringColumn): StringColumn {
  const cells = column.toText().map((text) => {
    if (text === "") return NO_BYTES;
    const from = text.lastIndexOf(KEY);
    if (from < 0) {
      throw new WinnowError("INTERNAL", "A worker described an item without the vector wanted");
    }
    const object = `${text.slice(0, from).replace(/,$/, "")}}`;
    const values = Buffer.from(text.slice(from + KEY.length, -END.length), "base64");
    return cellOf(Buffer.from(object), values);
  });
  return StringColumn.fromBytes(cells);
}

function unequal(one: number, other: number): WinnowError {
  const text = `Cannot apply "return_vectors": vectors of ${one} and of ${other} values are no one tensor`;
  return new WinnowError(
    "INVALID_ARGUMENT",
    `${text}; "return": ["${VECTOR_ATTRIBUTE}"] gives each by itself`,
  );
}
