// What is known of a value while a graph is walked: abstract interpretation over the lattice of
// constants, stored variables, resources, partly known shapes and, failing all that, "computed by
// this node". Aliases (Identity, function arguments) share one GraphValue object, so patterns compare
// values by identity and need no node names.

import { elementCount } from "@winnow/core";
import type { ScoreOperationName, Tensor } from "@winnow/core";
import type { NarrowFloat } from "../bundle/data-type.ts";
import type { StoredTensor } from "../partitions/stored-table.ts";
import type { Attributes } from "./definition/attributes.ts";
import type { GraphDtype } from "./definition/graph-dtype.ts";

/** Sizes with -1 for unknown ones; `undefined` for an unknown rank. */
export type Shape = readonly number[] | undefined;

/** Something a graph refers to by handle. */
export type Resource =
  | { readonly kind: "variable"; readonly name: string }
  | {
      readonly kind: "table";
      readonly name: string;
      readonly keyDtype: GraphDtype;
      readonly valueDtype: GraphDtype;
    };

/** A value of one signature's graph. */
export interface GraphValue {
  readonly dtype: GraphDtype;
  readonly shape: Shape;
  /** The content, if it does not depend on the request. */
  readonly constant?: Tensor | undefined;
  /** Set if the value is the whole content of a variable or of a constant of the graph. */
  readonly stored?: StoredTensor | undefined;
  /** Of a half or bfloat16 value: its values as float32. */
  readonly widened?: GraphValue | undefined;
  /** Whether `widened` has more digits, and is to be rounded before anything is computed of it. */
  readonly isUnrounded?: boolean | undefined;
  readonly resource?: Resource | undefined;
  /** A small integer vector or scalar of which some elements are known; -1 marks the others. */
  readonly known?: readonly number[] | undefined;
  /** Columns of a tf.data data set, each standing for all its batches together. */
  readonly columns?: readonly GraphValue[] | undefined;
  /** What a handle of a TensorList stands for. */
  readonly list?: TensorList | undefined;
  /** Name of the file under `assets/` whose path this string is. */
  readonly asset?: string | undefined;
  /**
   * The node that computes the value; `undefined` for inputs, constants, stored values and handles.
   */
  readonly producer?: LoweredNode | undefined;
}

/**
 * A TensorList: all its elements as one tensor `[count, ...]`; room for elements that nobody has
 * written; what a loop has written before this iteration; or another list with one more element, at an
 * index or at the end.
 */
export type TensorList =
  | { readonly kind: "stacked"; readonly tensor: GraphValue }
  | {
      readonly kind: "reserved";
      readonly count: GraphValue;
      readonly elementDtype: GraphDtype;
      readonly elementShape: Shape;
    }
  | { readonly kind: "carried" }
  | {
      readonly kind: "written";
      readonly before: GraphValue;
      readonly item: GraphValue;
      readonly index: GraphValue | undefined;
      /** Whether an index behind the end makes the list longer. */
      readonly grows: boolean;
    };

/** What one iteration of a loop computes; the loop runs as a whole in a dense part. */
export interface LoopBody {
  /**
   * The state: `parameter` at the start of an iteration, `next` at its end. The loop's first input is
   * whether it runs at all, the next ones are the state that it begins with.
   */
  readonly carried: readonly { readonly parameter: GraphValue; readonly next: GraphValue }[];
  /** Lists that the loop fills, each with one item per iteration. */
  readonly lists: readonly LoopList[];
  /** Whether another iteration follows. */
  readonly goesOn: GraphValue;
  /** In an order in which they can run. */
  readonly nodes: readonly OperationNode[];
}

/**
 * `collected`: the items of all iterations behind those that were written `before` the loop, or, where the
 * loop counts `backwards`, from the last iteration to the first; together they must be `count`, where that
 * is known before. `last`: a list of one element, which each iteration writes anew.
 */
export interface LoopList {
  readonly kind: "collected" | "backwards" | "last";
  readonly item: GraphValue;
  /** Of an item. A loop that takes no iteration must still give a list of items of this rank. */
  readonly shape: readonly number[];
  readonly before: readonly GraphValue[];
  readonly count: GraphValue | undefined;
}

/** The branch to which a node belongs: it runs where the predicate has this truth. */
export interface NodeCondition {
  readonly predicate: GraphValue;
  readonly isTrue: boolean;
}

interface ConditionalNode {
  /** Of the innermost branch; `undefined` for nodes that always run. One object per branch. */
  when?: NodeCondition | undefined;
}

/** An operation that stays in the program, on the host or in a dense part. */
export interface OperationNode extends ConditionalNode {
  readonly kind: "operation";
  readonly op: string;
  readonly name: string;
  readonly attributes: Attributes;
  readonly inputs: readonly GraphValue[];
  outputs: readonly GraphValue[];
  /** Of a loop alone. */
  readonly loop?: LoopBody;
}

/** A matrix in the files of a version, as it is stored or derived. */
interface StoredMatrix {
  readonly stored: StoredTensor;
  readonly rows: number;
  readonly dim: number;
  readonly derivation?: unknown;
}

/** A gather from an embedding table. */
export interface LookupNode extends ConditionalNode {
  readonly kind: "lookup";
  readonly name: string;
  /** Position in the version's tables. */
  readonly table: number;
  /** Numbers of the rows, as the graph gathers them. */
  readonly rows: GraphValue;
  /** What they are rows of. */
  readonly of?: StoredMatrix | undefined;
  readonly inputs: readonly GraphValue[];
  outputs: readonly GraphValue[];
}

/** Which rows keep their scores: columns by their vectors, or, of a table that has them, by name. */
export type GraphMaskRule<Column = StoredTensor> =
  | {
      readonly kind: "test";
      readonly column: Column;
      readonly is: "in" | "gt" | "gte" | "lt" | "lte" | "at";
      readonly values: GraphValue;
      /** Of `at`, and of `in` where other values are refused: what all values are below. */
      readonly end?: number | undefined;
    }
  | { readonly kind: "and" | "or"; readonly of: readonly GraphMaskRule<Column>[] }
  | { readonly kind: "not"; readonly of: GraphMaskRule<Column> };

/** A mask of a search. */
export interface NodeMask {
  readonly keeps: GraphMaskRule<string>;
  readonly score: number;
  /** What is added to the scores of masked rows, in place of `score`. */
  readonly penalty?: GraphValue | undefined;
  /** Beside a penalty: what is added to the scores of the other rows. */
  readonly bonus?: GraphValue | undefined;
  /** Whether these are factors above 0 instead. */
  readonly isFactor?: boolean | undefined;
  /** Whether it is only for rows that the masks before it keep. */
  readonly isElse?: boolean | undefined;
  /** How many of the node's functions stand before it. */
  readonly functionsBefore: number;
}

/** A function of scores, as the program has it. */
export interface NodeFunction {
  readonly op: ScoreOperationName;
  /** One value, or one for each query. */
  readonly operand?: GraphValue | undefined;
}

/** A search of a candidate table; outputs are scores, rows and, if the graph gathers them, ids. */
export interface TopKNode extends ConditionalNode {
  readonly kind: "topK";
  readonly name: string;
  /** Position in the version's tables; changes once identifiers are gathered by the rows found. */
  table: number;
  /** The query; the k, where requests say it; the values of the masks; the operands of the functions. */
  readonly inputs: readonly GraphValue[];
  readonly k: number | undefined;
  /** How many vectors a query has; absent: one. */
  readonly vectors?: number | undefined;
  /** Their values are among the inputs as well. */
  readonly masks: readonly NodeMask[];
  /** What is ranked, and is the first output, is what these make of the scores. */
  readonly functions: readonly NodeFunction[];
  readonly capped: boolean;
  outputs: readonly GraphValue[];
}

/** One result of two branches: predicate, value where it is true, value where it is false. */
export interface ChoiceNode extends ConditionalNode {
  readonly kind: "choice";
  readonly name: string;
  readonly inputs: readonly [GraphValue, GraphValue, GraphValue];
  outputs: readonly GraphValue[];
}

/** A node of the program before it is assigned to a step. */
export type LoweredNode = OperationNode | LookupNode | TopKNode | ChoiceNode;

/** The values without which a node cannot run: its inputs, and the predicate of its branch. */
export function dependenciesOf({ inputs, when }: LoweredNode): readonly GraphValue[] {
  return when === undefined ? inputs : [...inputs, when.predicate];
}

const KNOWN_ELEMENTS_MAX = 64;

/** A value whose content is known. */
export function constantValue(tensor: Tensor, stored?: StoredTensor): GraphValue {
  return {
    dtype: tensor.dtype,
    shape: tensor.shape,
    constant: tensor,
    stored,
    known: knownElements(tensor),
  };
}

/** A half or bfloat16 value by its values as float32. */
export function narrowValue(
  dtype: NarrowFloat,
  widened: GraphValue,
  isUnrounded = false,
): GraphValue {
  return { dtype, shape: widened.shape, widened, ...(isUnrounded && { isUnrounded }) };
}

/** Integers of a small constant as numbers; `undefined` for anything else. */
function knownElements(tensor: Tensor): readonly number[] | undefined {
  const isSmall = tensor.shape.length <= 1 && elementCount(tensor.shape) <= KNOWN_ELEMENTS_MAX;
  if (!isSmall || (tensor.dtype !== "int32" && tensor.dtype !== "int64")) return undefined;
  return Array.from(tensor.data, Number);
}

/** Shapes, axes and positions have few elements; a larger constant is never read as integers. */
const INTEGERS_MAX = 65_536;

/** All integers of a value that holds at most 65,536; `undefined` unless every one is known. */
export function integersOf(value: GraphValue | undefined): readonly number[] | undefined {
  const tensor = value?.constant;
  if (tensor !== undefined && elementCount(tensor.shape) > INTEGERS_MAX) return undefined;
  if (tensor?.dtype === "int32" || tensor?.dtype === "int64")
    return Array.from(tensor.data, Number);
  const known = value?.known;
  return known === undefined || known.includes(-1) ? undefined : known;
}

/** The integer of a constant scalar, or `undefined`. */
export function integerOf(value: GraphValue | undefined): number | undefined {
  const integers = integersOf(value);
  return integers?.length === 1 ? integers[0] : undefined;
}

/** The operation that computes a value, if it is one of these. */
export function producerOf(
  value: GraphValue,
  ...ops: readonly string[]
): OperationNode | undefined {
  const node = value.producer;
  return node?.kind === "operation" && ops.includes(node.op) ? node : undefined;
}
