// One router's REST port as the load reaches it: connections that are kept alive, one request at a
// time on each, as any HTTP client has them. Of a reply it reads the status, four headers and the body.

import { type Socket, connect } from "node:net";
import type { CheckedReply } from "../answers/answer-check.ts";

/** How sending went. */
export type SendOutcome =
  | { readonly kind: "reply"; readonly reply: CheckedReply }
  /** Nobody took the connection: nothing was sent. */
  | { readonly kind: "refused connection"; readonly text: string }
  /** The connection ended before the reply was whole. */
  | { readonly kind: "broken"; readonly text: string };

interface Connection {
  readonly socket: Socket;
  readonly chunks: Buffer[];
  done: ((outcome: SendOutcome) => void) | undefined;
  isConnected: boolean;
}

const HEAD_END = Buffer.from("\r\n\r\n");
const CONNECT_MS_MAX = 2000;

/** Connections to one router. */
export class RestDoor {
  readonly #port: number;
  readonly #idle: Connection[] = [];
  readonly #open = new Set<Connection>();

  constructor(port: number) {
    this.#port = port;
  }

  /** Connections open now. */
  get connections(): number {
    return this.#open.size;
  }

  /** Sends a request; what it gives cancels it. */
  send(bytes: Buffer, done: (outcome: SendOutcome) => void): () => void {
    const connection = this.#idle.pop() ?? this.#connect();
    connection.done = done;
    connection.socket.write(bytes);
    return () => {
      connection.done = undefined;
      connection.socket.destroy();
    };
  }

  close(): void {
    for (const { socket } of this.#open) socket.destroy();
  }

  #connect(): Connection {
    const socket = connect({ host: "127.0.0.1", port: this.#port, noDelay: true });
    const connection: Connection = { socket, chunks: [], done: undefined, isConnected: false };
    this.#open.add(connection);
    socket.setTimeout(CONNECT_MS_MAX, () => {
      if (!connection.isConnected) socket.destroy(new Error("no connection in time"));
    });
    socket.once("connect", () => {
      connection.isConnected = true;
      socket.setTimeout(0);
    });
    socket.on("data", (chunk) => this.#read(connection, chunk));
    let text = "closed";
    socket.on("error", (error) => {
      text = error.message;
    });
    socket.on("end", () => socket.destroy());
    socket.on("close", () => this.#lose(connection, text));
    return connection;
  }

  #read(connection: Connection, chunk: Buffer): void {
    connection.chunks.push(chunk);
    const bytes = connection.chunks.length === 1 ? chunk : Buffer.concat(connection.chunks);
    const read = readReply(bytes);
    if (read === undefined) {
      connection.chunks.splice(0, connection.chunks.length, bytes);
      return;
    }
    connection.chunks.length = 0;
    const { done } = connection;
    connection.done = undefined;
    if (read.isLast) connection.socket.end();
    else this.#idle.push(connection);
    done?.({ kind: "reply", reply: read.reply });
  }

  #lose(connection: Connection, text: string): void {
    this.#open.delete(connection);
    const at = this.#idle.indexOf(connection);
    if (at >= 0) this.#idle.splice(at, 1);
    const { done, isConnected, chunks } = connection;
    connection.done = undefined;
    const received = chunks.reduce((sum, { length }) => sum + length, 0);
    if (isConnected) done?.({ kind: "broken", text: `${text} after ${received} bytes` });
    else done?.({ kind: "refused connection", text });
  }
}

/** The reply at the start of these bytes; `undefined` while it is not whole. */
function readReply(bytes: Buffer): { reply: CheckedReply; isLast: boolean } | undefined {
  const headEnd = bytes.indexOf(HEAD_END);
  if (headEnd < 0) return undefined;
  const head = bytes.toString("latin1", 0, headEnd);
  const bodyStart = headEnd + HEAD_END.length;
  const bodyEnd = bodyStart + Number(/\r\ncontent-length: *(\d+)/i.exec(head)?.[1] ?? 0);
  if (bytes.length < bodyEnd) return undefined;
  const reply: CheckedReply = {
    status: Number(head.slice(9, 12)),
    version: /\r\nx-winnow-model-version: *(\S+)/i.exec(head)?.[1],
    coverage: /\r\nx-winnow-coverage: *(\S+)/i.exec(head)?.[1],
    hasRetryAfter: /\r\nretry-after:/i.test(head),
    body: bytes.subarray(bodyStart, bodyEnd),
  };
  return { reply, isLast: /\r\nconnection: *close/i.test(head) || bytes.length > bodyEnd };
}
