// One router's gRPC port as the load reaches it: an HTTP/2 connection, opened again when it ends, and
// unary calls by hand: a header, one message, trailers. Cheaper than a client of grpc-js, and it
// shows what the connection does.

import { type ClientHttp2Session, connect, constants } from "node:http2";
import type { CheckedReply } from "../answers/answer-check.ts";
import { versionOfPredictAnswer } from "./predict-messages.ts";
import type { SendOutcome } from "./rest-door.ts";

const PATH = "/tensorflow.serving.PredictionService/Predict";
/** A message's length stands behind one byte that says whether it is compressed. */
const PREFIX_BYTES = 5;
/** gRPC codes as the HTTP statuses that mean the same. */
const STATUS_OF_CODE: Readonly<Record<string, number>> = {
  "0": 200,
  "5": 404,
  "8": 429,
  "14": 503,
};

/** Calls to one router. */
export class GrpcDoor {
  readonly #port: number;
  #session: ClientHttp2Session | undefined;
  readonly #connected = new WeakSet<ClientHttp2Session>();

  constructor(port: number) {
    this.#port = port;
  }

  /** Connections open now. */
  get connections(): number {
    return this.#session === undefined ? 0 : 1;
  }

  /** Sends a Predict message; what it gives cancels the call. */
  send(message: Buffer, done: (outcome: SendOutcome) => void): () => void {
    // A session that was destroyed takes no more calls, though its close has not been told yet.
    const isUsable = this.#session?.destroyed === false && !this.#session.closed;
    const session = isUsable ? this.#session! : this.#connect();
    const stream = session.request({
      [constants.HTTP2_HEADER_METHOD]: "POST",
      [constants.HTTP2_HEADER_PATH]: PATH,
      [constants.HTTP2_HEADER_CONTENT_TYPE]: "application/grpc",
      te: "trailers",
    });
    const chunks: Buffer[] = [];
    let status = "";
    let isOver = false;
    const finish = (outcome: SendOutcome): void => {
      if (isOver) return;
      isOver = true;
      done(outcome);
    };
    const note = (headers: Readonly<Record<string, unknown>>): void => {
      const code = headers["grpc-status"];
      if (typeof code !== "string") return;
      status = code;
      const text = JSON.stringify(headers["grpc-message"]);
      if (code !== "0") chunks.push(Buffer.from(`     code ${code} ${text}`));
    };
    stream.on("response", note);
    stream.on("trailers", note);
    stream.on("data", (chunk: Buffer) => chunks.push(chunk));
    let text = "closed";
    stream.on("error", (error) => {
      text = error.message;
    });
    stream.on("close", () => {
      if (status !== "") return finish({ kind: "reply", reply: replyOf(status, chunks) });
      const isUntouched =
        stream.rstCode === constants.NGHTTP2_REFUSED_STREAM || !this.#connected.has(session);
      finish({ kind: isUntouched ? "refused connection" : "broken", text });
    });
    const prefix = Buffer.alloc(PREFIX_BYTES);
    prefix.writeUInt32BE(message.length, 1);
    stream.end(Buffer.concat([prefix, message]));
    return () => {
      isOver = true;
      stream.close(constants.NGHTTP2_CANCEL);
    };
  }

  close(): void {
    this.#session?.destroy();
  }

  #connect(): ClientHttp2Session {
    const session = connect(`http://127.0.0.1:${this.#port}`);
    this.#session = session;
    const forget = (): void => {
      if (this.#session === session) this.#session = undefined;
    };
    session.on("connect", () => this.#connected.add(session));
    session.on("goaway", () => {
      forget();
      session.close();
    });
    session.on("error", forget);
    session.on("close", forget);
    return session;
  }
}

function replyOf(code: string, chunks: readonly Buffer[]): CheckedReply {
  const body = Buffer.concat(chunks).subarray(PREFIX_BYTES);
  const isAnswer = code === "0";
  return {
    status: STATUS_OF_CODE[code] ?? 500,
    version: isAnswer ? versionOfPredictAnswer(body) : undefined,
    coverage: undefined,
    hasRetryAfter: true,
    body,
  };
}
