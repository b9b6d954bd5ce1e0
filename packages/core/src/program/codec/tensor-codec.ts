// Tensors within an encoded program: dtype and shape in the header, values in blobs.

import { dtypeArrays } from "../../tensor/dtype.ts";
import type { Dtype, NumericDtype } from "../../tensor/dtype.ts";
import { StringColumn } from "../../tensor/string-column.ts";
import { elementCount } from "../../tensor/tensor.ts";
import type { Tensor } from "../../tensor/tensor.ts";
import { count, listOf, oneOf, read, refuse, sizes } from "../header-reader.ts";
import type { HeaderReader, HeaderValue } from "../header-reader.ts";
import type { BlobReader, BlobReference, BlobWriter } from "../program-blobs.ts";

/** Reads a dtype's name. */
export const dtype: HeaderReader<Dtype> = oneOf<Dtype>(
  ...(Object.keys(dtypeArrays) as NumericDtype[]),
  "string",
);

/** Reads a blob reference. */
export const blob: HeaderReader<BlobReference> = (from) => {
  const [offset, bytes, ...others] = listOf(count)(from);
  if (offset === undefined || bytes === undefined || others.length > 0) {
    throw refuse(from, "an offset and a size");
  }
  return [offset, bytes];
};

/** A tensor's part of the header; its values go to `blobs`. */
export function encodeTensor(tensor: Tensor, blobs: BlobWriter): unknown {
  const { dtype: name, shape, data } = tensor;
  if (!(data instanceof StringColumn)) return { dtype: name, shape, data: blobs.add(data) };
  const first = data.offsets[0]!;
  const offsets = first === 0 ? data.offsets : data.offsets.map((offset) => offset - first);
  const bytes = data.bytes.subarray(first, data.offsets[data.length]);
  return { dtype: name, shape, offsets: blobs.add(offsets), bytes: blobs.add(bytes) };
}

/** Reads a tensor; its values are copies. */
export function tensorReader(blobs: BlobReader): HeaderReader<Tensor> {
  return (from) => {
    const name = read(from, "dtype", dtype);
    const shape = read(from, "shape", sizes);
    const values = elementCount(shape);
    if (name === "string") {
      return { dtype: name, shape, data: columnOf(from, blobs, values) };
    }
    const array = dtypeArrays[name];
    const data = new array(
      blobOf(from, "data", { blobs, bytes: values * array.BYTES_PER_ELEMENT }),
    );
    if (name === "bool" && (data as Uint8Array).some((value) => value > 1)) {
      throw refuse(from, "bool values of 0 and 1");
    }
    return { dtype: name, shape, data } as Tensor;
  };
}

/** Copies a blob that must have exactly `bytes` bytes. */
export function blobOf(
  from: HeaderValue,
  name: string,
  { blobs, bytes }: { readonly blobs: BlobReader; readonly bytes: number },
): ArrayBuffer {
  const reference = read(from, name, blob);
  if (reference[1] !== bytes) throw refuse(from, `with ${bytes} bytes of ${name}`);
  return blobs.copy(reference);
}

function columnOf(from: HeaderValue, blobs: BlobReader, values: number): StringColumn {
  const offsets = new Uint32Array(blobOf(from, "offsets", { blobs, bytes: (values + 1) * 4 }));
  const bytes = new Uint8Array(blobs.copy(read(from, "bytes", blob)));
  const isAscending = offsets.every((offset, at) => at === 0 || offset >= offsets[at - 1]!);
  if (offsets[0] !== 0 || !isAscending || offsets[values] !== bytes.length) {
    throw refuse(from, "strings whose ends ascend to their bytes");
  }
  return new StringColumn(offsets, bytes);
}
