// `PredictResponse` as bytes: the outputs, and which version and signature gave them.

import {
  ProtobufWriter,
  WinnowError,
  requireEqualRows,
  sizeOfField,
  sizeOfVarint,
} from "@winnow/core";
import type { Tensor } from "@winnow/core";
import { planTensorProto, writeTensorProto } from "../tensors/tensor-proto-writer.ts";
import type { TensorPlan } from "../tensors/tensor-proto-writer.ts";

/** The content of a `PredictResponse`. */
export interface PredictAnswer {
  readonly model: string;
  readonly version: number;
  readonly signatureName: string;
  /** By output name, in the order they are written. */
  readonly outputs: ReadonlyMap<string, Tensor>;
}

interface OutputPlan {
  readonly name: Uint8Array;
  readonly plan: TensorPlan;
  /** Bytes of the map entry. */
  readonly bytes: number;
}

const OUTPUTS = 1;
const MODEL_SPEC = 2;
const KEY = 1;
const VALUE = 2;
const SPEC = { name: 1, version: 2, signatureName: 3 } as const;

/**
 * Writes a `PredictResponse`. Nothing is allocated before it is known to fit.
 * @throws WinnowError RESOURCE_EXHAUSTED for more than `bytesMax`, INVALID_ARGUMENT for lists of different
 * lengths, which no TensorProto can hold
 */
export function writePredictAnswer(answer: PredictAnswer, bytesMax: number): Buffer {
  const outputs = Array.from(answer.outputs, ([name, tensor]) => planOutput(name, tensor));
  const name = Buffer.from(answer.model);
  const signatureName = Buffer.from(answer.signatureName);
  const versionBytes = answer.version === 0 ? 0 : 1 + sizeOfVarint(answer.version);
  const specBytes =
    sizeOfField(SPEC.name, name.length) +
    sizeOfField(SPEC.version, versionBytes) +
    sizeOfField(SPEC.signatureName, signatureName.length);
  const bytes = outputs.reduce(
    (sum, output) => sum + sizeOfField(OUTPUTS, output.bytes),
    sizeOfField(MODEL_SPEC, specBytes),
  );
  if (bytes > bytesMax) {
    const message = `The answer has ${bytes} bytes; at most ${bytesMax} are sent: ask for fewer instances`;
    throw new WinnowError("RESOURCE_EXHAUSTED", message);
  }
  const writer = new ProtobufWriter(bytes);
  for (const output of outputs) writeOutput(writer, output);
  writer.open(MODEL_SPEC, specBytes);
  writer.bytes(SPEC.name, name);
  writer.open(SPEC.version, versionBytes);
  if (versionBytes > 0) writer.int(1, answer.version);
  writer.bytes(SPEC.signatureName, signatureName);
  return writer.finish();
}

function planOutput(text: string, tensor: Tensor): OutputPlan {
  requireEqualRows(tensor, "a TensorProto needs as many for each: send such instances one by one");
  const name = Buffer.from(text);
  const plan = planTensorProto(tensor);
  return { name, plan, bytes: sizeOfField(KEY, name.length) + sizeOfField(VALUE, plan.bytes) };
}

function writeOutput(writer: ProtobufWriter, { name, plan, bytes }: OutputPlan): void {
  writer.open(OUTPUTS, bytes);
  writer.bytes(KEY, name);
  writer.open(VALUE, plan.bytes);
  writeTensorProto(writer, plan);
}
