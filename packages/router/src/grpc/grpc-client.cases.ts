// A listening server with a fake predictor behind it, and a client that knows nothing but the .proto
// files: what a program written for TensorFlow Serving is.

import path from "node:path";
import { credentials, loadPackageDefinition } from "@grpc/grpc-js";
import type { CallOptions, ServiceError } from "@grpc/grpc-js";
import { loadSync } from "@grpc/proto-loader";
import { silentLogger, systemClock } from "@winnow/core";
import { FixturePredictor, SMALL_WEIGHTS } from "../http/fixture-predictor.cases.ts";
import type { AnsweredCall } from "./grpc-observer.ts";
import { createGrpcServer, type GrpcServer } from "./grpc-server.ts";
import type { GrpcOptions } from "./grpc-settings.ts";
import type { ReloadModels } from "./reload-call.ts";

/** A call that no test means to end takes milliseconds; this is for a machine that is very busy. */
const ANSWERED_WITHIN_MS = 60_000;

const PROTO_FOLDER = path.resolve(import.meta.dirname, "../../../../proto");

const definitions = loadSync(
  [
    "tensorflow_serving/apis/prediction_service.proto",
    "tensorflow_serving/apis/model_service.proto",
  ],
  {
    includeDirs: [PROTO_FOLDER],
    keepCase: true,
    longs: String,
    enums: String,
    defaults: true,
    oneofs: true,
  },
);

interface ProtoMessage {
  serialize(message: object): Buffer;
  deserialize(bytes: Uint8Array): object;
}

/** A message type of the .proto files. */
export function messageType(name: string): ProtoMessage {
  return definitions[name] as unknown as ProtoMessage;
}

/** A tensor as proto-loader decodes it; fields without values are empty. */
export interface TensorMessage {
  readonly dtype: string;
  readonly tensor_shape: { readonly dim: readonly { readonly size: string }[] };
  readonly tensor_content: Buffer;
  readonly float_val: readonly number[];
  readonly double_val: readonly number[];
  readonly int_val: readonly number[];
  readonly int64_val: readonly string[];
  readonly uint32_val: readonly number[];
  readonly uint64_val: readonly string[];
  readonly bool_val: readonly boolean[];
  readonly string_val: readonly Buffer[];
}

/** An answer to Predict. */
export interface PredictMessage {
  readonly outputs: Readonly<Record<string, TensorMessage>>;
  readonly model_spec: {
    readonly name: string;
    readonly version: { readonly value: string };
    readonly signature_name: string;
  };
}

type Unary = (
  request: object | Buffer,
  options: CallOptions,
  reply: (error: ServiceError | null, answer: object) => void,
) => { cancel(): void };

/** A call under way. */
interface BegunCall {
  readonly answer: Promise<object>;
  readonly cancel: () => void;
}

/** A client of one service. */
export interface ServingClient {
  readonly call: (method: string, request: object, options?: CallOptions) => Promise<object>;
  /** Sends bytes as they are. */
  readonly send: (method: string, bytes: Buffer) => Promise<object>;
  /** A call that can be given up; failures are the caller's to expect. */
  readonly begin: (method: string, request: object) => BegunCall;
  close(): void;
}

/** What a test has. */
export interface Running {
  readonly server: GrpcServer;
  readonly predictor: FixturePredictor;
  readonly port: number;
  readonly answered: AnsweredCall[];
  /** Transfers that were given up: `body stalled`, `answer memory`. */
  readonly gaveUp: string[];
  readonly prediction: ServingClient;
  readonly models: ServingClient;
}

const opened: { close(): unknown }[] = [];

/** Starts a server on any free port, and clients of it. */
export async function start(options: GrpcOptions = {}, reload?: ReloadModels): Promise<Running> {
  const predictor = new FixturePredictor(SMALL_WEIGHTS);
  const answered: AnsweredCall[] = [];
  const gaveUp: string[] = [];
  const server = createGrpcServer(
    predictor,
    { drainIdleMs: 10, healthLookMs: 2, ...options },
    {
      clock: systemClock,
      random: () => 0.5,
      log: silentLogger,
      observer: {
        answered: (call) => void answered.push(call),
        gaveUp: (what, reason) => void gaveUp.push(`${what} ${reason}`),
      },
      reload,
    },
  );
  opened.push(server);
  const { port } = await server.listen({ host: "127.0.0.1", port: 0 });
  const prediction = clientOf("PredictionService", port);
  const models = clientOf("ModelService", port);
  return { server, predictor, port, answered, gaveUp, prediction, models };
}

/** A client of a service, on a connection of its own. */
export function clientOf(service: string, port: number): ServingClient {
  const serving = (loadPackageDefinition(definitions) as never as Record<string, never>)[
    "tensorflow"
  ]!["serving"] as Record<string, new (...parts: unknown[]) => never>;
  const stub = new serving[service]!(`127.0.0.1:${port}`, credentials.createInsecure(), {
    "grpc.use_local_subchannel_pool": 1,
    "grpc.max_receive_message_length": -1,
  }) as unknown as Record<string, Unary> & {
    close(): void;
    makeUnaryRequest(...parts: unknown[]): unknown;
  };
  const begin = (method: string, request: object, options: CallOptions = {}) => {
    const { promise, settle } = settled();
    const running = stub[method]!(
      request,
      { deadline: Date.now() + ANSWERED_WITHIN_MS, ...options },
      settle,
    );
    return { answer: promise, cancel: () => running.cancel() };
  };
  const client: ServingClient = {
    begin,
    call: (method, request, options) => begin(method, request, options).answer,
    send: (method, bytes) => {
      const { promise, settle } = settled();
      const asIs = (value: Buffer): Buffer => value;
      const target = `/tensorflow.serving.${service}/${method}`;
      stub.makeUnaryRequest(
        target,
        asIs,
        asIs,
        bytes,
        { deadline: Date.now() + ANSWERED_WITHIN_MS },
        settle,
      );
      return promise;
    },
    close: () => stub.close(),
  };
  opened.push(client);
  return client;
}

function settled(): {
  promise: Promise<object>;
  settle: (error: ServiceError | null, answer: object) => void;
} {
  let settle: (error: ServiceError | null, answer: object) => void = () => undefined;
  const promise = new Promise<object>((resolve, reject) => {
    settle = (error, answer) => (error === null ? resolve(answer) : reject(error));
  });
  return { promise, settle };
}

/** What a call fails with, to be looked at later. */
export async function failureOf(answer: Promise<object>): Promise<unknown> {
  return answer.then(
    () => undefined,
    (error: unknown) => error,
  );
}

/** Ends every server and client started. */
export async function closeAll(): Promise<void> {
  await Promise.all(opened.splice(0).map((each) => each.close()));
}

/** Sizes as a TensorShapeProto. */
export const shapeOf = (...sizes: readonly number[]): object => ({
  dim: sizes.map((size) => ({ size })),
});

/** Strings as a TensorProto; one dimension unless told otherwise. */
export function strings(texts: readonly string[], sizes: readonly number[] = [texts.length]) {
  return {
    dtype: "DT_STRING",
    tensor_shape: shapeOf(...sizes),
    string_val: texts.map((text) => Buffer.from(text)),
  };
}

/** A request to model "retrieval" that is answered. */
export const RETRIEVAL = {
  model_spec: { name: "retrieval" },
  inputs: { input_1: strings(["42"]) },
};
