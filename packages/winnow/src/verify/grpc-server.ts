// The router's gRPC port, asked with grpc-js and the messages of the .proto files. Here protobufjs encodes
// and decodes tensors, not the router's own code, because that code is under test, too.

import {
  type ChannelCredentials,
  type Client,
  Metadata,
  type ServiceError,
  credentials,
  makeGenericClientConstructor,
  status,
} from "@grpc/grpc-js";
import { fromJSON } from "@grpc/proto-loader";
import { type Clock, type Tensor, WinnowError, excerpt, stringTensor, tensor } from "@winnow/core";
import { servingDescriptor } from "@winnow/router";
import { type AnswerRecords, recordsOfTensors } from "../oracle/answer-records.ts";
import { parseAnswer } from "../oracle/answer-json.ts";
import { type ScalarValue, scalarAt, tensorOfScalars } from "../oracle/scalars.ts";
import type { PlannedRequest } from "../questions/request-plan.ts";
import { type RestTrust, readTrust } from "../access/rest-client.ts";
import {
  type AskedModel,
  type Attempt,
  type PredictServer,
  type Question,
  type ServerReply,
  askAgain,
} from "./exchange.ts";
import { type TensorMessage, messageOfTensor, tensorOfMessage } from "./tensor-messages.ts";

/** The server, and how to ask it. */
export interface GrpcServerOptions {
  /** host:port. */
  readonly address: string;
  readonly isSecure: boolean;
  readonly trust: RestTrust;
  readonly clock: Clock;
  /** Longest time of one attempt. */
  readonly timeoutMs: number;
}

interface PredictResponse {
  readonly outputs: Readonly<Record<string, TensorMessage>>;
  readonly model_spec: { readonly version: { readonly value: string | number } | null } | null;
}

type Unary = (
  request: object,
  metadata: Metadata,
  reply: (error: ServiceError | null, answer: PredictResponse) => void,
) => { cancel(): void; on(event: "metadata", listen: (metadata: Metadata) => void): void };

const SERVICE = "tensorflow.serving.PredictionService";
const PASSING: ReadonlySet<status> = new Set([
  status.UNKNOWN,
  status.DEADLINE_EXCEEDED,
  status.RESOURCE_EXHAUSTED,
  status.ABORTED,
  status.INTERNAL,
  status.UNAVAILABLE,
]);
const MESSAGE_BYTES_MAX = 512 * 1024 * 1024;

const definitions = fromJSON(servingDescriptor as Parameters<typeof fromJSON>[0], {
  keepCase: true,
  longs: String,
  enums: String,
  defaults: true,
  oneofs: true,
});

/** A server with PredictionService. */
export class GrpcServer implements PredictServer {
  readonly url: string;
  readonly #client: Client & { readonly Predict: Unary };
  readonly #headers: Readonly<Record<string, string>>;
  readonly #options: GrpcServerOptions;

  /** @throws WinnowError for an invalid address, or files of keys and authorities that cannot be read */
  constructor(options: GrpcServerOptions) {
    const { address, isSecure, trust } = options;
    if (!/^(\[[0-9a-fA-F:.]+\]|[^\s:/[\]]+):\d{1,5}$/.test(address)) {
      const text = `${excerpt(address)} is no gRPC address; write host:port, for example 127.0.0.1:8500`;
      throw new WinnowError("INVALID_ARGUMENT", text);
    }
    const { headers, ca } = readTrust(trust);
    const secure: ChannelCredentials = isSecure
      ? credentials.createSsl(ca === undefined ? null : Buffer.from(ca))
      : credentials.createInsecure();
    const ServiceClient = makeGenericClientConstructor(definitions[SERVICE] as never, SERVICE);
    this.url = address;
    this.#headers = headers;
    this.#options = options;
    this.#client = new ServiceClient(address, secure, {
      "grpc.max_receive_message_length": MESSAGE_BYTES_MAX,
    }) as never;
  }

  predict(asked: AskedModel, question: Question, signal: AbortSignal): Promise<ServerReply> {
    const { request } = question;
    if (request === undefined) throw new RangeError("a question without its tensors");
    const message = predictMessage(asked, request);
    return askAgain(this.#options.clock, signal, () => this.#ask(message, question, signal));
  }

  /** Ends the connection. */
  close(): void {
    this.#client.close();
  }

  #ask(message: object, question: Question, signal: AbortSignal): Promise<Attempt> {
    const metadata = new Metadata();
    const { headers } = question.request!;
    for (const [name, value] of Object.entries({ ...headers, ...this.#headers })) {
      metadata.set(name, value);
    }
    const { clock, timeoutMs } = this.#options;
    return new Promise((resolve) => {
      let told = new Metadata();
      const call = this.#client.Predict(message, metadata, (error, answer) => {
        signal.removeEventListener("abort", stop);
        clock.clearTimer(timer);
        if (error === null) return resolve(replyOf(answer, told, question));
        if (error.code === status.CANCELLED) {
          return resolve({ kind: "passing", text: `no answer within ${timeoutMs} ms` });
        }
        resolve(failureOf(error));
      });
      const stop = (): void => call.cancel();
      const timer = clock.setTimer(timeoutMs, stop);
      call.on("metadata", (received) => (told = received));
      signal.addEventListener("abort", stop, { once: true });
    });
  }
}

function failureOf({ code, details }: ServiceError): Attempt {
  if (code === status.INVALID_ARGUMENT) return { kind: "refused", text: excerpt(details) };
  return { kind: PASSING.has(code) ? "passing" : "missing", text: excerpt(details) };
}

function replyOf(
  { outputs, model_spec: spec }: PredictResponse,
  told: Metadata,
  question: Question,
): Attempt {
  const header = (name: string): string | undefined => told.get(name)[0]?.toString();
  const degraded = header("x-winnow-degraded");
  if (degraded !== undefined) return { kind: "passing", text: `degraded: ${excerpt(degraded)}` };
  const version = spec?.version?.value.toString();
  return {
    kind: "answered",
    records: recordsOfMessages(outputs, question),
    told: { version, arm: header("x-winnow-arm") },
  };
}

/** Outputs as records; attributes of items are JSON texts here. */
function recordsOfMessages(
  messages: PredictResponse["outputs"],
  { outputs, format }: Question,
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

/** A PredictRequest. The fields that REST has beside the instances are inputs with reserved names. */
function predictMessage({ model, version }: AskedModel, request: PlannedRequest): object {
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

/** Lists as one tensor: a single list as it is; several lists padded with an id that no item has. */
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
