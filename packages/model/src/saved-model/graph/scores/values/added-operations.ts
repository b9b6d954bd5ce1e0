// Operations that a search adds to those of a graph: they change queries before these are asked.

import { Attributes } from "../../definition/attributes.ts";
import type { AttributeValue } from "../../definition/attributes.ts";
import { constantValue } from "../../graph-value.ts";
import type { GraphValue } from "../../graph-value.ts";
import type { Lowering } from "../../lowered-nodes.ts";

/** A value in other sizes. */
export function reshaped(
  lowering: Lowering,
  value: GraphValue,
  { name, sizes }: { readonly name: string; readonly sizes: readonly number[] },
): GraphValue {
  const data = Int32Array.from(sizes);
  const shape = constantValue({ dtype: "int32", shape: [data.length], data });
  return applied(lowering, "Reshape", { name, of: [value, shape] });
}

/** What a further operation gives of some values. */
export function applied(
  lowering: Lowering,
  op: string,
  {
    name,
    of,
    attributes = new Map(),
  }: {
    readonly name: string;
    readonly of: readonly GraphValue[];
    readonly attributes?: Map<string, AttributeValue>;
  },
): GraphValue {
  const own = `${name}/${op.toLowerCase()}`;
  const node = {
    op,
    name: own,
    attributes: new Attributes(own, attributes),
    outputDtypes: ["float32"] as const,
  };
  return lowering.operation(node, of).outputs[0]!;
}
