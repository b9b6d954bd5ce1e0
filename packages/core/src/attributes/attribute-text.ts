// Attributes of one item as members of a JSON object. Whoever holds the columns writes the text, and it travels as it is
// into the response.

import { WinnowError, excerpt } from "../errors/errors.ts";
import { valueOfCode } from "./attribute-column.ts";
import type { AttributeColumn, AttributeSpec, AttributeValue } from "./attribute-column.ts";
import type { AttributeColumns } from "./filter-rows.ts";
import { timestampText } from "./timestamp.ts";

/**
 * Gives the members of a row's JSON object, `"year":1990`, one for each name, in their order.
 * @throws WinnowError INVALID_ARGUMENT for an unknown name
 */
export function memberTexts(
  attributes: AttributeColumns | undefined,
  names: readonly string[],
): (row: number) => string[] {
  const members = names.map((name) => {
    return { key: `${JSON.stringify(name)}:`, column: named(attributes, name) };
  });
  return (row) => members.map(({ key, column }) => key + cellText(column, row));
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

/** A value as JSON; infinite numbers as TensorFlow Serving writes them. */
function valueText({ type }: AttributeSpec, value: AttributeValue | undefined): string {
  if (value === undefined) return "null";
  if (type === "timestamp") return JSON.stringify(timestampText(Number(value)));
  return typeof value === "string" ? JSON.stringify(value) : String(value);
}
