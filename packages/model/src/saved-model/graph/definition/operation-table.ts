// The definitions of operations that came with the graph: which outputs a node has, of which types,
// and which attributes it left out because they equal the default.

import { WinnowError } from "@winnow/core";
import type { Attributes } from "./attributes.ts";
import type { NodeDefinition, OperationDefinition, OutputArgument } from "./graph-definition.ts";
import { graphDtypeOf } from "./graph-dtype.ts";
import type { GraphDtype } from "./graph-dtype.ts";
import { STANDARD_OPERATIONS } from "./standard-operations.ts";

const OUTPUTS_MAX = 65_536;

/** Looks up attributes, types and outputs of the nodes of one graph. */
export class OperationTable {
  readonly #operations: ReadonlyMap<string, OperationDefinition>;

  constructor(operations: ReadonlyMap<string, OperationDefinition>) {
    this.#operations = operations;
  }

  /** The node's attributes, defaults included. */
  attributesOf(node: NodeDefinition): Attributes {
    const operation = this.#definitionOf(node);
    return operation === undefined
      ? node.attributes
      : node.attributes.withDefaults(operation.defaults);
  }

  /** Element types of all outputs; one that is invalid of an operation that nothing defines, which is refused later. */
  outputDtypesOf(node: NodeDefinition): GraphDtype[] {
    const operation = this.#definitionOf(node);
    if (operation === undefined) return ["invalid"];
    const attributes = this.attributesOf(node);
    return operation.outputs.flatMap((output) => dtypesOf(output, attributes));
  }

  #definitionOf({ op }: NodeDefinition): OperationDefinition | undefined {
    return this.#operations.get(op) ?? STANDARD_OPERATIONS.get(op);
  }

  /** Position of the first output that an output argument stands for. */
  outputOffset(node: NodeDefinition, argument: string): number {
    const operation = this.#definitionOf(node);
    let offset = 0;
    for (const output of operation?.outputs ?? []) {
      if (output.name === argument) return offset;
      offset += countOf(output, this.attributesOf(node));
    }
    return 0;
  }
}

function dtypesOf(output: OutputArgument, attributes: Attributes): GraphDtype[] {
  if (output.typeListAttribute !== "") {
    return attributes.types(output.typeListAttribute).map(graphDtypeOf);
  }
  const type = output.typeAttribute === "" ? output.type : attributes.type(output.typeAttribute);
  const count = countOf(output, attributes);
  return Array.from({ length: count }, () => graphDtypeOf(type));
}

function countOf(output: OutputArgument, attributes: Attributes): number {
  if (output.typeListAttribute !== "") return attributes.types(output.typeListAttribute).length;
  if (output.countAttribute === "") return 1;
  const count = attributes.int(output.countAttribute);
  if (count >= 0 && count <= OUTPUTS_MAX) return count;
  throw new WinnowError("INVALID_ARGUMENT", `A node of the graph claims ${count} outputs`);
}
