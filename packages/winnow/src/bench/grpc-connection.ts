// One HTTP/2 connection to a gRPC port, with one call under way: what `http-connection.ts` is for REST. Messages are
// bytes made beforehand; of an answer it reads the status and where the message is. grpc-js would make an object of
// each message, which a load generator that shares its machine with what it measures cannot afford.

import {
  type ClientHttp2Session,
  type ClientHttp2Stream,
  type IncomingHttpHeaders,
  connect,
} from "node:http2";
import { status } from "@grpc/grpc-js";
import { excerpt } from "@winnow/core";
import { type LoadAnswer, type LoadConnection, noAnswer } from "./load-connection.ts";

/** Where a connection leads, and what is called. */
export interface GrpcTarget {
  /** `http://host:port`, or `https://…`. */
  readonly origin: string;
  readonly ca: string | undefined;
  /** `/package.Service/Method`. */
  readonly path: string;
  readonly metadata: Readonly<Record<string, string>>;
}

/** A byte that says whether the message is compressed, and four of its length. */
const PREFIX_BYTES = 5;
const ANSWER_BYTES_MAX = 512 * 1024 * 1024;
const WINDOW_BYTES = 16 * 1024 * 1024;

/** A message as it travels. */
export function framed(message: Uint8Array): Buffer {
  const bytes = Buffer.alloc(PREFIX_BYTES + message.length);
  bytes.writeUInt32BE(message.length, 1);
  bytes.set(message, PREFIX_BYTES);
  return bytes;
}

/** A connection. */
export class GrpcConnection implements LoadConnection {
  readonly #target: GrpcTarget;
  readonly #headers: Readonly<Record<string, string>>;
  #session: ClientHttp2Session | undefined;
  #done: ((answer: LoadAnswer) => void) | undefined;

  constructor(target: GrpcTarget) {
    this.#target = target;
    const call = { ":method": "POST", ":path": target.path, te: "trailers" };
    this.#headers = { ...call, "content-type": "application/grpc", ...target.metadata };
  }

  send(request: Buffer, done: (answer: LoadAnswer) => void): void {
    this.#done = done;
    this.#session ??= this.#connect();
    const stream = this.#session.request(this.#headers);
    this.#read(stream);
    stream.end(request);
  }

  end(fault: string): void {
    const session = this.#session;
    this.#session = undefined;
    session?.destroy();
    this.#fail(fault);
  }

  #connect(): ClientHttp2Session {
    const { origin, ca } = this.#target;
    const session = connect(origin, { ca, settings: { initialWindowSize: WINDOW_BYTES } });
    const isOwn = (): boolean => this.#session === session;
    session.on("connect", () => session.setLocalWindowSize(WINDOW_BYTES));
    session.on("error", (error) => {
      if (isOwn()) this.end(error.message);
    });
    // A server that drains says that no further call is taken on this connection.
    session.on("goaway", () => {
      if (isOwn()) this.#session = undefined;
    });
    session.on("close", () => {
      if (isOwn()) this.end("the connection was closed");
    });
    return session;
  }

  /** Reads one answer; what comes of a call that is over counts for nothing. */
  #read(stream: ClientHttp2Stream): void {
    const done = this.#done;
    const chunks: Buffer[] = [];
    let bytes = 0;
    let told: IncomingHttpHeaders = {};
    const finish = (fault?: string): void => {
      if (this.#done !== done) return;
      if (fault !== undefined) this.#fail(fault);
      else this.#finish(answerOf(told, Buffer.concat(chunks, bytes)));
    };
    stream.on("response", (headers) => (told = headers));
    stream.on("trailers", (trailers) => (told = { ...told, ...trailers }));
    stream.on("data", (chunk: Buffer) => {
      chunks.push(chunk);
      bytes += chunk.length;
      if (bytes > ANSWER_BYTES_MAX) this.end("the answer is too long");
    });
    stream.on("error", (error) => finish(error.message));
    stream.on("close", () => finish());
  }

  #fail(fault: string): void {
    this.#finish(noAnswer(fault));
  }

  #finish(answer: LoadAnswer): void {
    const done = this.#done;
    this.#done = undefined;
    done?.(answer);
  }
}

function answerOf(told: IncomingHttpHeaders, bytes: Buffer): LoadAnswer {
  const code = told["grpc-status"];
  if (code === undefined) {
    const http = told[":status"];
    return noAnswer(
      http === undefined
        ? "the call was cut off"
        : `status ${String(http)} of HTTP, and none of gRPC`,
    );
  }
  const name = status[Number(code)] ?? excerpt(String(code));
  return {
    status: name,
    isOk: name === "OK",
    fault: () => (name === "OK" ? "" : `${name} ${excerpt(textOf(told))}`),
    body: () => bytes.subarray(PREFIX_BYTES),
    header: (wanted) => told[wanted]?.toString(),
  };
}

/** Percent-encoded, as gRPC sends it. */
function textOf(told: IncomingHttpHeaders): string {
  const text = String(told["grpc-message"] ?? "");
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}
