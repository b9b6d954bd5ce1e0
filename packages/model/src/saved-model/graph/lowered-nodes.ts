// The program nodes that one signature's graph has become so far, and what the visits to the
// graph's nodes share. `lowering.ts` decides which program node a visited node becomes.

import type { GraphSources } from "./sources/graph-sources.ts";
import type {
  GraphValue,
  LoweredNode,
  NodeCondition,
  OperationNode,
  TopKNode,
} from "./graph-value.ts";
import type { GraphNode, GraphWalk } from "./graph-walk.ts";
import { inferShape } from "./shapes/shape-inference.ts";
import type { TableRegistry } from "./tables/table-registry.ts";

/** A node being visited. */
export interface Visit {
  readonly node: GraphNode;
  readonly inputs: readonly GraphValue[];
  readonly walk: GraphWalk;
}

/** Outputs of a node, or `undefined` where the handler does not apply to it. */
export type Handler = (lowering: Lowering, visit: Visit) => readonly GraphValue[] | undefined;

/** Operations whose outputs all have one shape. */
const ALIKE: ReadonlySet<string> = new Set(["TopKV2", "Unpack", "Split", "SplitV"]);

/** The value of all queries, of which an operation takes the part of one. */
export interface PartOfOne {
  readonly all: GraphValue;
  readonly taking: OperationNode;
}

/** Collects the nodes of one signature. */
export class Lowering {
  readonly sources: GraphSources;
  readonly registry: TableRegistry;
  /** In an order in which they can run. */
  readonly nodes: LoweredNode[] = [];
  /** Lookups fused into a keyed table that itself refuses keys which its vocabulary lacks. */
  readonly guardedLookups: Set<OperationNode> = new Set();
  /** Contents of the variables that the graph reads. */
  readonly readVariables: Map<string, GraphValue> = new Map();
  /** Variables that the graph assigns to, and a node that does. */
  readonly changedVariables: Map<string, string> = new Map();
  /** What kept the scores of a top-k from being searched. */
  readonly obstacles: Map<GraphValue, OperationNode> = new Map();
  /** The search behind each value that holds its scores, best first. */
  readonly rankings: Map<GraphValue, TopKNode> = new Map();
  /** Values of one query, each with what it is the part of and the operation that takes the part. */
  readonly partsOfOne: Map<GraphValue, PartOfOne> = new Map();
  /** What each search ranks: scores of all items. */
  readonly scoresOfSearches: Map<TopKNode, GraphValue> = new Map();
  /** Searches for the first items of what others find, by how many. */
  readonly shorterSearches: Map<TopKNode, Map<number, TopKNode>> = new Map();
  /** Elements of all constants folded so far, for the bound in `lowering.ts`. */
  foldedElements = 0;
  /** Whether a data set's function is being followed: k is then at most the number of rows. */
  isInDataset = false;
  /** Whether a loop's body is being followed: no worker can be asked from there. */
  isInLoop = false;
  #condition: NodeCondition | undefined;

  constructor(sources: GraphSources, registry: TableRegistry) {
    this.sources = sources;
    this.registry = registry;
  }

  /** Adds an operation that stays in the program. */
  operation(node: GraphNode, inputs: readonly GraphValue[]): OperationNode {
    const { op, name, attributes } = node;
    const lowered: OperationNode = {
      kind: "operation",
      op,
      name,
      attributes,
      inputs,
      outputs: [],
    };
    const inferred = inferShape(node, inputs);
    lowered.outputs = node.outputDtypes.map((dtype, index) =>
      index === 0 || ALIKE.has(op)
        ? { dtype, ...inferred, producer: lowered }
        : { dtype, shape: undefined, producer: lowered },
    );
    this.add(lowered);
    return lowered;
  }

  /** What `follow` gives, and the nodes it adds, which are taken out again. */
  aside<Result>(follow: () => Result): { readonly result: Result; readonly nodes: LoweredNode[] } {
    const start = this.nodes.length;
    const result = follow();
    return { result, nodes: this.nodes.splice(start) };
  }

  /** Adds a node whose outputs are already described. */
  add(node: LoweredNode): void {
    if (this.#condition !== undefined) node.when = this.#condition;
    this.nodes.push(node);
  }

  /** The branch that is being walked; `undefined` outside of branches. */
  get condition(): NodeCondition | undefined {
    return this.#condition;
  }

  /** What `follow` gives; the nodes that it adds run under a condition. */
  under<Result>(condition: NodeCondition, follow: () => Result): Result {
    const outer = this.#condition;
    this.#condition = condition;
    try {
      return follow();
    } finally {
      this.#condition = outer;
    }
  }
}
