// `ModelInferResponse` as bytes. Values stand in the outputs, or all of them behind (`raw_output_contents`, laid out
// as over HTTP): as the request had them, unless it says otherwise.

import { ProtobufWriter, WinnowError, sizeOfField } from "@winnow/core";
import type { Tensor } from "@winnow/core";
import { binaryBytes, writeBinaryTensor } from "../../http/predict/inference/binary-tensors.ts";
import { DATATYPES } from "../../http/predict/inference/inference-datatypes.ts";
import { wantedTensors } from "../../http/predict/inference/inference-tensors.ts";
import type { Prediction } from "../../predictor.ts";
import { contentsBytes, writeContents } from "./tensor-contents.ts";

/** How an answer is to be. */
export interface AskedAnswer {
  /** Echoed; "" for none. */
  readonly id: string;
  /** Outputs wanted; `undefined`: all. */
  readonly names: readonly string[] | undefined;
  readonly isRaw: boolean;
}

const RESPONSE = { model: 1, version: 2, id: 3, outputs: 5, raw: 6 } as const;
const OUTPUT = { name: 1, datatype: 2, shape: 3, contents: 5 } as const;
/** About what the rest of an output takes. */
const OUTLINE_BYTES = 64;

/**
 * @throws WinnowError RESOURCE_EXHAUSTED for more than `bytesMax`, INVALID_ARGUMENT for outputs that are not there
 * and lists of different lengths
 */
export async function writeInferAnswer(
  prediction: Prediction,
  { id, names, isRaw }: AskedAnswer,
  bytesMax: number,
): Promise<Buffer> {
  const outputs = wantedTensors(prediction, names).map(([name, tensor]) => ({
    name,
    tensor,
    bytes: isRaw ? binaryBytes(tensor) : contentsBytes(tensor),
  }));
  const valueBytes = outputs.reduce((sum, { bytes }) => sum + sizeOfField(RESPONSE.raw, bytes), 0);
  checkBytes(valueBytes, bytesMax);
  const { model, version } = prediction.version;
  const roomBytes = OUTLINE_BYTES * (1 + outputs.length) + (isRaw ? 0 : valueBytes);
  const writer = new ProtobufWriter(roomBytes);
  writer.text(RESPONSE.model, model).text(RESPONSE.version, String(version));
  if (id !== "") writer.text(RESPONSE.id, id);
  for (const { name, tensor, bytes } of outputs) {
    writer.begin(RESPONSE.outputs, OUTLINE_BYTES + (isRaw ? 0 : bytes));
    writer.text(OUTPUT.name, name).text(OUTPUT.datatype, DATATYPES[tensor.dtype]);
    writeShape(writer, tensor);
    if (!isRaw) {
      writer.open(OUTPUT.contents, bytes);
      writeContents(writer, tensor);
    }
    writer.end();
  }
  const head = writer.finish();
  if (!isRaw) {
    checkBytes(head.length, bytesMax);
    return head;
  }
  checkBytes(head.length + valueBytes, bytesMax);
  return withRaw(head, outputs, head.length + valueBytes);
}

function writeShape(writer: ProtobufWriter, { shape }: Tensor): void {
  writer.begin(OUTPUT.shape);
  for (const size of shape) writer.varint(size);
  writer.end();
}

async function withRaw(
  head: Buffer,
  outputs: readonly { readonly tensor: Tensor; readonly bytes: number }[],
  size: number,
): Promise<Buffer> {
  const body = Buffer.allocUnsafeSlow(size);
  let at = head.copy(body);
  for (const { tensor, bytes } of outputs) {
    at += new ProtobufWriter().open(RESPONSE.raw, bytes).finish().copy(body, at);
    await writeBinaryTensor(body, at, tensor);
    at += bytes;
  }
  return body;
}

function checkBytes(bytes: number, bytesMax: number): void {
  if (bytes <= bytesMax) return;
  const message = `The answer has ${bytes} bytes; at most ${bytesMax} are sent: ask for fewer instances`;
  throw new WinnowError("RESOURCE_EXHAUSTED", message);
}
