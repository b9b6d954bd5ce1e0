// One ONNX model of a program: all dense nodes of one phase. Its inputs are values that earlier
// steps define, its outputs those that later steps or the signature read. Weights are read from the
// checkpoint (whole, checksums verified) and are part of the model.

import { WinnowError, isDtype } from "@winnow/core";
import type { DenseStep, Dtype, ValueId } from "@winnow/core";
import type { VersionFiles } from "../version-files.ts";
import type { GraphValue, OperationNode, Shape } from "./graph-value.ts";
import { translate } from "./onnx/dense-translation.ts";
import { OnnxModel } from "./onnx/onnx-model.ts";

/** What connects a dense part to the rest of its program. */
export interface DenseSurroundings {
  readonly files: VersionFiles;
  /** The number of a value in the program; assigned on first use. */
  idOf(value: GraphValue): ValueId;
  /** The shape that the part takes a value in. */
  shapeOf(value: GraphValue): Shape;
  /** Whether a step outside this part, or the signature, reads the value. */
  isReadOutside(value: GraphValue): boolean;
}

/** A model and how a step feeds it. */
export interface DensePart {
  readonly bytes: Uint8Array;
  readonly inputs: DenseStep["inputs"];
  readonly outputs: DenseStep["outputs"];
}

/** Translates the nodes of one phase. @throws WinnowError UNIMPLEMENTED, DATA_LOSS */
export function makeDensePart(
  nodes: readonly OperationNode[],
  surroundings: DenseSurroundings,
): DensePart {
  const model = new OnnxModel();
  const names = new Map<GraphValue, string>();
  const inputs: { name: string; value: ValueId }[] = [];
  const outputs: { name: string; value: ValueId; dtype: Dtype }[] = [];
  const nameOf = (value: GraphValue, node: OperationNode): string => {
    const known = names.get(value);
    if (known !== undefined) return known;
    const content = contentOf(value, surroundings.files);
    const name =
      content === undefined
        ? model.input(dataDtype(value, node), surroundings.shapeOf(value))
        : model.constant(content);
    if (content === undefined) inputs.push({ name, value: surroundings.idOf(value) });
    names.set(value, name);
    return name;
  };
  for (const node of nodes) {
    const results = translate(
      model,
      node,
      node.inputs.map((value) => nameOf(value, node)),
    );
    for (const [index, output] of node.outputs.entries()) {
      const result = results[index];
      if (result !== undefined) names.set(output, result);
      if (!surroundings.isReadOutside(output)) continue;
      if (result === undefined) throw notGiven(node, index);
      const dtype = dataDtype(output, node);
      outputs.push({ name: model.output(result, dtype), value: surroundings.idOf(output), dtype });
    }
  }
  return { bytes: model.toBytes(), inputs, outputs };
}

/** The content of a value, if it does not depend on the request. */
export function contentOf(
  value: GraphValue,
  files: VersionFiles,
): NonNullable<GraphValue["constant"]> | undefined {
  if (value.constant !== undefined) return value.constant;
  return value.stored === undefined ? undefined : files.contentOf(value.stored);
}

function dataDtype({ dtype }: GraphValue, node: OperationNode): Dtype {
  if (isDtype(dtype) && dtype !== "string") return dtype;
  const what = `operation ${node.op} (node ${node.name})`;
  throw new WinnowError("UNIMPLEMENTED", `${what} cannot compute with ${dtype} values`);
}

function notGiven(node: OperationNode, index: number): WinnowError {
  const what = `output ${index} of operation ${node.op} (node ${node.name})`;
  return new WinnowError("UNIMPLEMENTED", `${what} is not supported`);
}
