// One request and its answer on their connection: how a leaving client is noticed, how the answer is written,
// and what becomes of the rest of a body once the request is answered. Exactly one answer is written for a
// request, by whichever comes first: the handler, the deadline, or the parser that finds the body malformed.
//
// A client that ends its side of the connection has left, or waits for its answer. Only writing shows which: the machine
// of one that has left refuses what it gets, and the next write fails. Therefore such a client gets interim answers
// (`100 Continue`, which every client of HTTP/1.1 passes over) until its answer is there.
//
//   open ── answer ──▶ answered ── read by the client ─────────────▶ closed
//     │                   └── reads nothing, or too slowly: cut ──▶
//     └── client leaves ───────────────────────────────────────────▶
//
// A request may be answered before it has arrived completely (too long, too slow, no memory). The rest of its
// body is read and dropped, so that the client gets to read the answer; if the body does not end soon, the
// connection is cut.

import type { IncomingMessage, ServerResponse } from "node:http";
import { Readable } from "node:stream";
import { PIECE_BYTES, WinnowError, nextLoopTurn, setGraceTimer } from "@winnow/core";
import type { Clock, GiveUpReason, Timer, Transfer, Transfers } from "@winnow/core";
import type { FastifyReply } from "fastify";
import { RequestContext } from "../../request-context.ts";
import type { HttpAnswer } from "../http-answer.ts";

/** What all exchanges of a server share. */
export interface ExchangeParts {
  readonly clock: Clock;
  readonly answers: Transfers;
  readonly settings: { readonly requestTimeoutMs: number; readonly discardMs: number };
  /** Called when an answer was given up because its client does not read it. */
  readonly onUnread: (reason: GiveUpReason) => void;
}

/** Longer bodies are written apart from their headers. Together both fit into what Node writes without a copy in the heap. */
const ONE_WRITE_BYTES = 12 * 1024;

/** Bytes of a long answer that are written in one turn of the event loop: a few ms. */
const TURN_BYTES = 4 * PIECE_BYTES;

/** Ms after the end of a client's side until it gets an interim answer, and at most between two; each waits for twice as long. */
const INTERIM_MS = 25;
const INTERIM_MS_MAX = 1000;

/** Statuses of requests that took too long: their connections are closed. */
const TOO_SLOW: ReadonlySet<number> = new Set([408, 504]);

/** One request and its answer. */
export class Exchange {
  readonly context: RequestContext;
  readonly #parts: ExchangeParts;
  readonly #request: IncomingMessage;
  readonly #response: ServerResponse;
  readonly #reply: FastifyReply;
  #isAnswered = false;
  #isClosed = false;
  #interimTimer: Timer | undefined;
  /** Accounts for the answer's memory. */
  #transfer: Transfer | undefined;

  constructor(parts: ExchangeParts, reply: FastifyReply) {
    this.#parts = parts;
    this.#reply = reply;
    this.#request = reply.request.raw;
    this.#response = reply.raw;
    this.context = new RequestContext(parts.clock, {
      timeoutMs: parts.settings.requestTimeoutMs,
    });
    this.#response.once("close", () => this.#close());
  }

  /** Whether an answer to this request is being made or written: nothing else may be written then. */
  get isPending(): boolean {
    return this.#isAnswered ? !this.#isClosed : this.#request.complete;
  }

  /** Whether bytes that arrive now still belong to this request, although it is answered. */
  get isAnsweredEarly(): boolean {
    return this.#isAnswered && !this.#request.complete;
  }

  /** The client has ended its side of the connection. */
  clientEnded(): void {
    if (this.#isAnswered || this.#isClosed) return;
    // HTTP/1.0 has no interim answers, so the client is taken to have left.
    if (this.#request.httpVersionMinor === 0) this.#response.destroy();
    else this.#answerInterim(INTERIM_MS);
  }

  #answerInterim(delayMs: number): void {
    this.#interimTimer = this.#parts.clock.setTimer(delayMs, () => {
      this.#response.writeContinue();
      this.#answerInterim(Math.min(2 * delayMs, INTERIM_MS_MAX));
    });
  }

  #endInterim(): void {
    if (this.#interimTimer !== undefined) this.#parts.clock.clearTimer(this.#interimTimer);
    this.#interimTimer = undefined;
  }

  /** Accounts for the answer's memory until its client has read it; `false` if there is not enough. */
  hold(answer: HttpAnswer): boolean {
    if (this.#isClosed) return true;
    const { answers, onUnread } = this.#parts;
    const transfer = answers.open((reason) => {
      onUnread(reason);
      this.#response.destroy();
    });
    if (!transfer.take(answer.body.length)) {
      transfer.close();
      return false;
    }
    this.#transfer = transfer;
    return true;
  }

  /** Writes the answer, with `further` headers, names and values by turns; `isLast`: the connection ends after it. */
  send({ status, headers, body }: HttpAnswer, further: readonly string[], isLast: boolean): void {
    this.context.finish();
    this.#isAnswered = true;
    this.#endInterim();
    const isEarly = !this.#request.complete && hasBody(this.#request);
    const isClosing = isLast || (isEarly && TOO_SLOW.has(status));
    if (isEarly) this.#readPast();
    const list = listed(headers, further);
    if (!isEarly && !isClosing && this.#sendAtOnce(status, list, body)) return;
    const reply = this.#reply;
    reply.code(status);
    for (let at = 0; at < list.length; at += 2) reply.header(list[at]!, list[at + 1]!);
    if (isClosing) reply.header("connection", "close");
    if (body.length <= PIECE_BYTES) {
      reply.send(body);
      return;
    }
    reply.header("content-length", body.length);
    reply.send(
      Readable.from(this.#pieces(body), { objectMode: false, highWaterMark: PIECE_BYTES }),
    );
  }

  /**
   * Writes headers and body with one system call and without fastify, which writes them as two buffers. `false`,
   * without any effect, for a long body, or while an earlier answer on the connection is being written.
   */
  #sendAtOnce(status: number, headers: string[], body: Buffer): boolean {
    const response = this.#response;
    const { socket } = response;
    if (socket === null || body.length === 0 || body.length > ONE_WRITE_BYTES) return false;
    this.#reply.hijack();
    headers.push("content-length", String(body.length));
    response.writeHead(status, headers);
    // Node joins a text with the headers, and adds an empty piece at the end unless all is written by then.
    socket.cork();
    response.write(body.toString("latin1"), "latin1");
    socket.uncork();
    response.end();
    return true;
  }

  /** A socket takes megabytes at once from whom it can; to copy them takes the kernel as long as many requests. */
  async *#pieces(body: Buffer): AsyncGenerator<Buffer> {
    for (let at = 0; at < body.length; at += PIECE_BYTES) {
      yield body.subarray(at, at + PIECE_BYTES);
      // The socket asks for the next piece only after it has taken this one.
      this.#transfer?.moved(PIECE_BYTES);
      if ((at + PIECE_BYTES) % TURN_BYTES === 0) await nextLoopTurn();
    }
  }

  #readPast(): void {
    const request = this.#request;
    request.resume();
    const { clock, settings } = this.#parts;
    const timer = setGraceTimer(clock, { delayMs: settings.discardMs }, () =>
      request.socket.destroySoon(),
    );
    request.once("close", () => timer.clear());
  }

  #close(): void {
    this.#isClosed = true;
    this.#endInterim();
    this.#transfer?.close();
    this.context.abort(() => new WinnowError("CANCELLED", "The client closed the connection"));
  }
}

/** Headers as Node takes them: names and values by turns. */
function listed(headers: HttpAnswer["headers"], further: readonly string[]): string[] {
  const list: string[] = [];
  for (const name in headers) list.push(name, headers[name]!);
  list.push(...further);
  return list;
}

function hasBody({ headers }: IncomingMessage): boolean {
  return headers["transfer-encoding"] !== undefined || Number(headers["content-length"] ?? 0) > 0;
}
