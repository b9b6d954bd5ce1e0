// The router's gRPC port, asked with grpc-js.

import {
  type ChannelCredentials,
  type Client,
  Metadata,
  type ServiceError,
  credentials,
  makeGenericClientConstructor,
  status,
} from "@grpc/grpc-js";
import { parseAddress, peerNamed } from "@winnow/cluster";
import { type Clock, WinnowError, excerpt } from "@winnow/core";
import { type RestTrust, readTrust } from "../access/rest-client.ts";
import {
  type AskedModel,
  type Attempt,
  type PredictServer,
  type Question,
  type ServerReply,
  askAgain,
} from "./exchange.ts";
import {
  PREDICTION_SERVICE,
  type PredictResponse,
  predictMessage,
  predictionService,
  recordsOfMessages,
} from "./predict-messages.ts";

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

type Unary = (
  request: object,
  metadata: Metadata,
  reply: (error: ServiceError | null, answer: PredictResponse) => void,
) => { cancel(): void; on(event: "metadata", listen: (metadata: Metadata) => void): void };

const PASSING: ReadonlySet<status> = new Set([
  status.UNKNOWN,
  status.DEADLINE_EXCEEDED,
  status.RESOURCE_EXHAUSTED,
  status.ABORTED,
  status.INTERNAL,
  status.UNAVAILABLE,
]);
const MESSAGE_BYTES_MAX = 512 * 1024 * 1024;

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
    const { verify, options: named } = peerNamed(parseAddress(address)?.host ?? address);
    const secure: ChannelCredentials = isSecure
      ? credentials.createSsl(ca === undefined ? null : Buffer.from(ca), null, null, verify)
      : credentials.createInsecure();
    const ServiceClient = makeGenericClientConstructor(predictionService, PREDICTION_SERVICE);
    this.url = address;
    this.#headers = headers;
    this.#options = options;
    this.#client = new ServiceClient(address, secure, {
      ...(isSecure && named),
      // As over REST, variables such as http_proxy do not count.
      "grpc.enable_http_proxy": 0,
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
