// Output tensors → the answer of the Open Inference Protocol: JSON, with the values of each output in one
// flat list, or behind the JSON if the request wants that (`binary-tensors.ts`). Numbers are written as in
// v1, with NaN and Infinity as bare words. Strings in JSON must be UTF-8; strings in binary data need not be.

import { isUtf8 } from "node:buffer";
import { WinnowError } from "@winnow/core";
import type { StringColumn, Tensor } from "@winnow/core";
import type { Prediction } from "../../../predictor.ts";
import { jsonAnswer } from "../../http-answer.ts";
import type { HttpAnswer } from "../../http-answer.ts";
import { JsonWriter } from "../../json/json-writer.ts";
import { writeFlatList } from "../predict-response.ts";
import { binaryBytes, writeBinaryTensor } from "./binary-tensors.ts";
import { DATATYPES } from "./inference-datatypes.ts";
import type { AskedInference } from "./inference-request.ts";
import { wantedTensors } from "./inference-tensors.ts";

interface GivenOutput {
  readonly name: string;
  readonly tensor: Tensor;
  /** Bytes behind the JSON; `undefined`: the values are in the JSON. */
  readonly bytes: number | undefined;
}

/**
 * Writes the outputs that a request wants, in the form that it wants.
 * @throws WinnowError INVALID_ARGUMENT for outputs that do not exist, lists of different lengths, and strings
 * that JSON cannot hold; RESOURCE_EXHAUSTED if too long
 */
export async function inferenceAnswer(
  prediction: Prediction,
  asked: AskedInference,
  { answerBytesMax }: { readonly answerBytesMax: number },
): Promise<HttpAnswer> {
  const outputs = givenOutputs(prediction, asked);
  const writer = new JsonWriter({ bytesMax: answerBytesMax });
  writer.singleLine = true;
  const { model, version } = prediction.version;
  writer.open("{");
  member(writer, "model_name", model);
  member(writer, "model_version", String(version));
  if (asked.id !== undefined) member(writer, "id", asked.id);
  writer.text("outputs");
  writer.open("[");
  for (const output of outputs) await writeOutput(writer, output);
  writer.close();
  writer.close();
  const json = writer.finish();
  const binary = outputs.filter(({ bytes }) => bytes !== undefined);
  if (binary.length === 0) return jsonAnswer(json);
  const body = await withBinary(json, binary, answerBytesMax);
  const headers = {
    "content-type": "application/octet-stream",
    "inference-header-content-length": String(json.length),
  };
  return { status: 200, headers, body };
}

function givenOutputs(prediction: Prediction, asked: AskedInference): readonly GivenOutput[] {
  const binary = new Map(asked.outputs?.map(({ name, isBinary }) => [name, isBinary]));
  const tensors = wantedTensors(
    prediction,
    asked.outputs?.map(({ name }) => name),
  );
  return tensors.map(([name, tensor]) => given(name, tensor, binary.get(name) ?? asked.isBinary));
}

function given(name: string, tensor: Tensor, isBinary: boolean): GivenOutput {
  if (isBinary) return { name, tensor, bytes: binaryBytes(tensor) };
  if (tensor.dtype === "string" && !areTexts(tensor.data)) {
    throw new WinnowError(
      "INVALID_ARGUMENT",
      `Output "${name}" holds strings that are not UTF-8, which JSON cannot hold; ask for it with ` +
        '"parameters": {"binary_data": true}',
    );
  }
  return { name, tensor, bytes: undefined };
}

/** Whether each string is UTF-8: their concatenation is, and none begins within a character. */
function areTexts(column: StringColumn): boolean {
  const { offsets, bytes, length } = column;
  const end = offsets[length]!;
  if (!isUtf8(bytes.subarray(offsets[0], end))) return false;
  for (let index = 0; index < length; index++) {
    const at = offsets[index]!;
    if (at < end && (bytes[at]! & 0xc0) === 0x80) return false;
  }
  return true;
}

async function writeOutput(
  writer: JsonWriter,
  { name, tensor, bytes }: GivenOutput,
): Promise<void> {
  writer.open("{");
  member(writer, "name", name);
  writer.text("shape");
  writer.open("[");
  for (const size of tensor.shape) writer.raw(String(size));
  writer.close();
  member(writer, "datatype", DATATYPES[tensor.dtype]);
  if (bytes === undefined) {
    writer.text("data");
    await writeFlatList(writer, tensor);
  } else {
    writer.text("parameters");
    writer.open("{");
    writer.text("binary_data_size");
    writer.raw(String(bytes));
    writer.close();
  }
  writer.close();
}

function member(writer: JsonWriter, name: string, text: string): void {
  writer.text(name);
  writer.text(text);
}

async function withBinary(
  json: Buffer,
  outputs: readonly GivenOutput[],
  answerBytesMax: number,
): Promise<Buffer> {
  const bytes = outputs.reduce((sum, output) => sum + (output.bytes ?? 0), json.length);
  if (bytes > answerBytesMax) {
    throw new WinnowError(
      "RESOURCE_EXHAUSTED",
      `Cannot write an answer of more than ${answerBytesMax} bytes; ask for less at once`,
    );
  }
  const body = Buffer.allocUnsafeSlow(bytes);
  json.copy(body);
  let at = json.length;
  for (const output of outputs) {
    await writeBinaryTensor(body, at, output.tensor);
    at += output.bytes ?? 0;
  }
  return body;
}
