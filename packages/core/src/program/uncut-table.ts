// Tables within a dense part, which every router holds: items that a top-k ranks although no search can find
// them, because their scores are no product of vectors, and large embeddings of an ONNX model. Such a model
// is served, but its table does not grow with the workers, so one sentence tells the operator.

/** A matrix of items, or another large one, within a dense part. */
export interface UncutTable {
  /** Checkpoint key, or name of a constant. */
  readonly tensor: string;
  /** Bytes of its values, which every router holds. */
  readonly bytes: number;
  /** The node that ranks the items; `undefined` for a table of something else, such as users. */
  readonly ranking: string | undefined;
  /** The node that prevents a search, or that reads the table, with its operation. */
  readonly obstacle: { readonly node: string; readonly op: string };
}

/** The sentence about such a table. */
export function uncutTableText({ tensor, bytes, ranking, obstacle }: UncutTable): string {
  const held = `Every router holds the ${bytes} bytes of ${tensor}`;
  if (ranking === undefined) {
    const user = `operation ${obstacle.op} (node ${obstacle.node}) reads them within the dense part`;
    return `${held}, which are not cut into partitions: ${user}`;
  }
  const why = `operation ${obstacle.op} (node ${obstacle.node}) keeps the scores of node ${ranking}`;
  return `${held}, which are not cut into partitions: ${why} from being searched`;
}
