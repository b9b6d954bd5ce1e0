// One signature as nodes of a program: its graph is lowered, and the nodes that its outputs and its
// assertions depend on are kept.

import { WinnowError } from "@winnow/core";
import type { UncutTable } from "@winnow/core";
import { refuseChangedVariables } from "./changed-variables.ts";
import { isGuardOf } from "./lookups/embedding-lookup.ts";
import type { GraphSources } from "./sources/graph-sources.ts";
import { graphDtypeOf } from "./definition/graph-dtype.ts";
import { dependenciesOf } from "./graph-value.ts";
import type { GraphValue, LoweredNode } from "./graph-value.ts";
import { GraphWalk } from "./graph-walk.ts";
import { Lowering } from "./lowered-nodes.ts";
import { visitNode } from "./lowering.ts";
import type { GraphDefinition } from "./definition/graph-definition.ts";
import type { SignatureDefinition } from "./definition/meta-graph.ts";
import { assetValues } from "./sources/table-contents.ts";
import type { TableRegistry } from "./tables/table-registry.ts";
import { castToFloat32, ofType, signatureInFloats } from "./narrow-signature.ts";
import { tablesReadWhole, uncutTablesOf } from "./scores/uncut-tables.ts";

/** Nodes in an order in which they can run, and the values at both ends. */
export interface SignatureGraph {
  readonly signature: SignatureDefinition;
  /** In the signature's order. */
  readonly inputs: readonly GraphValue[];
  readonly outputs: readonly GraphValue[];
  readonly nodes: readonly LoweredNode[];
  /** Item tables that stay in dense parts; absent without any. */
  readonly uncutTables?: readonly UncutTable[] | undefined;
}

/** Lowers a signature. @throws WinnowError for a broken graph or one that cannot be served */
export function lowerSignature(
  declared: SignatureDefinition,
  sources: GraphSources,
  registry: TableRegistry,
): SignatureGraph {
  const signature = ofPlaceholders(declared, sources.meta.graph);
  for (const { name, graphTensor } of [...signature.inputs, ...signature.outputs]) {
    if (graphTensor !== "") continue;
    const message = `"${name}" is a composite tensor; dense and sparse ones are served`;
    throw new WinnowError("UNIMPLEMENTED", message);
  }
  const lowering = new Lowering(sources, registry);
  const inFloats = signatureInFloats(signature);
  const inputs = inFloats.inputs.map(({ type, shape }): GraphValue => {
    return { dtype: graphDtypeOf(type), shape };
  });
  const fed = assetValues(sources.meta);
  for (const [index, { graphTensor, type }] of signature.inputs.entries()) {
    fed.set(graphTensor.replace(/:0$/, ""), ofType(graphDtypeOf(type), inputs[index]!));
  }
  const walk = new GraphWalk(sources.meta.graph, sources.operations, (node, values, walk) =>
    visitNode(lowering, { node, inputs: values, walk }),
  );
  const wanted = signature.outputs.map(({ graphTensor }) => graphTensor);
  const outputs = walk.valuesOf(wanted, fed).map((value, index) => {
    const { name, graphTensor } = signature.outputs[index]!;
    if (value?.widened !== undefined)
      return visitNode(lowering, castToFloat32(value, name, walk))[0]!;
    if (value !== undefined) return value;
    const message = `output "${name}" names ${graphTensor}, which has no value`;
    throw new WinnowError("INVALID_ARGUMENT", message);
  });
  const nodes = neededNodes(lowering, outputs);
  refuseChangedVariables(lowering, nodes, outputs);
  const uncutTables = [
    ...uncutTablesOf(nodes, lowering.obstacles),
    ...tablesReadWhole(nodes, (stored) => registry.isSearched(stored)),
  ];
  return { signature: inFloats, inputs, outputs, nodes, uncutTables };
}

/**
 * The signature, with the types that the graph's placeholders have: those of an export that was written by hand, as
 * TensorFlow Serving's `half_plus_three`, may differ, and TensorFlow holds no serialized tf.Examples against them.
 */
function ofPlaceholders(
  signature: SignatureDefinition,
  graph: GraphDefinition,
): SignatureDefinition {
  const inputs = signature.inputs.map((info) => {
    const node = graph.nodes.get(info.graphTensor.replace(/:0$/, ""));
    return node?.op === "Placeholder" ? { ...info, type: node.attributes.type("dtype") } : info;
  });
  return { ...signature, inputs };
}

/** Nodes that outputs and assertions depend on, in order. */
function neededNodes(lowering: Lowering, outputs: readonly GraphValue[]): LoweredNode[] {
  const needed = new Set<LoweredNode>();
  need(needed, outputs);
  for (const node of lowering.nodes) {
    if (node.kind !== "operation" || node.op !== "Assert") continue;
    const isCovered = [...lowering.guardedLookups].some(
      (lookup) => !needed.has(lookup) && isGuardOf(node, lookup),
    );
    if (isCovered) continue;
    needed.add(node);
    need(needed, dependenciesOf(node));
  }
  return lowering.nodes.filter((node) => needed.has(node));
}

function need(needed: Set<LoweredNode>, values: readonly GraphValue[]): void {
  const stack = values.flatMap(({ producer }) => producer ?? []);
  for (let node = stack.pop(); node !== undefined; node = stack.pop()) {
    if (needed.has(node)) continue;
    needed.add(node);
    for (const { producer } of dependenciesOf(node))
      if (producer !== undefined) stack.push(producer);
  }
}
