// One stream of a gRPC server below grpc-js: counts the bytes of its request as they arrive and
// those of its answer until they are written, and ends the stream where grpc-js would not.

import { constants } from "node:http2";
import type { ServerHttp2Stream } from "node:http2";
import type { Socket } from "node:net";
import { status } from "@grpc/grpc-js";
import type { ServerInterceptor } from "@grpc/grpc-js";
import { PIECE_BYTES, setGraceTimer } from "@winnow/core";
import type { Clock, GiveUpReason, Transfer, Transfers } from "@winnow/core";
import { MessageMeter } from "./message-meter.ts";
import { unpackMessage } from "./packed-message.ts";
import type { Unpacking } from "./packed-message.ts";

/** What the streams of a door share. */
export interface DoorStreamParts {
  readonly clock: Clock;
  readonly requests: Transfers;
  readonly answers: Transfers;
  /** Bytes of one message, unpacked. */
  readonly messageBytesMax: number;
  /** Milliseconds in which a closed stream must have ended; after that its connection is cut. */
  readonly cutMs: number;
  readonly onGivenUp: (what: "body" | "answer", reason: GiveUpReason) => void;
}

type Call = Parameters<ServerInterceptor>[1];

/** Internal method of a call of grpc-js 1.14: unpacks a message, given with its 5-byte prefix. */
interface UnpackingCall extends Call {
  decompressMessage(message: Buffer, encoding: string): Buffer | Promise<Buffer>;
}

type Written = (error?: Error | null) => void;
type Write = (chunk: Buffer, written: Written) => boolean;

/** Memory of a received chunk beside its bytes: most of it when bytes trickle in one by one. */
const PIECE_OVERHEAD_BYTES = 256;
const PREFIX_BYTES = 5;
/** A piece of a stream of messages: routers read fast, and what they wait for should be one piece. */
const STREAM_PIECE_BYTES = 4 * PIECE_BYTES;

/** One stream, from its headers to its close. */
export class DoorStream {
  readonly #stream: ServerHttp2Stream;
  readonly #socket: Socket;
  readonly #parts: DoorStreamParts;
  readonly #meter = new MessageMeter();
  readonly #write: Write;
  #keeps: "request" | "nothing" = "request";
  #call: Call | undefined;
  /** Counts the bytes that have arrived; times the request until it is complete. */
  #request: Transfer | undefined;
  #isArriving = true;
  readonly #unread = new Set<Transfer>();
  readonly #unpackings = new Set<Unpacking>();

  /** `socket` is the socket of the stream's connection. */
  constructor(stream: ServerHttp2Stream, socket: Socket, parts: DoorStreamParts) {
    this.#stream = stream;
    this.#socket = socket;
    this.#parts = parts;
    this.#write = stream.write.bind(stream) as Write;
    stream.on("error", () => undefined); // A close event follows.
    stream.once("close", () => this.#release());
    this.#openRequest();
  }

  /** Consecutive checks without progress of an unfinished request; 0 for a complete one. */
  get stillLooks(): number {
    return this.#isArriving ? (this.#request?.stillLooks ?? 0) : 0;
  }

  /** Whether the stream was reset, refused or given up. */
  get isOver(): boolean {
    const { destroyed, closed, headersSent } = this.#stream;
    return destroyed || closed || headersSent;
  }

  /** Calls `listener` when the stream has closed, at once if it is destroyed. */
  onOver(listener: () => void): void {
    if (this.#stream.destroyed) listener();
    else this.#stream.once("close", listener);
  }

  /** Replaces what grpc-js does without bounds: unpacking messages, and writing them. */
  adopt(call: Call): void {
    this.#call = call;
    const inner = call as UnpackingCall;
    const unbounded = inner.decompressMessage.bind(call);
    inner.decompressMessage = (message, encoding) =>
      encoding === "gzip" || encoding === "deflate"
        ? this.#unpack(message.subarray(PREFIX_BYTES), encoding)
        : unbounded(message, encoding);
    this.#stream.write = this.#writeMessage.bind(this) as ServerHttp2Stream["write"];
  }

  /** Begins to count the bytes of the request, which grpc-js reads as well. */
  follow(keeps: "request" | "nothing"): void {
    this.#keeps = keeps;
    const stream = this.#stream;
    if (stream.destroyed || stream.closed) return;
    stream.on("data", (chunk: Buffer) => this.#receive(chunk));
    stream.once("end", () => this.#rest());
    stream.once("finish", () => this.#answered());
    if (stream.writableFinished) this.#answered();
  }

  /** Answers with a status and cuts the stream; only cuts it if an answer has begun. */
  refuse(code: number, details: string): void {
    const stream = this.#stream;
    this.#release();
    if (stream.destroyed || stream.closed) return;
    if (stream.headersSent) return this.#cut(constants.NGHTTP2_CANCEL);
    stream.respond(
      {
        ":status": 200,
        "content-type": "application/grpc",
        "grpc-status": String(code),
        "grpc-message": encodeURI(details),
      },
      { endStream: true },
    );
    // Node 26 resets a stream before it has written what it was just given, so that the reset waits a turn of the event
    // loop. Until then grpc-js believes that the call goes on, and may answer it.
    stream.respond = () => undefined;
    stream.write = () => false;
    stream.resume();
    setImmediate(() => {
      if (!stream.closed) this.#cut(constants.NGHTTP2_NO_ERROR);
    });
  }

  /** Gives the unfinished request up. */
  giveUp(reason: GiveUpReason): void {
    this.#parts.onGivenUp("body", reason);
    if (reason === "memory") return this.refuse(status.UNAVAILABLE, this.#noMemory());
    if (reason === "places") {
      return this.refuse(status.UNAVAILABLE, "The request was stalled, and others wait; try again");
    }
    this.refuse(status.DEADLINE_EXCEEDED, "The request did not arrive in time");
  }

  #openRequest(): void {
    this.#request = this.#parts.requests.open((reason) => this.giveUp(reason));
  }

  #receive(chunk: Buffer): void {
    if (this.#stream.closed) return;
    if (this.#keeps === "request") return this.#keep(chunk);
    if (this.#meter.read(chunk) > 0) {
      // In a stream of messages only an incomplete message is held and timed.
      this.#isArriving = false;
      this.#request?.close();
      this.#request = undefined;
    }
    if (!this.#meter.isInside) return;
    if (this.#request === undefined) this.#openRequest();
    this.#keep(chunk);
  }

  #keep(chunk: Buffer): void {
    const request = this.#request;
    if (request === undefined) return;
    request.moved(chunk.length);
    if (!request.take(chunk.length + PIECE_OVERHEAD_BYTES)) this.giveUp("memory");
  }

  #rest(): void {
    this.#isArriving = false;
    this.#request?.rest();
  }

  #noMemory(): string {
    const { bytesMax } = this.#parts.requests;
    return `Requests of ${bytesMax} bytes are being worked on; try again`;
  }

  async #unpack(packed: Buffer, encoding: "gzip" | "deflate"): Promise<Buffer> {
    const { requests: memory, messageBytesMax: bytesMax } = this.#parts;
    const unpacking = unpackMessage(packed, encoding, { memory, bytesMax });
    this.#unpackings.add(unpacking);
    const content = await unpacking.content;
    if (this.#keeps === "nothing") {
      this.#unpackings.delete(unpacking);
      unpacking.close();
    }
    return content;
  }

  /** Writes a message at the pace at which its client reads, and counts its bytes until then. */
  #writeMessage(message: Buffer, written: Written): boolean {
    const { answers, onGivenUp } = this.#parts;
    const transfer = this.#openAnswer();
    if (!transfer.take(message.length)) {
      transfer.close();
      onGivenUp("answer", "memory");
      const details = `Answers of ${answers.bytesMax} bytes wait for their clients to read them; try again`;
      this.#call?.sendStatus({ code: status.UNAVAILABLE, details });
      return false;
    }
    this.#unread.add(transfer);
    const finish: Written = (error) => {
      this.#unread.delete(transfer);
      transfer.close();
      written(error);
    };
    if (message.length <= this.#pieceBytes) return this.#write(message, finish);
    this.#writePieces(message, transfer, finish);
    return false;
  }

  /** How much is written at once: the next piece waits for a turn of the event loop, and for its client to read. */
  get #pieceBytes(): number {
    return this.#keeps === "nothing" ? STREAM_PIECE_BYTES : PIECE_BYTES;
  }

  #writePieces(message: Buffer, transfer: Transfer, finish: Written): void {
    let at = 0;
    const next: Written = (error) => {
      if (error !== undefined && error !== null) return finish(error);
      if (at > 0) transfer.moved(this.#pieceBytes);
      if (at >= message.length) return finish();
      // A status has ended the answer in the meantime: the rest of the message is not needed.
      if (this.#stream.writableEnded) return;
      const piece = message.subarray(at, at + this.#pieceBytes);
      at += piece.length;
      this.#write(piece, next);
    };
    next();
  }

  /**
   * Runs when the answer is written, except for its last frame. If the request has not ended, the
   * stream is cut after `cutMs`: without a cut a client that goes on sending would be read for
   * ever, and a cut at once would lose the trailers. If it has ended, the close is timed like an
   * unread answer: a client that does not read, or Node after a protocol error, would keep the
   * stream open for ever.
   */
  #answered(): void {
    const stream = this.#stream;
    if (stream.closed) return;
    if (stream.readableEnded) {
      this.#unread.add(this.#openAnswer());
      return;
    }
    const { clock, cutMs } = this.#parts;
    const timer = setGraceTimer(clock, { delayMs: cutMs }, () => {
      if (!stream.destroyed) this.#cut(constants.NGHTTP2_NO_ERROR);
    });
    stream.once("close", () => timer.clear());
  }

  #openAnswer(): Transfer {
    return this.#parts.answers.open((reason) => {
      this.#parts.onGivenUp("answer", reason);
      this.#cut(constants.NGHTTP2_CANCEL);
    });
  }

  /** Closes the stream; also its connection, if the client does not even read the reset. */
  #cut(code: number): void {
    const stream = this.#stream;
    const { session } = stream;
    if (session === undefined || session.destroyed) return;
    const { clock, cutMs } = this.#parts;
    const writtenBefore = session.socket.bytesWritten;
    stream.close(code);
    // Received bytes that stay unread would keep the stream from ending.
    stream.resume();
    // The ping makes sure that bytes must be written, whatever the stream's state: see `isStuck`.
    session.ping(() => undefined);
    setGraceTimer(clock, { delayMs: cutMs }, () => {
      const isStuck = session.socket?.bytesWritten === writtenBefore;
      if (!session.destroyed && (isStuck || !stream.destroyed)) this.#socket.destroy();
    });
  }

  #release(): void {
    this.#isArriving = false;
    this.#request?.close();
    this.#request = undefined;
    for (const transfer of this.#unread) transfer.close();
    this.#unread.clear();
    for (const unpacking of this.#unpackings) unpacking.close();
    this.#unpackings.clear();
  }
}
