// A fixed list of items in place of what a model finds: the items are searched by a vector of zeros, which asks nothing
// of a user, among the listed ones alone. So filters, exclusions and attributes are the search's own.

import { StringColumn } from "@winnow/core";
import type {
  CandidateTable,
  RetrieveStage,
  SignatureProgram,
  Tensor,
  TopKStep,
} from "@winnow/core";
import type { PinnedModel } from "../predictor.ts";
import type { Candidates } from "./candidates.ts";
import { take } from "./candidates.ts";
import { memberFault } from "./member-access.ts";

/** A search of the items that a signature searches, and its inputs for so many instances. */
interface ItemSearch {
  readonly signature: SignatureProgram;
  readonly inputs: (instances: number) => ReadonlyMap<string, Tensor>;
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
  return {
    signature: signatureOf(search, table, stage),
    inputs: (instances) => zeros(instances, table),
  };
}

/** Why a list cannot stand for what a signature answers. */
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

function zeros(instances: number, { dim }: CandidateTable): ReadonlyMap<string, Tensor> {
  const data = new Float32Array(instances * dim);
  return new Map([[VECTORS, { dtype: "float32", shape: [instances, dim], data }]]);
}

/** The listed ids, of those of each list that a request includes. */
export function listedItems(
  listed: Tensor,
  include: readonly Tensor[] | undefined,
): readonly Tensor[] {
  if (include === undefined || include.length === 0) return [listed];
  return include.map((ids) => {
    const wanted = new Set(textsOf(ids));
    const positions = textsOf(listed).flatMap((text, at) => (wanted.has(text) ? [at] : []));
    return take(listed, positions);
  });
}

/**
 * Whether rows of listed items may be missing: an id that stands in several rows of the table takes several places, and
 * of a full list nobody knows what comes behind it.
 */
export function mayLackItems(candidates: Candidates, k: number): boolean {
  const full = candidates.lists.filter(({ positions }) => positions.length >= k);
  if (full.length === 0) return false;
  const ids = textsOf(candidates.ids);
  return full.some(({ positions }) => new Set(positions.map((at) => ids[at]!)).size < k);
}

/** Candidates in the order of the list, each id once; their scores are 0, as nothing is known of the user. */
export function listedFirst(candidates: Candidates, listed: Tensor): Candidates {
  const places = new Map(textsOf(listed).map((text, at) => [text, at]));
  const ids = textsOf(candidates.ids);
  const lists = candidates.lists.map(({ positions }) => {
    const first = new Map<string, number>();
    for (const at of positions) if (!first.has(ids[at]!)) first.set(ids[at]!, at);
    const inOrder = [...first.values()].toSorted(
      (a, b) => places.get(ids[a]!)! - places.get(ids[b]!)!,
    );
    return { positions: inOrder, scores: inOrder.map(() => 0) };
  });
  return { ...candidates, lists };
}

/** Ids as texts that differ where the ids do. */
function textsOf({ data }: Tensor): readonly string[] {
  return data instanceof StringColumn
    ? Array.from({ length: data.length }, (_, at) => Buffer.from(data.at(at)).toString("latin1"))
    : Array.from(data, String);
}
