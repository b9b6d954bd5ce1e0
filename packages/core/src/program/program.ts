// What the router runs for one model version: plain data that `model` makes from the model's files
// on a worker. The router fetches it over the wire and runs it without any file. There is one
// program per signature, over tables shared by all signatures of the version.
//
//   inputs ─▶ host ─▶ lookup ─▶ dense ─▶ topK ─▶ host ─▶ outputs
//             strings  scatter   ONNX     scatter  e.g. exclusions
//             integers (or local)
//
// The steps of a branch (tf.cond) run where its predicate says so; a choice takes up the values of the
// branch that ran.
//
// Values are numbered; every step reads values that an input, a constant or an earlier step
// defines. So steps can run in their order; steps that do not depend on each other may overlap.

import type { AttributeColumn, AttributeSpec } from "../attributes/attribute-column.ts";
import type { Dtype } from "../tensor/dtype.ts";
import type { Fingerprint } from "../identity.ts";
import type { EvenCut } from "../partition/partition.ts";
import type { Tensor, TensorSpec } from "../tensor/tensor.ts";
import type { Experiment } from "./composed/experiment.ts";
import type { Pipeline } from "./composed/pipeline.ts";
import type { UncutTable } from "./uncut-table.ts";

/** Everything a router needs to answer for one version, except the rows of its tables. */
export interface ModelProgram {
  readonly fingerprint: Fingerprint;
  readonly tables: readonly TableSpec[];
  /** Key → integer tables that host steps look up (small: they travel with the program). */
  readonly vocabularies: readonly Vocabulary[];
  /** ONNX models (opset and initialisers inside), by position; `DenseStep.model` names one. */
  readonly denseModels: readonly Uint8Array[];
  readonly signatures: readonly SignatureProgram[];
  /** Item tables that became part of dense models; absent without any. */
  readonly uncutTables?: readonly UncutTable[] | undefined;
  /** Attributes of the items that dense parts rank; absent where the version brings none of them. */
  readonly rankedItems?: readonly RankedItems[] | undefined;
  /** The stages of a pipeline, whose one signature then has no steps; absent for any other model. */
  readonly pipeline?: Pipeline | undefined;
  /** The arms of an experiment, which has no signatures of its own; absent for any other model. */
  readonly experiment?: Experiment | undefined;
}

/** Items that a dense part ranks, as the version describes them. */
export interface RankedItems {
  /** Attributes by row of the ranking. */
  readonly columns: readonly AttributeColumn[];
}

/** A file region of a table, and the checksum to which all partitions' shares must add up. */
export interface TableSource {
  /** Checkpoint key or graph node, for messages: `candidates`. */
  readonly tensor: string;
  /** File name within the version directory, for messages. */
  readonly file: string;
  /** Unmasked CRC-32C over the whole region, or `undefined` where the format stores none. */
  readonly checksum: number | undefined;
}

/** Sources of one table, at most: an announcement has a checksum share of each for each partition that a worker holds. */
export const TABLE_SOURCES_MAX = 256;

interface TableShape {
  /** Name for messages and metrics: the checkpoint key of its rows. */
  readonly name: string;
  readonly rows: number;
  /** float32 values per row. */
  readonly dim: number;
  readonly partitions: number;
  /**
   * Source of the rows, then that of the ids (of a candidate table with stored ids), then those of
   * the values that are appended to the rows, such as a bias.
   */
  readonly sources: readonly TableSource[];
}

/** A table that is searched: cut into contiguous row ranges; each row has an id. */
export interface CandidateTable extends TableShape {
  readonly kind: "candidate";
  /** Dtype of the stored identifiers; `undefined`: the row number itself is the answer. */
  readonly idDtype: "string" | "int32" | "int64" | undefined;
  /**
   * How many values at the end of each row are no part of the item's vector: a bias, the square of a length. Absent: 0.
   */
  readonly added?: number | undefined;
  /** The rows and partitions of the model itself, where items were added to it, see `TableCut`. */
  readonly original?: EvenCut | undefined;
  /** What filters may ask of its items; absent where the version brings no attributes. */
  readonly attributes?: readonly AttributeSpec[] | undefined;
  /** Columns by which searches of the graph mask rows, and which no request may name; absent without any. */
  readonly masks?: readonly AttributeSpec[] | undefined;
}

/** A table in which keys are looked up: cut by a hash of the key. */
export interface KeyedTable extends TableShape {
  readonly kind: "keyed";
  readonly keys: TableKeys;
}

/** An embedding table as the cluster sees it. */
export type TableSpec = CandidateTable | KeyedTable;

/** How many values of a row, from the first one on, are the item's vector. */
export function vectorDimOf(spec: TableSpec): number {
  return spec.dim - (spec.kind === "candidate" ? (spec.added ?? 0) : 0);
}

/**
 * The keys of a keyed table. `row`: int64 row numbers, each its own key; a number outside of the
 * table is INVALID_ARGUMENT. `vocabulary`: strings or int64 ids, which the worker that holds the
 * key's partition translates to rows.
 */
export type TableKeys =
  | { readonly kind: "row" }
  | {
      readonly kind: "vocabulary";
      readonly keyDtype: "string" | "int64";
      readonly missing: MissingKey;
      /** Keys (mask tokens) with one row each, which have precedence over the vocabulary. */
      readonly fixed: { readonly keys: Tensor; readonly rows: readonly number[] };
    };

/**
 * The row of a key that is not in the vocabulary: one row, a hash over several OOV rows (strings:
 * FarmHash Fingerprint64 mod buckets; integers: floor mod), or INVALID_ARGUMENT.
 */
export type MissingKey =
  | { readonly kind: "row"; readonly row: number }
  | { readonly kind: "hash"; readonly firstRow: number; readonly buckets: number }
  | { readonly kind: "refuse" };

/** A static hash table of the graph: `keys[i]` maps to `values[i]`. */
export interface Vocabulary {
  readonly name: string;
  /** string or int64 `[entries]`. */
  readonly keys: Tensor;
  /** int64 or string `[entries]`. */
  readonly values: Tensor;
}

/** Number of a value within one signature's program. */
export type ValueId = number;

/** A named input or output of a signature, as its SignatureDef declares it. */
export interface SignatureTensor extends TensorSpec {
  /** The name clients use: `input_1`, `user_id`, `output_1`. */
  readonly name: string;
  /** The graph tensor, as the metadata endpoint shows it: `serving_default_input_1:0`. */
  readonly graphTensor: string;
  readonly value: ValueId;
}

/** The program of one signature. */
export interface SignatureProgram {
  readonly name: string;
  /** `tensorflow/serving/predict`, or "" for the initialiser signature. */
  readonly methodName: string;
  readonly inputs: readonly SignatureTensor[];
  readonly outputs: readonly SignatureTensor[];
  readonly constants: readonly { readonly value: ValueId; readonly tensor: Tensor }[];
  readonly steps: readonly Step[];
  /**
   * Whether each value of an output is computed from the values at the same place of the inputs alone. Such a
   * signature takes inputs of any one shape, whatever it declares, as TensorFlow does, which holds no input against it.
   */
  readonly isElementwise?: boolean | undefined;
}

/** One step of a program. */
export type Step = HostStep | LookupStep | DenseStep | TopKStep | ChoiceStep;

/** A step of a branch runs only where a predicate has this truth; the values of others are absent. */
export interface Condition {
  readonly predicate: ValueId;
  readonly isTrue: boolean;
}

interface Conditional {
  /** Absent: the step always runs. A step also stays out where a value that it reads is absent. */
  readonly when?: Condition | undefined;
}

/**
 * An attribute of a host operation, as the graph gives it: a dtype by name (`int64`), a shape as
 * its sizes, a list of shapes as texts (`3,2`; empty for a scalar), an int64 beyond 2⁵³ as decimal
 * text.
 */
export type Attribute = number | string | boolean | readonly number[] | readonly string[];

/** A TensorFlow operation that runs in TypeScript: strings, integers, tf.Example parsing. */
export interface HostStep extends Conditional {
  readonly kind: "host";
  /** TensorFlow op name: `StringToHashBucketFast`. */
  readonly op: string;
  /** Graph node, for error messages. */
  readonly node: string;
  readonly attributes: Readonly<Record<string, Attribute>>;
  /** Position in `ModelProgram.vocabularies` for the lookup ops. */
  readonly vocabulary?: number;
  readonly inputs: readonly ValueId[];
  readonly outputs: readonly ValueId[];
}

/** keys of any shape `[...]` → float32 rows `[..., dim]`. */
export interface LookupStep extends Conditional {
  readonly kind: "lookup";
  /** Position in `ModelProgram.tables`. */
  readonly table: number;
  readonly node: string;
  readonly keys: ValueId;
  readonly output: ValueId;
}

/** A run of one ONNX model in the dense engine. Names are those of the model. */
export interface DenseStep extends Conditional {
  readonly kind: "dense";
  /** Position in `ModelProgram.denseModels`. */
  readonly model: number;
  readonly inputs: readonly { readonly name: string; readonly value: ValueId }[];
  readonly outputs: readonly {
    readonly name: string;
    readonly value: ValueId;
    readonly dtype: Dtype;
  }[];
  /** Top-k operations of the model that may be done outside of it; absent without any. */
  readonly rankings?: readonly DenseRanking[] | undefined;
}

/**
 * A top-k of a dense model whose results nothing in the model reads: for a request with a `k`, lists of ids or filters of
 * its own, the scores of all items are asked for instead of the results, and are ranked outside.
 */
export interface DenseRanking {
  /** The graph's node, for messages. */
  readonly node: string;
  /** Output of the model, float32 `[queries, items]`. The step does not have it among its outputs. */
  readonly scores: string;
  readonly items: number;
  /** The k of the graph: at most `items`. */
  readonly k: number;
  /** Names of those outputs of the step that hold the scores and the rows of the best items, best first. */
  readonly best?: string | undefined;
  readonly rows?: string | undefined;
  /** Position in `ModelProgram.rankedItems`; absent where the version brings no attributes of these items. */
  readonly described?: number | undefined;
}

/** How many rows a search returns; or the value, an integer scalar, by which each request says so. */
export type SearchDepth = number | { readonly value: ValueId };

/**
 * One test of a column that the model holds; on a list of values it is `in` alone. `at` is `in` for values that are
 * listed for all queries together, as a scatter has them.
 */
export interface MaskTest {
  readonly kind: "test";
  /** Name of one of the table's `masks`. */
  readonly column: string;
  readonly is: "in" | "gt" | "gte" | "lt" | "lte" | "at";
  /**
   * Compared with: for all queries `[]` or `[1, ...]`, for each `[queries, ...]`. Of `at`: integers `[..., 2]`, a query
   * and a value for it that is below `end`.
   */
  readonly values: ValueId;
  readonly end?: number | undefined;
}

/** Which rows keep their scores, by the columns of the table. */
export type MaskRule =
  | MaskTest
  | { readonly kind: "and" | "or"; readonly of: readonly MaskRule[] }
  | { readonly kind: "not"; readonly of: MaskRule };

/** Which rows a graph masks before its top-k. */
export interface SearchMask {
  readonly keeps: MaskRule;
  /** The score of all rows that are not kept, where there is no penalty. */
  readonly score: number;
  /** What is added to the scores of rows that are not kept: one float32 value. */
  readonly penalty?: ValueId | undefined;
  /** Beside a penalty: what is added to the scores of rows that are kept; absent: nothing. */
  readonly bonus?: ValueId | undefined;
  /** Whether scores are multiplied by these instead; they are above 0. */
  readonly isFactor?: boolean | undefined;
  /**
   * Whether it is only for rows that the masks before it keep, back to the last one that is no such mask. It has a penalty, and
   * stands at the same place.
   */
  readonly isElse?: boolean | undefined;
  /** How many of the step's functions stand before the mask; the scores of masked rows go through the others. */
  readonly functionsBefore: number;
}

/** An operation on scores that never puts a lower one before a higher one. */
export type ScoreOperationName =
  | "Add"
  | "Ceil"
  | "Div"
  | "Elu"
  | "Exp"
  | "Expm1"
  | "Floor"
  | "KeepAbove"
  | "KeepFrom"
  | "LeakyRelu"
  | "Log"
  | "Log1p"
  | "LogSoftmax"
  | "Maximum"
  | "Minimum"
  | "Mul"
  | "Pow"
  | "Round"
  | "RoundToBfloat16"
  | "RoundToHalf"
  | "Selu"
  | "Sigmoid"
  | "Softmax"
  | "Softplus"
  | "Softsign"
  | "Sqrt"
  | "Sub"
  | "Tanh";

/**
 * A function of scores that keeps their order, though it may give some of them one value. A softmax is of the
 * scores of all rows; there is one at most.
 */
export interface ScoreFunction {
  readonly op: ScoreOperationName;
  /** Of functions of two numbers: float32 with one value, or one for each query. */
  readonly operand?: ValueId | undefined;
}

/** query vectors float32 `[queries, vectors · dim]` → the best `k` rows of a candidate table. */
export interface TopKStep extends Conditional {
  readonly kind: "topK";
  readonly table: number;
  readonly node: string;
  readonly query: ValueId;
  /** How many vectors a query has, the best of which is the score of a row; absent: one. */
  readonly vectors?: number | undefined;
  readonly k: SearchDepth;
  /**
   * True where the stored layer answers min(k, rows) (TFRS Streaming); otherwise k > rows is
   * INVALID_ARGUMENT, as `TopKV2` says.
   */
  readonly capped: boolean;
  /** One after the other, as many as `areSearched` allows; absent where all rows keep their scores. */
  readonly masks?: readonly SearchMask[] | undefined;
  /** What is ranked is what these make of the scores, one after the other; absent where it is the scores. */
  readonly functions?: readonly ScoreFunction[] | undefined;
  /** float32 `[queries, k]`, after the functions; unused outputs are `undefined`. */
  readonly scores: ValueId | undefined;
  /** int32 `[queries, k]`, global rows. */
  readonly rows: ValueId | undefined;
  /** `[queries, k]` of the table's `idDtype`. */
  readonly ids: ValueId | undefined;
}

/** The value of the branch that was taken: the first where a predicate is true, else the second. */
export interface ChoiceStep extends Conditional {
  readonly kind: "choice";
  readonly node: string;
  readonly predicate: ValueId;
  readonly branches: readonly [ValueId, ValueId];
  readonly output: ValueId;
}
