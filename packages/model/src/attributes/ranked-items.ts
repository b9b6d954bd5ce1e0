// Attributes of items that a dense part ranks. No partition holds such items, so their attributes travel to routers with
// the program, whose rankings name them. Rankings of the same items share one copy.

import { WinnowError, indexVocabularies, rankedIdsOf } from "@winnow/core";
import type {
  DenseRanking,
  ItemIds,
  ModelProgram,
  RankedItems,
  SignatureProgram,
  Step,
  VocabularyIndex,
} from "@winnow/core";
import type { AttributeFile } from "./attribute-file.ts";

/** Whether a signature answers the ids of items that a dense part ranks. */
export function hasRankedIds({ signatures }: Pick<ModelProgram, "signatures">): boolean {
  return signatures.some((signature) =>
    signature.steps.some(
      (step) =>
        step.kind === "dense" &&
        step.rankings?.some((ranking) => rankedIdsOf(signature, step, ranking) !== undefined),
    ),
  );
}

/** The file that describes a version's items, and whether the version has tables of items besides ranked ones. */
interface Describing {
  readonly file: Pick<AttributeFile, "rowsOf" | "columnsAt">;
  readonly isSearched: boolean;
}

/**
 * Signatures whose rankings name their attributes, and these attributes. Items with ids of another type than the file's
 * have none. @throws WinnowError INVALID_ARGUMENT where that leaves nothing that the file describes
 */
export function withRankedItems(
  { signatures, vocabularies }: Pick<ModelProgram, "signatures" | "vocabularies">,
  { file, isSearched }: Describing,
): Pick<ModelProgram, "signatures" | "rankedItems"> {
  const described = new DescribedRankings(file, indexVocabularies(vocabularies));
  const named = signatures.map((signature): SignatureProgram => {
    const steps = signature.steps.map((step): Step => {
      if (step.kind !== "dense" || step.rankings === undefined) return step;
      const rankings = step.rankings.map((ranking) =>
        described.named(ranking, rankedIdsOf(signature, step, ranking)),
      );
      return { ...step, rankings };
    });
    return { ...signature, steps };
  });
  const { rankedItems, fault } = described;
  if (rankedItems.length > 0) return { signatures: named, rankedItems };
  if (fault !== undefined && !isSearched) throw fault;
  return { signatures };
}

/** Ids that are looked up in the file at a time. */
const IDS_AT_ONCE = 2 ** 16;

class DescribedRankings {
  readonly rankedItems: RankedItems[] = [];
  /** Why the first of those without attributes has none. */
  fault: WinnowError | undefined;
  /** Rows of the file, by position in `rankedItems`. */
  readonly #rows: Uint32Array[] = [];
  readonly #file: Describing["file"];
  readonly #vocabularies: readonly VocabularyIndex[];

  constructor(file: Describing["file"], vocabularies: readonly VocabularyIndex[]) {
    this.#file = file;
    this.#vocabularies = vocabularies;
  }

  /** The ranking with the position of its items' attributes. */
  named(ranking: DenseRanking, ids: ItemIds | undefined): DenseRanking {
    const rows = ids && this.#rowsOrFault(ranking, ids);
    if (rows === undefined) return ranking;
    const known = this.#rows.findIndex((other) => areEqual(other, rows));
    if (known >= 0) return { ...ranking, described: known };
    this.#rows.push(rows);
    const columns = this.#file.columnsAt(rows);
    return { ...ranking, described: this.rankedItems.push({ columns }) - 1 };
  }

  #rowsOrFault(ranking: DenseRanking, ids: ItemIds): Uint32Array | undefined {
    try {
      return this.#rowsOf(ranking, ids);
    } catch (error) {
      if (!(error instanceof WinnowError) || error.code !== "INVALID_ARGUMENT") throw error;
      this.fault ??= error;
      return undefined;
    }
  }

  /** The rows of the file for the items of a ranking. */
  #rowsOf({ node, items }: DenseRanking, ids: ItemIds): Uint32Array {
    const rows = new Uint32Array(items);
    for (let firstRow = 0; firstRow < items; firstRow += IDS_AT_ONCE) {
      const endRow = Math.min(items, firstRow + IDS_AT_ONCE);
      const named = ids.of(firstRow, endRow, this.#vocabularies);
      const part = { firstRow, rows: endRow - firstRow, ids: named };
      rows.set(this.#file.rowsOf({ name: node, idDtype: ids.dtype }, part), firstRow);
    }
    return rows;
  }
}

function areEqual(rows: Uint32Array, others: Uint32Array): boolean {
  return rows.length === others.length && rows.every((row, at) => row === others[at]);
}
