// A gRPC port that load is sent to: TensorFlow Serving's Predict, with messages that are made before the load begins.

import { WinnowError, excerpt } from "@winnow/core";
import type { OutputSpec } from "../oracle/answer-records.ts";
import { readTrust } from "../access/rest-client.ts";
import {
  PREDICTION_SERVICE,
  predictBytes,
  readPredictResponse,
  recordsOfMessages,
} from "../verify/predict-messages.ts";
import { GrpcConnection, type GrpcTarget, framed } from "./grpc-connection.ts";
import type { LoadAnswer, LoadConnection } from "./load-connection.ts";
import type { PreparedRequest } from "./load-run.ts";
import type { LoadServer, LoadServerOptions, ReadAnswer } from "./load-server.ts";
import type { RequestPool } from "./request-pool.ts";

/** @throws WinnowError INVALID_ARGUMENT for an address that is none, UNAVAILABLE where nobody answers */
export async function openGrpcLoadServer(options: LoadServerOptions): Promise<LoadServer> {
  const { url, trust, clock, timeoutMs } = options;
  const [, secure, address] =
    /^grpc(s?):\/\/((?:\[[0-9a-fA-F:.]+\]|[^\s:/[\]]+):\d{1,5})\/?$/.exec(url) ?? [];
  if (address === undefined) {
    const text = `${excerpt(url)} is no gRPC address; write for example grpc://127.0.0.1:8500`;
    throw new WinnowError("INVALID_ARGUMENT", text);
  }
  const { headers, ca } = readTrust(trust);
  const origin = `${secure === "s" ? "https" : "http"}://${address}`;
  const server = new GrpcLoadServer(url, {
    origin,
    ca,
    path: `/${PREDICTION_SERVICE}/Predict`,
    metadata: headers,
  });
  const connection = server.connect();
  const timer = clock.setTimer(timeoutMs, () => connection.end(`no answer within ${timeoutMs} ms`));
  // A request that names no model: whoever speaks the protocol refuses it.
  const answer = await new Promise<LoadAnswer>((resolve) =>
    connection.send(framed(new Uint8Array()), resolve),
  );
  clock.clearTimer(timer);
  connection.end("asked");
  checkGreeting(answer, url);
  return server;
}

function checkGreeting(answer: LoadAnswer, url: string): void {
  if (answer.status === 0) {
    throw new WinnowError("UNAVAILABLE", `Nothing answers at ${url}: ${answer.fault()}`);
  }
  if (answer.status === "UNAUTHENTICATED" || answer.status === "PERMISSION_DENIED") {
    const text = `${url}: ${answer.fault()}; name a key with --key-file`;
    throw new WinnowError(answer.status, text);
  }
  if (answer.status !== "UNIMPLEMENTED") return;
  throw new WinnowError(
    "UNAVAILABLE",
    `${url} does not speak TensorFlow Serving's PredictionService`,
  );
}

class GrpcLoadServer implements LoadServer {
  readonly url: string;
  readonly #target: GrpcTarget;

  constructor(url: string, target: GrpcTarget) {
    this.url = url;
    this.#target = target;
  }

  connect(): LoadConnection {
    return new GrpcConnection(this.#target);
  }

  prepared({ model, questions, batch }: RequestPool): readonly PreparedRequest[] {
    if (questions === undefined) {
      const text =
        "Over gRPC requests are tensors: name the models with --models DIR, not --keys FILE";
      throw new WinnowError("INVALID_ARGUMENT", text);
    }
    return questions.map((question, number) => {
      const bytes = framed(predictBytes({ model, version: undefined }, question));
      return { bytes, model, instances: batch, number };
    });
  }

  read(answer: LoadAnswer, outputs: readonly OutputSpec[]): ReadAnswer {
    const { outputs: messages, model_spec: spec } = readPredictResponse(answer.body());
    return {
      records: recordsOfMessages(messages, { outputs, format: "row" }),
      version: spec?.version?.value.toString(),
    };
  }
}
