// The answer to what is not HTTP, has headers too long, or came too slowly: written straight to the
// socket, for there is no request to answer. Then the connection ends.

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

/** Request and answer that a connection is in the middle of, if any. */
export interface CurrentExchange {
  /** Whether an answer is being made or written: bytes of ours would be taken for it. */
  readonly isPending: boolean;
  /** Whether the request that is still arriving has its answer. */
  readonly isAnsweredEarly: boolean;
}

/** Node's `clientError`, answered with an error body where nothing else is or was answered. */
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
