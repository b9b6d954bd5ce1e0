// Identifiers by a lookup table: a table from row numbers to ids, asked with the rows that a search
// found. Where the table holds every row of the candidates, its values in the order of rows are the
// identifiers of the candidate table, which is cut with them. Any other lookup stays an operation.

import { constantValue, producerOf } from "../graph-value.ts";
import type { GraphValue } from "../graph-value.ts";
import type { Lowering, Visit } from "../lowered-nodes.ts";
import { gatherIdentifiers } from "./retrieval.ts";

/** Handles LookupTableFindV2. */
export function visitIdentifierLookup(
  lowering: Lowering,
  { inputs }: Visit,
): readonly GraphValue[] | undefined {
  const [table, keys] = inputs;
  if (table?.resource?.kind !== "table" || keys === undefined) return undefined;
  const indices = producerOf(keys, "Cast")?.inputs[0] ?? keys;
  const rows = searchedRows(lowering, indices);
  if (rows === undefined) return undefined;
  const { name } = table.resource;
  const tensor = lowering.sources.tables.valuesByRow(name, rows);
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
