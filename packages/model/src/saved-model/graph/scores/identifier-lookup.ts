// Identifiers by a lookup table: a table from row numbers to ids, asked with the rows that a search
// found. Where the table holds every row of the candidates but a few first ones, its values in the order of rows are the
// identifiers of the candidate table, which is cut with them. Any other lookup stays an operation.
// And identifiers as Keras takes them (`ops.take`): from rows that are counted from the end where negative.

import { constantValue, integerOf, producerOf } from "../graph-value.ts";
import type { GraphValue } from "../graph-value.ts";
import type { Lowering, Visit } from "../lowered-nodes.ts";
import { gatherIdentifiers } from "./retrieval.ts";

/** Handles LookupTableFindV2. */
export function visitIdentifierLookup(
  lowering: Lowering,
  { inputs }: Visit,
): readonly GraphValue[] | undefined {
  const [table, keys, missing] = inputs;
  if (table?.resource?.kind !== "table" || keys === undefined) return undefined;
  const indices = producerOf(keys, "Cast")?.inputs[0] ?? keys;
  const rows = searchedRows(lowering, indices);
  if (rows === undefined) return undefined;
  const { name } = table.resource;
  const tensor = lowering.sources.tables.valuesByRow(name, { rows, missing: missing?.constant });
  if (tensor === undefined) return undefined;
  const source = constantValue(tensor, { kind: "constant", name, tensor });
  const identifiers = gatherIdentifiers(lowering, source, indices);
  return identifiers === undefined ? undefined : [identifiers];
}

/** How many candidates the search has whose rows these are. */
function searchedRows({ registry, partsOfOne }: Lowering, indices: GraphValue): number | undefined {
  const rows = partsOfOne.get(indices)?.all ?? indices;
  const search = rows.producer;
  if (search?.kind !== "topK" || search.outputs[1] !== rows) return undefined;
  return registry.tables[search.table]?.spec.rows;
}

/** Handles SelectV2: `where(rows < 0, rows + n, rows)` is `rows` where a search found them, which are never negative. */
export function visitCountedFromEnd(
  lowering: Lowering,
  { inputs }: Visit,
): readonly GraphValue[] | undefined {
  const [condition, moved, rows] = inputs;
  if (rows === undefined || searchedRows(lowering, rows) === undefined) return undefined;
  const bound = scalarBeside(rows, condition, "Less");
  const isCounted = integerOf(bound) === 0 && scalarBeside(rows, moved, "AddV2", "Add");
  return isCounted ? [rows] : undefined;
}

/** The scalar behind `first` in an operation of one of these names. */
function scalarBeside(
  first: GraphValue,
  value: GraphValue | undefined,
  ...ops: readonly string[]
): GraphValue | undefined {
  const [left, right] = (value && producerOf(value, ...ops)?.inputs) ?? [];
  return left === first && right?.shape?.length === 0 ? right : undefined;
}
