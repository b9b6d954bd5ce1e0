// Predict over gRPC as bytes: what is sent, and the lists in what comes back.

import { messageType } from "../../../packages/router/src/grpc/fixtures/grpc-client.ts";
import type { GivenList } from "../answers/answer-check.ts";

const predictRequest = messageType("tensorflow.serving.PredictRequest");
const predictResponse = messageType("tensorflow.serving.PredictResponse");

/** A request of a retrieval model for these users. */
export function predictMessage(model: string, users: readonly string[]): Buffer {
  return predictRequest.serialize({
    model_spec: { name: model },
    inputs: {
      input_1: {
        dtype: "DT_STRING",
        tensor_shape: { dim: [{ size: users.length }] },
        string_val: users.map((user) => Buffer.from(user)),
      },
    },
  });
}

interface PredictAnswer {
  readonly outputs: Readonly<
    Record<
      string,
      {
        readonly tensor_content: Buffer;
        readonly float_val: readonly number[];
        readonly string_val: readonly Buffer[];
      }
    >
  >;
  readonly model_spec: { readonly version: { readonly value: string } };
}

/** The version that an answer names. */
export function versionOfPredictAnswer(message: Buffer): string {
  return (predictResponse.deserialize(message) as PredictAnswer).model_spec.version.value;
}

/** The lists of a retrieval model's answer, one per instance. */
export function listsOfPredictAnswer(message: Buffer, instances: number): GivenList[] {
  const { outputs } = predictResponse.deserialize(message) as PredictAnswer;
  const scores = outputs["output_1"]!;
  const content = scores.tensor_content;
  const values =
    content.length === 0
      ? scores.float_val
      : Array.from({ length: content.length / 4 }, (_, at) => content.readFloatLE(4 * at));
  const ids = outputs["output_2"]!.string_val.map((id) => id.toString("utf8"));
  const k = ids.length / instances;
  return Array.from({ length: instances }, (_, at) => ({
    scores: values.slice(at * k, (at + 1) * k),
    ids: ids.slice(at * k, (at + 1) * k),
  }));
}
