// Inputs and outputs of half and bfloat16, which programs and JSON do not have: they are float32 with the same values.
// What a request brings is rounded before the graph computes with it, as TensorFlow's clients round it.

import { isNarrowFloat, numberOfDtype, storedDtypeOf } from "../bundle/data-type.ts";
import { Attributes } from "./definition/attributes.ts";
import type { AttributeValue } from "./definition/attributes.ts";
import type { GraphDtype } from "./definition/graph-dtype.ts";
import type { SignatureDefinition, TensorInfo } from "./definition/meta-graph.ts";
import { narrowValue } from "./graph-value.ts";
import type { GraphValue } from "./graph-value.ts";
import type { GraphWalk } from "./graph-walk.ts";
import type { Visit } from "./lowered-nodes.ts";

const FLOAT32 = numberOfDtype("float32");

/** A signature whose inputs and outputs of half and bfloat16 are declared as float32. */
export function signatureInFloats(signature: SignatureDefinition): SignatureDefinition {
  const { inputs, outputs } = signature;
  return { ...signature, inputs: inputs.map(inFloats), outputs: outputs.map(inFloats) };
}

function inFloats(info: TensorInfo): TensorInfo {
  return isNarrowFloat(storedDtypeOf(info.type) ?? "") ? { ...info, type: FLOAT32 } : info;
}

/** An input as the graph has it: float32 values to be rounded where it is of a narrower type. */
export function ofType(dtype: GraphDtype, input: GraphValue): GraphValue {
  return isNarrowFloat(dtype) ? narrowValue(dtype, input, true) : input;
}

/** The cast that makes float32 of an output of a narrower type. */
export function castToFloat32(value: GraphValue, output: string, walk: GraphWalk): Visit {
  const name = `${output}/float32`;
  const type: AttributeValue = { kind: "type", value: FLOAT32 };
  const attributes = new Attributes(name, new Map([["DstT", type]]));
  return {
    node: { op: "Cast", name, attributes, outputDtypes: ["float32"] },
    inputs: [value],
    walk,
  };
}
