// The answer to what is not HTTP, has headers too long, or came too slowly: written straight to the
// socket, for there is no request to answer. Then the connection ends.

import type { Socket } from "node:net";
import { errorBody } from "./http-answer.ts";

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

/** Node's `clientError`, answered with an error body where nothing has been answered yet. */
export function answerBrokenRequest(error: NodeJS.ErrnoException, socket: Socket): void {
  const isGone = error.code === "ECONNRESET" || !socket.writable;
  if (isGone || isAnswering(socket)) {
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

/** Whether an answer to an earlier request is on its way; bytes of ours would spoil it. */
function isAnswering(socket: Socket): boolean {
  const { _httpMessage: message } = socket as { _httpMessage?: { headersSent?: boolean } | null };
  return message?.headersSent === true;
}
