// Runs operations while the graph is read, where nothing they need depends on a request. The same
// implementations run in the router, so folding changes no answer.

import { WinnowError, elementCount, isHostOperation, runHostStep } from "@winnow/core";
import type { Attribute, HostStep, Tensor, VocabularyIndex } from "@winnow/core";
import type { AttributeValue, Attributes } from "./definition/attributes.ts";
import { typeName } from "../bundle/data-type.ts";

/** An operation with constant inputs. */
export interface ConstantCall {
  readonly op: string;
  readonly name: string;
  readonly attributes: Attributes;
  readonly outputCount: number;
  /** Whether results above `FOLDED_ELEMENTS_MAX` are returned too. */
  readonly isUnbounded?: boolean;
}

/** A larger result stays an operation: a program should not carry what a step can compute. */
const FOLDED_ELEMENTS_MAX = 1 << 22;

const decoder = new TextDecoder();

/** Results of an operation on constants, or `undefined` where it cannot run here. */
export function fold(
  call: ConstantCall,
  inputs: readonly Tensor[],
  vocabulary?: VocabularyIndex,
): readonly Tensor[] | undefined {
  if (!isHostOperation(call.op)) return undefined;
  const step: HostStep = {
    kind: "host",
    op: call.op,
    node: call.name,
    attributes: programAttributesOf(call.attributes),
    ...(vocabulary === undefined ? {} : { vocabulary: 0 }),
    inputs: inputs.map((_, index) => index),
    outputs: Array.from({ length: call.outputCount }, (_, index) => inputs.length + index),
  };
  try {
    const outputs = runHostStep(step, inputs, vocabulary === undefined ? [] : [vocabulary]);
    const isSmall = outputs.every(({ shape }) => elementCount(shape) <= FOLDED_ELEMENTS_MAX);
    return isSmall || call.isUnbounded === true ? outputs : undefined;
  } catch (error) {
    // An operation that fails here fails with the same message on every request that needs it.
    if (error instanceof WinnowError) return undefined;
    throw error;
  }
}

/** Attributes as a program carries them: element types by name, shapes as number lists. */
export function programAttributesOf(attributes: Attributes): Record<string, Attribute> {
  const result: Record<string, Attribute> = {};
  for (const [name, value] of attributes.entries()) {
    const attribute = name.startsWith("_") ? undefined : programAttribute(value);
    if (attribute !== undefined) result[name] = attribute;
  }
  return result;
}

function programAttribute(value: AttributeValue): Attribute | undefined {
  switch (value.kind) {
    case "int":
    case "float":
    case "bool":
      return value.value;
    case "bytes":
      return decoder.decode(value.value);
    case "type":
      return typeName(value.value);
    case "shape":
      return value.value;
    case "list":
      return listAttribute(value.value);
    case "tensor":
    case "function":
      return undefined;
  }
}

/** Lists of shapes become texts such as `2,-1`, one per shape. */
function listAttribute(values: readonly AttributeValue[]): Attribute {
  const singles = values.map((value) =>
    value.kind === "shape" ? (value.value ?? []).join(",") : programAttribute(value),
  );
  return singles.every((single) => typeof single === "number") ? singles : singles.map(String);
}
