// A search of a model's items by vectors that are given, in place of those that the model makes of its inputs. Functions and
// masks of the graph do not apply: a score is the product of a vector with an item's, to which nothing is added.

import type {
  CandidateTable,
  RetrieveStage,
  SignatureProgram,
  Tensor,
  TopKStep,
} from "@winnow/core";
import type { PinnedModel } from "../../predictor.ts";
import { memberFault } from "../member-access.ts";

/** A search of the items that a signature searches. */
interface ItemSearch {
  readonly signature: SignatureProgram;
  /** Values of a row of the table: the item's vector, and what is added to it. */
  readonly dim: number;
  /** Its inputs for vectors `[instances, dim]`. */
  readonly inputs: (vectors: Float32Array<ArrayBuffer>) => ReadonlyMap<string, Tensor>;
}

const VECTORS = "vectors";
const [VECTORS_VALUE, SCORES_VALUE, ITEMS_VALUE] = [0, 1, 2] as const;

/** @throws WinnowError FAILED_PRECONDITION where the signature does not answer the items of one search */
export function searchOfItems(
  { program }: Pick<PinnedModel, "program">,
  signature: SignatureProgram,
  stage: RetrieveStage,
): ItemSearch {
  const search = searchedItems(signature, stage);
  const table = search && program.tables[search.table];
  if (search === undefined || table?.kind !== "candidate") throw memberFault(stage, ITEMS_LACK);
  const { dim } = table;
  return {
    signature: signatureOf(search, table, stage),
    dim,
    inputs: (data) => {
      return new Map([[VECTORS, { dtype: "float32", shape: [data.length / dim, dim], data }]]);
    },
  };
}

/** Why the items of a signature cannot be searched by other vectors than its own. */
export const ITEMS_LACK = "it does not answer the items of one search as they were found";

/** The search whose items a signature answers as they are found; `undefined` where there is none. */
export function searchedItems(
  { steps, outputs }: Pick<SignatureProgram, "steps" | "outputs">,
  { ids }: Pick<RetrieveStage, "ids">,
): TopKStep | undefined {
  const searches = steps.filter((step) => step.kind === "topK");
  const answered = outputs.find(({ name }) => name === ids)?.value;
  const [search] = searches;
  if (searches.length !== 1 || answered === undefined) return undefined;
  return search!.ids === answered || search!.rows === answered ? search : undefined;
}

function signatureOf(
  { table: number, node, ids }: TopKStep,
  table: CandidateTable,
  stage: RetrieveStage,
): SignatureProgram {
  const graphTensor = "";
  const items =
    ids === undefined
      ? { rows: ITEMS_VALUE, ids: undefined }
      : { rows: undefined, ids: ITEMS_VALUE };
  const shape = [-1, -1];
  return {
    name: stage.signature,
    methodName: "",
    constants: [],
    inputs: [
      {
        name: VECTORS,
        dtype: "float32",
        shape: [-1, table.dim],
        value: VECTORS_VALUE,
        graphTensor,
      },
    ],
    steps: [
      {
        kind: "topK",
        table: number,
        node,
        query: VECTORS_VALUE,
        k: stage.k,
        capped: true,
        scores: SCORES_VALUE,
        ...items,
      },
    ],
    outputs: [
      { name: stage.scores, dtype: "float32", shape, value: SCORES_VALUE, graphTensor },
      { name: stage.ids, dtype: table.idDtype ?? "int32", shape, value: ITEMS_VALUE, graphTensor },
    ],
  };
}
