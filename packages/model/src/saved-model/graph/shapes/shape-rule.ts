// Arguments and results of the rules of shape inference.

import type { Attributes } from "../definition/attributes.ts";
import type { GraphValue, Shape } from "../graph-value.ts";

/** The part of a node that its shapes depend on. */
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
