// The answer to bytes that are not HTTP, to headers that are too long, and to requests that arrive too
// slowly. It is written directly to the socket, because Node gives no request to answer. Then the connection
// ends.

import type { Socket } from "node:net";
import { errorBody } from "../http-answer.ts";

interface Refusal {
  readonly line: string;
  readonly text: string;
}

const REFUSALS: Readonly<Record<string, Refusal>> = {
  HPE_HEADER_OVERFLOW: {
    line: "431 Request Header Fields Too Large",
    text: "The request's headers are too long",
  },
  ERR_HTTP_REQUEST_TIMEOUT: {
    line: "408 Request Timeout",
    text: "The request did not arrive in time",
  },
};
const NOT_HTTP: Refusal = { line: "400 Bad Request", text: "The request is not valid HTTP" };

/** The state of the exchange on a connection, if there is one. */
export interface CurrentExchange {
  /** Whether an answer is being made or written: bytes written now would be taken for a part of it. */
  readonly isPending: boolean;
  /** Whether the request that is still arriving has been answered already. */
  readonly isAnsweredEarly: boolean;
}

/** Handles Node's `clientError`, with an error body if nothing else is being or was answered. */
export function answerBrokenRequest(
  error: NodeJS.ErrnoException,
  socket: Socket,
  current: CurrentExchange | undefined,
): void {
  const isGone = error.code === "ECONNRESET" || !socket.writable;
  if (isGone || current?.isPending === true || current?.isAnsweredEarly === true) {
    socket.destroy();
    return;
  }
  const { line, text } = REFUSALS[error.code ?? ""] ?? NOT_HTTP;
  const body = errorBody(text);
  const head =
    `HTTP/1.1 ${line}\r\nContent-Type: application/json\r\n` +
    `Content-Length: ${body.length}\r\nConnection: close\r\n\r\n`;
  socket.end(Buffer.concat([Buffer.from(head, "latin1"), body]));
}
