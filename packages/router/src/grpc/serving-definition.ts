// TensorFlow Serving's two services and the Open Inference Protocol's as grpc-js needs them, made from the embedded
// descriptor: no file is read at run time. Handlers get requests as bytes: they are counted and refused before they are
// decoded, and a faulty request gets a message that says what is wrong instead of "Error deserializing request".

import type { MethodDefinition, ServiceDefinition } from "@grpc/grpc-js";
import { fromJSON } from "@grpc/proto-loader";
import { servingDescriptor } from "./generated/serving-descriptor.ts";

/** Names of the services, as health checks and clients use them. */
export const PREDICTION_SERVICE = "tensorflow.serving.PredictionService";
/** @see PREDICTION_SERVICE */
export const MODEL_SERVICE = "tensorflow.serving.ModelService";
/** @see PREDICTION_SERVICE */
export const INFERENCE_SERVICE = "inference.GRPCInferenceService";

const definitions = fromJSON(servingDescriptor as Parameters<typeof fromJSON>[0], {
  keepCase: true,
  longs: String,
  enums: String,
  defaults: true,
  oneofs: true,
});

/** The methods of a service; their requests are not decoded. */
export function serviceOf(name: string): ServiceDefinition {
  const methods = Object.entries(definitions[name] as ServiceDefinition);
  return Object.fromEntries(
    methods.map(([method, definition]) => [method, withRawRequest(definition)]),
  );
}

/** Encodes an answer. `Predict` gives bytes itself. */
export function encodeMessage(type: string, message: object): Buffer {
  return messageType(type).serialize(message);
}

interface MessageType {
  serialize(message: object): Buffer;
}

function messageType(name: string): MessageType {
  return definitions[name] as unknown as MessageType;
}

function withRawRequest<Method extends MethodDefinition<unknown, unknown>>(method: Method): Method {
  return { ...method, requestDeserialize: asIs, responseSerialize: asIs };
}

function asIs(bytes: Buffer): Buffer {
  return bytes;
}
