// Predict in the messages of the .proto files: requests made of tensors, and answers as records. Here protobufjs
// encodes and decodes tensors, not the router's own code, because that code is under test, too.

import type { ServiceDefinition } from "@grpc/grpc-js";
import { fromJSON } from "@grpc/proto-loader";
import { type Tensor, WinnowError, stringTensor, tensor } from "@winnow/core";
import { servingDescriptor } from "@winnow/router";
import { type AnswerRecords, recordsOfTensors } from "../oracle/answer-records.ts";
import { parseAnswer } from "../oracle/answer-json.ts";
import { type ScalarValue, scalarAt, tensorOfScalars } from "../oracle/scalars.ts";
import type { PlannedRequest } from "../questions/request-plan.ts";
import type { AskedModel, Question } from "./exchange.ts";
import { type TensorMessage, messageOfTensor, tensorOfMessage } from "./tensor-messages.ts";

/** A PredictResponse as proto-loader decodes it. */
export interface PredictResponse {
  readonly outputs: Readonly<Record<string, TensorMessage>>;
  readonly model_spec: { readonly version: { readonly value: string | number } | null } | null;
}

/** Name of the service. */
export const PREDICTION_SERVICE = "tensorflow.serving.PredictionService";

const definitions = fromJSON(servingDescriptor as Parameters<typeof fromJSON>[0], {
  keepCase: true,
  longs: String,
  enums: String,
  defaults: true,
  oneofs: true,
});

/** The service, for clients. */
export const predictionService = definitions[PREDICTION_SERVICE] as ServiceDefinition;

/** The tensors of a request, and what REST has beside the instances. */
export type PredictParts = Pick<
  PlannedRequest,
  "signature" | "inputs" | "k" | "exclude" | "include" | "filter" | "attributes"
>;

/** A PredictRequest. The fields that REST has beside the instances are inputs with reserved names. */
export function predictMessage({ model, version }: AskedModel, request: PredictParts): object {
  const { signature, inputs, k, exclude = [], include = [], filter, attributes } = request;
  const named = new Map<string, Tensor>(inputs);
  if (k !== undefined) named.set("winnow.k", tensor("int64", [], BigInt64Array.of(BigInt(k))));
  if (exclude.length > 0) named.set("winnow.exclude", ofEqualLength(exclude));
  if (include.length > 0) named.set("winnow.include", ofEqualLength(include));
  if (filter !== undefined) named.set("winnow.filter", stringTensor([JSON.stringify(filter)], []));
  if (attributes !== undefined) named.set("winnow.return", stringTensor(attributes));
  return {
    model_spec: {
      name: model,
      ...(version !== undefined && { version: { value: String(version) } }),
      signature_name: signature.name,
    },
    inputs: Object.fromEntries(
      Array.from(named, ([name, value]) => [name, messageOfTensor(value)]),
    ),
  };
}

/** The same as bytes. */
export function predictBytes(asked: AskedModel, request: PredictParts): Buffer {
  return predictionService["Predict"]!.requestSerialize(predictMessage(asked, request));
}

/** A PredictResponse from its bytes. @throws Error as protobufjs does */
export function readPredictResponse(bytes: Buffer): PredictResponse {
  return predictionService["Predict"]!.responseDeserialize(bytes) as PredictResponse;
}

/** Outputs as records; attributes of items are JSON texts here. */
export function recordsOfMessages(
  messages: PredictResponse["outputs"],
  { outputs, format }: Pick<Question, "outputs" | "format">,
): AnswerRecords {
  const missing = outputs.find(({ name }) => messages[name] === undefined);
  if (missing !== undefined) return { kind: "fault", text: `no output "${missing.name}"` };
  const stranger = Object.keys(messages).find((name) =>
    outputs.every((each) => each.name !== name),
  );
  if (stranger !== undefined) {
    return { kind: "fault", text: `an output "${stranger}" that the model does not have` };
  }
  let tensors: ReadonlyMap<string, Tensor>;
  try {
    tensors = new Map(outputs.map(({ name }) => [name, tensorOfMessage(messages[name]!)]));
  } catch (error) {
    if (!(error instanceof WinnowError)) throw error;
    return { kind: "fault", text: error.message };
  }
  const described = outputs.filter(({ isDescription }) => isDescription === true);
  const records = recordsOfTensors(tensors, format).map((record) => {
    const parsed = described.map(({ name }) => {
      const texts = record.get(name) as readonly string[];
      return [name, texts.map((text) => parseAnswer(text))] as const;
    });
    return new Map([...record, ...parsed]);
  });
  return { kind: "records", records };
}

/** Lists as one tensor: one as it is; several filled up with an id that no item has. */
function ofEqualLength(lists: readonly Tensor[]): Tensor {
  const [first, second] = lists;
  if (first === undefined || second === undefined) return first!;
  const width = Math.max(...lists.map(({ data }) => data.length));
  const filler: ScalarValue = first.dtype === "string" ? "\u0000 no item" : -1n;
  const values = lists.flatMap((list) =>
    Array.from({ length: width }, (_, at) => (at < list.data.length ? scalarAt(list, at) : filler)),
  );
  return tensorOfScalars(first.dtype, [lists.length, width], values);
}
