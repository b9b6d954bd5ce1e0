// Items that a top-k ranks although no search can find them, because something else than a product
// of vectors stands between: a dense part holds all of them, and so does every router. Such a model
// is served, but its table does not grow with the workers, so people are told, in one sentence.

/** A matrix of items within a dense part. */
export interface UncutTable {
  /** Checkpoint key, or name of a constant. */
  readonly tensor: string;
  /** Bytes of its values, which every router holds. */
  readonly bytes: number;
  /** The node that ranks the items. */
  readonly ranking: string;
  /** The node that stands in the way of a search, with its operation. */
  readonly obstacle: { readonly node: string; readonly op: string };
}

/** What is to be said of such a table. */
export function uncutTableText({ tensor, bytes, ranking, obstacle }: UncutTable): string {
  const held = `Every router holds the ${bytes} bytes of ${tensor}`;
  const why = `operation ${obstacle.op} (node ${obstacle.node}) keeps the scores of node ${ranking}`;
  return `${held}, which are not cut into partitions: ${why} from being searched`;
}
