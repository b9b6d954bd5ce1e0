// A client for tests that sends exactly what it is told, legal or not, and takes answers apart.

import http from "node:http";
import net from "node:net";

/** What a test sends. */
export interface SentRequest {
  readonly method: string;
  readonly path: string;
  readonly headers?: Readonly<Record<string, string>>;
  readonly body?: Uint8Array | string | undefined;
}

/** What came back. */
export interface Received {
  readonly status: number;
  readonly headers: http.IncomingHttpHeaders;
  readonly text: string;
  readonly bytes: Buffer;
}

/** Sends one request on a connection of its own. */
export function send(port: number, request: SentRequest): Promise<Received> {
  const body = request.body === undefined ? undefined : Buffer.from(request.body);
  const hasBody = body !== undefined || ["POST", "PUT", "PATCH"].includes(request.method);
  const headers: Record<string, string | number> = { ...request.headers };
  if (hasBody) headers["Content-Length"] = body?.length ?? 0;
  return new Promise((resolve, reject) => {
    const sent = http.request(
      {
        host: "127.0.0.1",
        port,
        method: request.method,
        path: request.path,
        headers,
        agent: false,
      },
      (response) => {
        const chunks: Buffer[] = [];
        response.on("data", (chunk: Buffer) => chunks.push(chunk));
        response.on("error", reject);
        response.on("end", () => {
          const bytes = Buffer.concat(chunks);
          const { headers, statusCode = 0 } = response;
          resolve({ status: statusCode, headers, bytes, text: bytes.toString("utf8") });
        });
      },
    );
    sent.on("error", reject);
    if (body !== undefined) sent.write(body);
    sent.end();
  });
}

/** POSTs a body to a model's predict URL. */
export function postPredict(
  port: number,
  body: Uint8Array | string,
  options: { readonly model?: string; readonly headers?: Readonly<Record<string, string>> } = {},
): Promise<Received> {
  const path = `/v1/models/${options.model ?? "retrieval"}:predict`;
  return send(port, { method: "POST", path, body, headers: options.headers ?? {} });
}

/** Sends raw bytes and gives all that came back until the server closed the connection. */
export function sendRaw(port: number, bytes: Uint8Array | string): Promise<string> {
  return new Promise((resolve, reject) => {
    const chunks: Buffer[] = [];
    const socket = net.connect(port, "127.0.0.1", () => socket.write(bytes));
    socket.on("data", (chunk: Buffer) => chunks.push(chunk));
    socket.on("error", reject);
    socket.on("close", () => resolve(Buffer.concat(chunks).toString("latin1")));
  });
}

/** A connection on which a test writes and reads when it likes. */
export class RawClient {
  readonly socket: net.Socket;
  readonly #chunks: Buffer[] = [];
  #isClosed = false;

  private constructor(socket: net.Socket) {
    this.socket = socket;
    socket.on("data", (chunk: Buffer) => this.#chunks.push(chunk));
    socket.on("error", () => undefined);
    socket.on("close", () => (this.#isClosed = true));
  }

  /** Connects and writes. */
  static async open(port: number, bytes: Uint8Array | string): Promise<RawClient> {
    const socket = net.connect(port, "127.0.0.1");
    const client = new RawClient(socket);
    await new Promise<void>((resolve, reject) =>
      socket.once("connect", resolve).once("error", reject),
    );
    socket.write(bytes);
    return client;
  }

  /** All that has come. */
  get bytes(): Buffer {
    return Buffer.concat(this.#chunks);
  }

  /** Statuses of all answers that have come; bodies of tests hold nothing that looks like one. */
  get statuses(): number[] {
    const text = this.bytes.toString("latin1");
    return Array.from(text.matchAll(/HTTP\/1\.1 (\d{3}) /g), ([, status]) => Number(status));
  }

  /** Whether the connection is closed, by whomever. */
  get isClosed(): boolean {
    return this.#isClosed;
  }

  close(): void {
    this.socket.destroy();
  }
}

/** The head of a predict request whose body is announced to be so long. */
export function predictHead(bodyBytes: number, headers = ""): string {
  return (
    `POST /v1/models/retrieval:predict HTTP/1.1\r\nHost: x\r\n` +
    `Content-Length: ${bodyBytes}\r\n${headers}\r\n`
  );
}
