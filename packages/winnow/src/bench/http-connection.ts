// One HTTP/1.1 connection that is kept alive and has one request under way. A request costs a fifth of what
// it costs in `node:http`, and a third of undici: a load generator on the same machine as the server must be
// cheap. Requests are bytes made in advance; of an answer, only the status and the end are found.

import { type Socket, connect, isIP } from "node:net";
import { connect as connectSecurely } from "node:tls";
import { type LoadAnswer, type LoadConnection, noAnswer } from "./load-connection.ts";

/** Where a connection leads to. */
export interface ConnectionTarget {
  readonly host: string;
  readonly port: number;
  /** Whether to use TLS, with the given authorities or those that Node trusts. */
  readonly isSecure: boolean;
  readonly ca: string | undefined;
}

const HEAD_END = Buffer.from("\r\n\r\n");
const LAST_CHUNK = Buffer.from("0\r\n\r\n");
const HEAD_BYTES_MAX = 64 * 1024;
const ANSWER_BYTES_MAX = 512 * 1024 * 1024;

interface AnswerHead {
  readonly status: number;
  readonly headBytes: number;
  /** Bytes of head and body; `undefined`: chunked. */
  readonly wholeBytes: number | undefined;
  readonly isLast: boolean;
}

/** Head and body as they came, the body perhaps in chunks: read where somebody asks. */
class HttpAnswer implements LoadAnswer {
  readonly status: number;
  readonly #bytes: Buffer;
  readonly #head: AnswerHead;

  constructor(head: AnswerHead, bytes: Buffer) {
    this.status = head.status;
    this.#head = head;
    this.#bytes = bytes;
  }

  get isOk(): boolean {
    return this.status === 200;
  }

  fault(): string {
    return this.isOk ? "" : `${this.status} ${this.body().toString("utf8").slice(0, 200)}`;
  }

  body(): Buffer {
    const { headBytes, wholeBytes } = this.#head;
    if (wholeBytes !== undefined) return this.#bytes.subarray(headBytes);
    return bodyOfChunks(this.#bytes, headBytes) ?? Buffer.alloc(0);
  }

  header(name: string): string | undefined {
    const lines = this.#bytes.toString("latin1", 0, this.#head.headBytes).split("\r\n");
    const line = lines.find((each) => each.toLowerCase().startsWith(`${name}:`));
    return line?.slice(name.length + 1).trim();
  }
}

/** A connection; it connects when it is first used, and again after a fault. */
export class HttpConnection implements LoadConnection {
  readonly #target: ConnectionTarget;
  #socket: Socket | undefined;
  #chunks: Buffer[] = [];
  #bytes = 0;
  #head: AnswerHead | undefined;
  #done: ((answer: LoadAnswer) => void) | undefined;

  constructor(target: ConnectionTarget) {
    this.#target = target;
  }

  /** Sends a request; `done` is called once. The next request may be sent only after that. */
  send(request: Buffer, done: (answer: LoadAnswer) => void): void {
    this.#done = done;
    this.#socket ??= this.#connect();
    this.#socket.write(request);
  }

  /** Ends the connection; a request under way fails with this reason. */
  end(fault: string): void {
    this.#socket?.destroy();
    this.#fail(fault);
  }

  #connect(): Socket {
    const { host, port, isSecure, ca } = this.#target;
    // An address is no name that a server can be asked for (RFC 6066); Node 26 throws.
    const named = isIP(host) === 0 ? { servername: host } : {};
    const socket = isSecure
      ? connectSecurely({ host, port, ca, ...named, ALPNProtocols: ["http/1.1"] })
      : connect({ host, port });
    socket.setNoDelay(true);
    socket.on("data", (chunk: Buffer) => this.#take(chunk));
    const isOwn = (): boolean => this.#socket === socket;
    socket.on("error", (error) => {
      if (isOwn()) this.#fail(error.message);
    });
    socket.on("close", () => {
      if (isOwn()) this.#fail("the connection was closed");
    });
    return socket;
  }

  #fail(fault: string): void {
    this.#socket = undefined;
    this.#finish(noAnswer(fault));
  }

  #finish(answer: LoadAnswer): void {
    this.#chunks = [];
    this.#bytes = 0;
    this.#head = undefined;
    const done = this.#done;
    this.#done = undefined;
    done?.(answer);
  }

  #take(chunk: Buffer): void {
    this.#chunks.push(chunk);
    this.#bytes += chunk.length;
    this.#head ??= this.#readHead();
    const head = this.#head;
    if (head === undefined) {
      if (this.#bytes > HEAD_BYTES_MAX) this.end("no head of an answer");
      return;
    }
    if (head.status === 0) return this.end("an answer that is no HTTP/1.1 with a length");
    if (this.#bytes > ANSWER_BYTES_MAX) return this.end("the answer is too long");
    const isWhole =
      head.wholeBytes === undefined ? this.#endsChunks(head) : this.#bytes >= head.wholeBytes;
    if (!isWhole) return;
    const bytes = this.#all();
    if (head.isLast) {
      const socket = this.#socket;
      this.#socket = undefined;
      socket?.end();
    }
    this.#finish(new HttpAnswer(head, bytes));
  }

  #all(): Buffer {
    if (this.#chunks.length > 1) this.#chunks = [Buffer.concat(this.#chunks)];
    return this.#chunks[0]!;
  }

  #readHead(): AnswerHead | undefined {
    const bytes = this.#all();
    const at = bytes.indexOf(HEAD_END);
    return at < 0 ? undefined : headOf(bytes.toString("latin1", 0, at), at + HEAD_END.length);
  }

  /** Whether the last chunk has arrived; only checked if the bytes end like a last chunk. */
  #endsChunks({ headBytes }: AnswerHead): boolean {
    const last = this.#chunks.at(-1)!;
    const tail = last.length < LAST_CHUNK.length ? this.#all() : last;
    if (!tail.subarray(-LAST_CHUNK.length).equals(LAST_CHUNK)) return false;
    return bodyOfChunks(this.#all(), headBytes) !== undefined;
  }
}

function headOf(head: string, headBytes: number): AnswerHead {
  const status = Number(/^HTTP\/1\.[01] (\d{3})/.exec(head)?.[1] ?? 0);
  const isLast = /\r\nconnection: *close/i.test(head);
  if (/\r\ntransfer-encoding:[^\r]*chunked/i.test(head)) {
    return { status, headBytes, wholeBytes: undefined, isLast };
  }
  const length = /\r\ncontent-length: *(\d+)/i.exec(head)?.[1];
  if (length === undefined) return { status: 0, headBytes, wholeBytes: headBytes, isLast };
  return { status, headBytes, wholeBytes: headBytes + Number(length), isLast };
}

/** The chunks joined; `undefined` while the last one is missing. */
function bodyOfChunks(bytes: Buffer, from: number): Buffer | undefined {
  const parts: Buffer[] = [];
  let at = from;
  for (;;) {
    const lineEnd = bytes.indexOf("\r\n", at);
    if (lineEnd < 0) return undefined;
    const size = Number.parseInt(bytes.toString("latin1", at, lineEnd), 16);
    const start = lineEnd + 2;
    if (size === 0) return Buffer.concat(parts);
    if (!(size > 0) || start + size + 2 > bytes.length) return undefined;
    parts.push(bytes.subarray(start, start + size));
    at = start + size + 2;
  }
}
