// The ids that a request lists, in the types in which they are compared with those of items.

import { WinnowError, stringTensor, tensor } from "@winnow/core";
import type { CandidateTable, Tensor } from "@winnow/core";

/** What has ids, and how many queries ask it. */
export interface ListedOn {
  readonly table: Pick<CandidateTable, "name" | "idDtype">;
  readonly queries: number;
}

/**
 * Ids in the types of the stream: strings, or int64 for every integer type.
 * @throws WinnowError INVALID_ARGUMENT for lists that are neither one for all queries nor one for each, and for ids of
 * another type
 */
export function listedIds(
  verb: "exclude" | "include",
  lists: readonly Tensor[],
  { table, queries }: ListedOn,
): readonly Tensor[] {
  if (lists.length > 1 && lists.length !== queries) {
    throw new WinnowError(
      "INVALID_ARGUMENT",
      `Cannot ${verb} ids: ${lists.length} lists for ${queries} instances; give one list for ` +
        "all instances or one for each",
    );
  }
  const wanted = table.idDtype === "string" ? "string" : "int64";
  return lists.map((ids): Tensor => {
    if (ids.dtype === wanted) return ids;
    if (wanted === "int64" && ids.dtype === "int32") {
      const data = BigInt64Array.from(ids.data, (id) => BigInt(id));
      return { dtype: "int64", shape: ids.shape, data };
    }
    // The ids of an empty list could be of any type.
    if (ids.data.length === 0) {
      return wanted === "string" ? stringTensor([]) : tensor("int64", [0], new BigInt64Array());
    }
    const form = wanted === "string" ? "with quotes" : "without quotes";
    throw new WinnowError(
      "INVALID_ARGUMENT",
      `Cannot ${verb} ${ids.dtype} ids: the ids of table "${table.name}" are ${wanted}, in JSON ${form}`,
    );
  });
}
