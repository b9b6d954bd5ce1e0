// The functions that store and restore a model's variables. Loaders learn from `RestoreV2` which
// checkpoint key belongs to which variable, so its keys must be right even if nobody calls it.

import { type Dtype, type Tensor, stringTensor } from "@winnow/core";
import type { GraphType } from "./graph-type.ts";
import type { WrittenFunction, WrittenNode } from "./graph-message.ts";

/** A variable of the main graph with its checkpoint key. */
export interface GraphVariable {
  readonly name: string;
  readonly key: string;
  readonly dtype: Dtype;
  readonly shape: readonly number[];
}

/** Writes all variables to a checkpoint. */
export function saveFunction(name: string, variables: readonly GraphVariable[]): WrittenFunction {
  const reads = variables.map(({ dtype }, index) => ({
    name: `Read_${index}/ReadVariableOp`,
    op: "ReadVariableOp",
    inputs: [`read_${index}`],
    attributes: { dtype: { type: dtype } },
  }));
  const save = {
    name: "SaveV2",
    op: "SaveV2",
    inputs: [
      "file_prefix",
      "SaveV2/tensor_names:output:0",
      "SaveV2/shape_and_slices:output:0",
      ...reads.map((read) => `${read.name}:value:0`),
    ],
    attributes: { dtypes: { types: variables.map(({ dtype }) => dtype) } },
  };
  return {
    name,
    arguments: argumentsFor("read", variables),
    results: [{ name: "identity", type: "string", value: "Identity:output:0" }],
    nodes: [
      ...keyNodes("SaveV2", variables),
      ...reads,
      save,
      identityNode("Identity", ["file_prefix", "^SaveV2"], "string"),
    ],
    effects: ["SaveV2"],
  };
}

/** Assigns every variable from a checkpoint. */
export function restoreFunction(
  name: string,
  variables: readonly GraphVariable[],
): WrittenFunction {
  const restore = {
    name: "RestoreV2",
    op: "RestoreV2",
    inputs: [
      "file_prefix",
      "RestoreV2/tensor_names:output:0",
      "RestoreV2/shape_and_slices:output:0",
    ],
    attributes: { dtypes: { types: variables.map(({ dtype }) => dtype) } },
  };
  const assigns = variables.map(({ dtype }, index) => ({
    name: `AssignVariableOp_${index}`,
    op: "AssignVariableOp",
    inputs: [`assign_${index}`, `RestoreV2:tensors:${index}`],
    attributes: { dtype: { type: dtype } },
  }));
  const after = assigns.map((assign) => `^${assign.name}`);
  return {
    name,
    arguments: argumentsFor("assign", variables),
    results: [{ name: "identity", type: "string", value: "Identity:output:0" }],
    nodes: [
      ...keyNodes("RestoreV2", variables),
      restore,
      ...assigns,
      identityNode("Identity", ["file_prefix", ...after], "string"),
    ],
    effects: assigns.map((assign) => assign.name),
  };
}

/** A call of a library function; results are `name:0`, … in a graph, `name:output:0` in a body. */
export function callNode(
  name: string,
  functionName: string,
  call: {
    readonly inputs: readonly string[];
    readonly types: readonly GraphType[];
    readonly results: readonly GraphType[];
  },
): WrittenNode {
  return {
    name,
    op: "StatefulPartitionedCall",
    inputs: call.inputs,
    attributes: {
      Tin: { types: call.types },
      Tout: { types: call.results },
      f: { functionName },
    },
  };
}

/** Passes a value on under another name. */
export function identityNode(name: string, inputs: readonly string[], type: Dtype): WrittenNode {
  return { name, op: "Identity", inputs, attributes: { T: { type } } };
}

/** A constant. */
export function constantNode(name: string, tensor: Tensor): WrittenNode {
  const attributes = { dtype: { type: tensor.dtype }, value: { tensor } };
  return { name, op: "Const", inputs: [], attributes };
}

function argumentsFor(
  prefix: string,
  variables: readonly GraphVariable[],
): { readonly name: string; readonly type: GraphType }[] {
  const handles = variables.map((_, index) => ({
    name: `${prefix}_${index}`,
    type: "resource" as const,
  }));
  return [{ name: "file_prefix", type: "string" }, ...handles];
}

function keyNodes(prefix: string, variables: readonly GraphVariable[]): WrittenNode[] {
  return [
    constantNode(`${prefix}/tensor_names`, stringTensor(variables.map(({ key }) => key))),
    constantNode(`${prefix}/shape_and_slices`, stringTensor(variables.map(() => ""))),
  ];
}
