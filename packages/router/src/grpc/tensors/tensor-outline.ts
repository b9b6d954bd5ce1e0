// What is known of a TensorProto before its values are read: enough to refuse it before anything is allocated
// for it.

import { elementCount } from "@winnow/core";
import type { ProtobufReader } from "@winnow/core";
import { RANK_MAX, isVastShape } from "../../limits/tensor-shape.ts";
import { readerOf, valuesReaderOf } from "../client-message.ts";
import type { FieldBudget } from "../client-message.ts";

/** A TensorProto without its values. */
export interface TensorOutline {
  readonly proto: Uint8Array;
  /** Number of `DataType`; 0 if the message has none. */
  readonly dataType: number;
  readonly shape: readonly number[];
  /** Number of values in the shape. */
  readonly count: number;
  /** `tensor_content`, if it is not empty. */
  readonly content: Uint8Array | undefined;
}

/** Why a TensorProto cannot be read; to be told with the name of its input. */
export class MisfitError extends Error {}

/** Reads everything but values. @throws MisfitError, WinnowError INVALID_ARGUMENT */
export function outlineOf(proto: Uint8Array, fields: FieldBudget): TensorOutline {
  const reader = valuesReaderOf(proto, fields);
  const shape: number[] = [];
  let dataType = 0;
  let content: Uint8Array | undefined;
  while (reader.next()) {
    if (reader.field === 1) dataType = reader.int32();
    else if (reader.field === 2) readShape(readerOf(reader.view()), shape);
    else if (reader.field === 4) content = reader.view();
  }
  const count = elementCount(shape);
  if (isVastShape(shape)) throw new MisfitError("its shape is too large");
  return { proto, dataType, shape, count, content: content?.length === 0 ? undefined : content };
}

/** Adds the dimensions of a TensorShapeProto. */
function readShape(reader: ProtobufReader, shape: number[]): void {
  while (reader.next()) {
    if (reader.field === 2) {
      if (shape.length === RANK_MAX) throw new MisfitError(`its rank is above ${RANK_MAX}`);
      shape.push(sizeOf(reader.message()));
    } else if (reader.field === 3 && reader.int32() !== 0) {
      throw new MisfitError("its rank is unknown");
    }
  }
}

function sizeOf(dim: ProtobufReader): number {
  let size = 0n;
  while (dim.next()) if (dim.field === 1) size = dim.int64();
  if (size < 0n) throw new MisfitError(`a size in its shape is ${size}`);
  return Number(size);
}
