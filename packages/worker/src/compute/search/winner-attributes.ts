// Attributes of the winners of a scan, each as the text of a JSON object: written where the values are, so that
// they travel, and are put into answers, as they are.

import { StringColumn, WinnowError, excerpt, timestampText, valueOfCode } from "@winnow/core";
import type {
  AttributeColumn,
  AttributeColumns,
  AttributeSpec,
  AttributeValue,
} from "@winnow/core";

import type { PackedStrings } from "../compute.ts";
import type { ResidentPartition } from "../resident-table.ts";

/**
 * The attributes of global rows, in their order, written one by one.
 * @throws WinnowError INVALID_ARGUMENT for an unknown name
 */
export function* attributesOfRows(
  rows: Uint32Array,
  names: readonly string[],
  partitions: readonly ResidentPartition[],
): Generator<Uint8Array> {
  const ascending = partitions.toSorted((a, b) => a.resident.firstRow - b.resident.firstRow);
  const columns = ascending.map(({ attributes }) => names.map((name) => named(attributes, name)));
  const keys = names.map((name) => `${JSON.stringify(name)}:`);
  for (const row of rows) {
    const at = ascending.findLastIndex(({ resident }) => resident.firstRow <= row);
    const local = row - ascending[at]!.resident.firstRow;
    const fields = columns[at]!.map((column, index) => keys[index]! + cellText(column, local));
    yield Buffer.from(`{${fields.join(",")}}`);
  }
}

/** Texts in arrays that can be transferred. */
export function packTexts(texts: readonly Uint8Array[]): PackedStrings {
  const { offsets, bytes } = StringColumn.fromBytes(texts);
  return { offsets, bytes };
}

function named(attributes: AttributeColumns | undefined, name: string): AttributeColumn {
  const column = attributes?.get(name);
  if (column !== undefined) return column;
  throw new WinnowError("INVALID_ARGUMENT", `Items here have no attribute "${excerpt(name)}"`);
}

function cellText(column: AttributeColumn, row: number): string {
  const { spec, codes, offsets } = column;
  if (offsets === undefined) return valueText(spec, valueOfCode(column, codes[row]!));
  const values: string[] = [];
  for (let at = offsets[row]!; at < offsets[row + 1]!; at += 1) {
    const value = valueOfCode(column, codes[at]!);
    if (value === undefined) return "null";
    values.push(valueText(spec, value));
  }
  return `[${values.join(",")}]`;
}

/** As JSON; infinite numbers as TensorFlow Serving writes them. */
function valueText({ type }: AttributeSpec, value: AttributeValue | undefined): string {
  if (value === undefined) return "null";
  if (type === "timestamp") return JSON.stringify(timestampText(Number(value)));
  return typeof value === "string" ? JSON.stringify(value) : String(value);
}
