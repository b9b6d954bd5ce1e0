// What a request by the Open Inference Protocol may name, over HTTP as over gRPC: the inputs of a signature, each
// with its datatype and a shape, and outputs of the answer.

import { WinnowError, excerpt, requireEqualRows } from "@winnow/core";
import type { Tensor } from "@winnow/core";
import { isVastShape } from "../../../limits/tensor-shape.ts";
import { ATTRIBUTES_OUTPUT, EXPLANATION_OUTPUT, VECTORS_OUTPUT } from "../../../predictor.ts";
import type { Prediction } from "../../../predictor.ts";
import type { SignatureInputs } from "../predict-request.ts";
import { DATATYPES } from "./inference-datatypes.ts";

type DeclaredInput = SignatureInputs["inputs"][number];

/** Parameters that must not be ignored, because the answer would then not be the one that was asked for. */
const REFUSED_PARAMETERS: Readonly<Record<string, string>> = {
  classification: "classes are not served; the outputs themselves are",
  shared_memory_region: "shared memory is not served; send the values",
};

/** @throws WinnowError UNIMPLEMENTED where an input or output, `where`, has a parameter that is not served */
export function refuseParameters(has: (name: string) => boolean, where: string): void {
  for (const [name, why] of Object.entries(REFUSED_PARAMETERS)) {
    if (!has(name)) continue;
    throw new WinnowError("UNIMPLEMENTED", `Parameter "${name}" of ${where}: ${why}`);
  }
}

/** The input of that name, which has not been read yet. @throws WinnowError INVALID_ARGUMENT */
export function declaredInput(
  { inputs }: SignatureInputs,
  name: string,
  read: ReadonlyMap<string, unknown>,
): DeclaredInput {
  const declared = inputs.find((candidate) => candidate.name === name);
  if (declared === undefined) {
    const known = inputs.map((each) => each.name).join(", ");
    refuse(`The model has no input "${excerpt(name)}"; its inputs are ${known}`);
  }
  if (read.has(name)) refuse(`Input "${name}" stands twice in "inputs"`);
  return declared;
}

/** `given`: "" or absent where the request says none. @throws WinnowError INVALID_ARGUMENT */
export function checkDatatype({ name, dtype }: DeclaredInput, given: string | undefined): void {
  if (given === DATATYPES[dtype]) return;
  const said = given === undefined || given === "" ? "no datatype" : `datatype ${excerpt(given)}`;
  refuse(`Input "${name}" has ${said}; the model wants ${DATATYPES[dtype]}`);
}

/** Of sizes from 0. @throws WinnowError INVALID_ARGUMENT */
export function checkShape(name: string, shape: readonly number[]): void {
  if (!isVastShape(shape)) return;
  refuse(`Input "${name}" has shape [${excerpt(shape.join(","))}], which is too large`);
}

/** All inputs of a signature, in its order. @throws WinnowError INVALID_ARGUMENT where one is missing */
export function inputsInOrder(
  { inputs }: SignatureInputs,
  read: ReadonlyMap<string, Tensor>,
): ReadonlyMap<string, Tensor> {
  return new Map(
    inputs.map(({ name }) => {
      const tensor = read.get(name);
      if (tensor !== undefined) return [name, tensor] as const;
      const known = inputs.map((each) => each.name).join(", ");
      return refuse(`Input "${name}" is missing; the model's inputs are ${known}`);
    }),
  );
}

/**
 * The outputs of these names, by default all, and what parameters want beside them.
 * @throws WinnowError INVALID_ARGUMENT for outputs that are not there and lists of different lengths
 */
export function wantedTensors(
  { outputs, attributes, vectors, explanation }: Prediction,
  names: readonly string[] | undefined,
): readonly (readonly [string, Tensor])[] {
  const wanted = (names ?? [...outputs.keys()]).map((name): readonly [string, Tensor] => {
    const tensor = outputs.get(name);
    if (tensor !== undefined) return [name, tensor];
    const known = [...outputs.keys()].join(", ");
    return refuse(`The model has no output "${excerpt(name)}"; its outputs are ${known}`);
  });
  const own = [
    [ATTRIBUTES_OUTPUT, attributes],
    [VECTORS_OUTPUT, vectors],
    [EXPLANATION_OUTPUT, explanation],
  ] as const;
  const all = [
    ...wanted,
    ...own.flatMap(([name, tensor]) => (tensor ? [[name, tensor] as const] : [])),
  ];
  const advice =
    "a tensor needs as many for each: send such instances one by one, or use /v1 and its instances";
  for (const [, tensor] of all) requireEqualRows(tensor, advice);
  return all;
}

function refuse(message: string): never {
  throw new WinnowError("INVALID_ARGUMENT", message);
}
