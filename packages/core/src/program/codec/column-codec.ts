// Attributes of items within an encoded program: what they are in the header, their values and codes in blobs.

import { StringColumn } from "../../tensor/string-column.ts";
import type { Tensor } from "../../tensor/tensor.ts";
import { codesFor } from "../../attributes/attribute-column.ts";
import type {
  AttributeCodes,
  AttributeColumn,
  AttributeValues,
} from "../../attributes/attribute-column.ts";
import { count32, listOf, optional, property, read, refuse } from "../header-reader.ts";
import type { HeaderReader, HeaderValue } from "../header-reader.ts";
import type { BlobReader, BlobWriter } from "../program-blobs.ts";
import type { RankedItems } from "../program.ts";
import { attribute } from "./table-codec.ts";
import { blobOf, encodeTensor, tensorReader } from "./tensor-codec.ts";

/** The attributes of ranked items for the header; what they hold goes to `blobs`. */
export function encodeRankedItems({ columns }: RankedItems, blobs: BlobWriter): unknown {
  return { columns: columns.map((column) => encodeColumn(column, blobs)) };
}

function encodeColumn(
  { spec, values, codes, offsets }: AttributeColumn,
  blobs: BlobWriter,
): unknown {
  return {
    ...spec,
    values: encodeTensor(tensorOf(values), blobs),
    length: codes.length,
    codes: blobs.add(codes),
    ...(offsets && { lists: offsets.length - 1, offsets: blobs.add(offsets) }),
  };
}

function tensorOf(values: AttributeValues): Tensor {
  const shape = [values.length];
  if (values instanceof StringColumn) return { dtype: "string", shape, data: values };
  if (values instanceof BigInt64Array) return { dtype: "int64", shape, data: values };
  return { dtype: "float64", shape, data: values };
}

/** Reads the attributes of ranked items. That each has the rows of the ranking is checked where a ranking names them. */
export function rankedItemsReader(blobs: BlobReader): HeaderReader<RankedItems> {
  return (from) => ({ columns: read(from, "columns", listOf(columnReader(blobs))) });
}

function columnReader(blobs: BlobReader): HeaderReader<AttributeColumn> {
  return (from) => {
    const spec = attribute(from);
    const values = valuesOf(from, blobs);
    const length = read(from, "length", count32);
    const { BYTES_PER_ELEMENT: width } = codesFor(values.length, 0);
    const bytes = blobOf(from, "codes", { blobs, bytes: length * width });
    const codes = codesIn(bytes, width);
    if (largestOf(codes) > values.length) {
      throw refuse(property(from, "codes"), `at most ${values.length}`);
    }
    const offsets = offsetsOf(from, blobs, length);
    if ((offsets !== undefined) !== spec.isList) throw refuse(from, "with offsets if it has lists");
    return { spec, values, codes, offsets };
  };
}

function valuesOf(from: HeaderValue, blobs: BlobReader): AttributeValues {
  const { dtype, data } = read(from, "values", tensorReader(blobs));
  if (dtype === "string") return data;
  if (dtype === "float64") return data as Float64Array<ArrayBuffer>;
  if (dtype === "int64") return data as BigInt64Array<ArrayBuffer>;
  throw refuse(property(from, "values"), "texts, float64 or int64");
}

function codesIn(bytes: ArrayBuffer, width: number): AttributeCodes {
  if (width === 1) return new Uint8Array(bytes);
  return width === 2 ? new Uint16Array(bytes) : new Uint32Array(bytes);
}

function offsetsOf(
  from: HeaderValue,
  blobs: BlobReader,
  length: number,
): Uint32Array<ArrayBuffer> | undefined {
  const lists = read(from, "lists", optional(count32));
  if (lists === undefined) return undefined;
  const bytes = (lists + 1) * Uint32Array.BYTES_PER_ELEMENT;
  const offsets = new Uint32Array(blobOf(from, "offsets", { blobs, bytes }));
  if (offsets[0] === 0 && isAscending(offsets) && offsets[lists] === length) return offsets;
  throw refuse(property(from, "offsets"), `ascending from 0 to ${length}`);
}

// Loops, because there may be millions of values, and a router answers nobody meanwhile.

function largestOf(codes: AttributeCodes): number {
  let largest = 0;
  for (let at = 0; at < codes.length; at += 1) if (codes[at]! > largest) largest = codes[at]!;
  return largest;
}

function isAscending(offsets: Uint32Array): boolean {
  for (let at = 1; at < offsets.length; at += 1) if (offsets[at]! < offsets[at - 1]!) return false;
  return true;
}
