// What a rule of shape inference is given and gives.

import type { Attributes } from "./attributes.ts";
import type { GraphValue, Shape } from "./graph-value.ts";

/** A node as far as its shapes depend on it. */
export interface ShapedNode {
  readonly op: string;
  readonly name: string;
  readonly attributes: Attributes;
}

/** What is inferred of one output. */
export interface InferredOutput {
  readonly shape: Shape;
  readonly known?: readonly number[] | undefined;
}

/** Inputs of a node, in order. */
export type Inputs = readonly GraphValue[];
/** Shapes of a node's outputs from what is known of its inputs. */
export type ShapeRule = (inputs: Inputs, node: ShapedNode) => InferredOutput;
