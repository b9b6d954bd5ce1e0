// Tensors one after the other along their first dimension, as ConcatV2 gives them, and rows of a tensor.

import { StringColumn, type Tensor, WinnowError, elementCount } from "@winnow/core";
import { tensorOver } from "./data-type.ts";

/** Joins tensors of one type and row shape. @throws WinnowError INVALID_ARGUMENT for others */
export function joinedTensors(parts: readonly Tensor[]): Tensor {
  const first = parts[0]!;
  const rowShape = first.shape.slice(1);
  const isAlike = parts.every(
    ({ dtype, shape }) => dtype === first.dtype && shape.slice(1).join() === rowShape.join(),
  );
  if (!isAlike) {
    const shapes = parts.map(({ dtype, shape }) => `${dtype} [${shape.join(",")}]`).join(", ");
    throw new WinnowError("INVALID_ARGUMENT", `Cannot concatenate ${shapes}`);
  }
  const shape = [parts.reduce((rows, part) => rows + part.shape[0]!, 0), ...rowShape];
  if (first.dtype === "string") {
    const strings = parts.flatMap((part) => (part.dtype === "string" ? listOf(part.data) : []));
    return { dtype: "string", shape, data: StringColumn.fromBytes(strings) };
  }
  const whole = tensorOver(
    first.dtype,
    shape,
    new ArrayBuffer(elementCount(shape) * first.data.BYTES_PER_ELEMENT),
  );
  let end = 0;
  for (const { data } of parts) {
    (whole.data as Float32Array).set(data as Float32Array, end);
    end += data.length;
  }
  return whole;
}

/** Neighbouring rows of a tensor, of which it has as many. */
export function takenRows(
  whole: Tensor,
  { firstRow, rows }: { readonly firstRow: number; readonly rows: number },
): Tensor {
  const rowShape = whole.shape.slice(1);
  const rowElements = elementCount(rowShape);
  const [from, to] = [firstRow * rowElements, (firstRow + rows) * rowElements];
  return { ...whole, shape: [rows, ...rowShape], data: whole.data.slice(from, to) } as Tensor;
}

function listOf(strings: StringColumn): Uint8Array[] {
  return Array.from({ length: strings.length }, (_, index) => strings.at(index));
}
