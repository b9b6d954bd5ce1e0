// Lookups in a loop. A loop runs in a dense part, from which no worker can be asked. But if the keys are an
// element of a list that the loop reads, as in map_fn over the histories of a batch, all keys are known
// before the loop: the rows of the whole list are looked up at once, and each iteration takes its own.
//
//   iteration: keys = list[i], rows = table[keys]    becomes    rows = table[list], iteration: rows[i]
//
// Other keys are computed within the loop, and such a lookup is refused.

import type { GraphValue, LookupNode, LoweredNode, OperationNode } from "../graph-value.ts";
import { integerOf, producerOf } from "../graph-value.ts";
import type { Lowering } from "../lowered-nodes.ts";

/** An iteration's nodes; lookups by elements of outer lists are moved before the loop. */
export function withoutLookups(
  lowering: Lowering,
  nodes: readonly LoweredNode[],
  parameters: readonly GraphValue[],
): readonly LoweredNode[] {
  const inside = new Set(nodes);
  const changing = new Set(parameters);
  const isOutside = (value: GraphValue): boolean =>
    !changing.has(value) && (value.producer === undefined || !inside.has(value.producer));
  return nodes.map((node) => {
    const element = node.kind === "lookup" ? elementOf(node.inputs[0]) : undefined;
    if (node.kind !== "lookup" || element === undefined || !isOutside(element.list)) return node;
    return takenFrom(rowsOf(lowering, node, element), node, element);
  });
}

/** Keys that are an element of a list, perhaps cast to int64. */
interface Element {
  readonly list: GraphValue;
  readonly gather: OperationNode;
  readonly cast: OperationNode | undefined;
}

function elementOf(keys: GraphValue | undefined): Element | undefined {
  const cast = keys === undefined ? undefined : producerOf(keys, "Cast");
  const source = cast?.inputs[0] ?? keys;
  const gather = source === undefined ? undefined : producerOf(source, "GatherV2");
  if (gather === undefined || !takesElement(gather)) return undefined;
  return { list: gather.inputs[0]!, gather, cast };
}

/** Whether a gather takes one element along the first axis. */
function takesElement({ inputs, attributes }: OperationNode): boolean {
  const [, index, axis] = inputs;
  const isAlongFirst = integerOf(axis) === 0 && attributes.int("batch_dims", 0) === 0;
  return isAlongFirst && index?.shape?.length === 0;
}

/** Looks up the rows of all keys of a list. */
function rowsOf(lowering: Lowering, lookup: LookupNode, { list, cast }: Element): GraphValue {
  const keys = cast === undefined ? list : castAs(lowering, cast, list);
  const [found] = lookup.outputs;
  const dim = found?.shape?.at(-1) ?? -1;
  const whole: LookupNode = { ...lookup, inputs: [keys], outputs: [] };
  const shape = keys.shape === undefined ? undefined : [...keys.shape, dim];
  whole.outputs = [{ dtype: "float32", shape, producer: whole }];
  lowering.add(whole);
  return whole.outputs[0]!;
}

function castAs(
  lowering: Lowering,
  { op, name, attributes, outputs }: OperationNode,
  list: GraphValue,
): GraphValue {
  const outputDtypes = outputs.map(({ dtype }) => dtype);
  return lowering.operation({ op, name, attributes, outputDtypes }, [list]).outputs[0]!;
}

/** The node that stands for a lookup in the iteration: it gives the same value. */
function takenFrom(
  rows: GraphValue,
  { name, outputs }: LookupNode,
  { gather }: Element,
): OperationNode {
  const { op, attributes, inputs } = gather;
  return { kind: "operation", op, name, attributes, inputs: [rows, ...inputs.slice(1)], outputs };
}
