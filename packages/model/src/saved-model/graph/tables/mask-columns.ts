// Columns of a table by which searches mask its rows: vectors with one value per item, which the checkpoint or
// the graph holds. A worker reads such a vector as a whole when it opens the version, with its checksum, and
// keeps of it what its own partitions need.

import { ColumnBuilder, maskValueAt } from "@winnow/core";
import type { AttributeColumn, AttributeType, Tensor } from "@winnow/core";

const TYPES: ReadonlyMap<string, AttributeType> = new Map([
  ["string", "string"],
  ["int32", "integer"],
  ["int64", "integer"],
  ["float32", "float"],
  ["bool", "boolean"],
]);

/** The column of a vector, or of flags `[items, groups]`: for each item a list of its groups; `undefined` where a value has no place in an order: NaN, an infinity. */
export function maskColumn(name: string, tensor: Tensor): AttributeColumn | undefined {
  const type = TYPES.get(tensor.dtype);
  if (type === undefined) return undefined;
  if (tensor.dtype === "float32" && !tensor.data.every((value) => Number.isFinite(value))) {
    return undefined;
  }
  const builder = new ColumnBuilder();
  const [rows = 0, groups = 1] = tensor.dtype === "bool" ? tensor.shape : [];
  if (rows > 1 && groups > 1) {
    const flags = tensor.data as Uint8Array;
    for (let at = 0; at < flags.length; at += groups) {
      builder.add(groupsOf(flags.subarray(at, at + groups)));
    }
    return builder.finish({ name, type: "integer", isList: true });
  }
  for (let at = 0; at < tensor.data.length; at += 1) builder.add(maskValueAt(tensor, at));
  return builder.finish({ name, type, isList: false });
}

function groupsOf(flags: Uint8Array): readonly number[] {
  return Array.from(flags.keys()).filter((group) => flags[group] === 1);
}
