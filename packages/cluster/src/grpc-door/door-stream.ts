// One stream of a gRPC server below grpc-js: the bytes of its request as they come, those of its answer
// until they have left, and its end, if that is not left to grpc-js.

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
  /** Milliseconds a stream that was closed has to be gone; then its connection is cut. */
  readonly cutMs: number;
  readonly onGivenUp: (what: "body" | "answer", reason: GiveUpReason) => void;
}

type Call = Parameters<ServerInterceptor>[1];

/** The inside of a call of grpc-js 1.14: how it unpacks a message, of which it has prefix and content. */
interface UnpackingCall extends Call {
  decompressMessage(message: Buffer, encoding: string): Buffer | Promise<Buffer>;
}

type Written = (error?: Error | null) => void;
type Write = (chunk: Buffer, written: Written) => boolean;

/** What a piece of a request takes beside its bytes: a trickle of single ones is mostly this. */
const PIECE_OVERHEAD_BYTES = 256;
const PREFIX_BYTES = 5;

/** One stream; it is over when it closes. */
export class DoorStream {
  readonly #stream: ServerHttp2Stream;
  readonly #socket: Socket;
  readonly #parts: DoorStreamParts;
  readonly #meter = new MessageMeter();
  readonly #write: Write;
  #keeps: "request" | "nothing" = "request";
  #call: Call | undefined;
  /** Holds what has come, and is looked at while more must. */
  #request: Transfer | undefined;
  #isArriving = true;
  readonly #unread = new Set<Transfer>();
  readonly #unpackings = new Set<Unpacking>();

  /** `socket`: of its connection. */
  constructor(stream: ServerHttp2Stream, socket: Socket, parts: DoorStreamParts) {
    this.#stream = stream;
    this.#socket = socket;
    this.#parts = parts;
    this.#write = stream.write.bind(stream) as Write;
    stream.on("error", () => undefined); // Its close follows.
    stream.once("close", () => this.#release());
    this.#openRequest();
  }

  /** Looks in a row between which an unfinished request did not move; 0 where nothing is waited for. */
  get stillLooks(): number {
    return this.#isArriving ? (this.#request?.stillLooks ?? 0) : 0;
  }

  /** Is told when the stream has closed. */
  onOver(listener: () => void): void {
    if (this.#stream.destroyed) listener();
    else this.#stream.once("close", listener);
  }

  /** Takes over what grpc-js does without bounds: unpacking messages, and writing them. */
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

  /** Follows the bytes of the request, which grpc-js listens to as well. */
  follow(keeps: "request" | "nothing"): void {
    this.#keeps = keeps;
    const stream = this.#stream;
    if (stream.destroyed || stream.closed) return;
    stream.on("data", (chunk: Buffer) => this.#receive(chunk));
    stream.once("end", () => this.#rest());
    stream.once("finish", () => this.#answered());
    if (stream.writableFinished) this.#answered();
  }

  /** Answers with a status, unless something has been answered: then the stream is cut. */
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
    this.#cut(constants.NGHTTP2_NO_ERROR);
  }

  /** The request is waited for no longer. */
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
      // Of messages that follow each other only one that is not whole is held, and waited for.
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

  /** Writes a message as its client reads it, and holds it until then. */
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
    if (message.length <= PIECE_BYTES) return this.#write(message, finish);
    this.#writePieces(message, transfer, finish);
    return false;
  }

  #writePieces(message: Buffer, transfer: Transfer, finish: Written): void {
    let at = 0;
    const next: Written = (error) => {
      if (error !== undefined && error !== null) return finish(error);
      if (at > 0) transfer.moved(PIECE_BYTES);
      if (at >= message.length) return finish();
      // A status has come between: the rest of the message does not matter.
      if (this.#stream.writableEnded) return;
      const piece = message.subarray(at, at + PIECE_BYTES);
      at += piece.length;
      this.#write(piece, next);
    };
    next();
  }

  /**
   * The answer is out, but for its last frame. A client that goes on sending would be read for ever; one
   * that is told so at once would miss the trailers. And a stream that does not close is on a connection
   * that takes nothing: its client does not read, or Node keeps it after an error of protocol, for ever.
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

  /** Closes the stream; where its client does not even read that, the connection. */
  #cut(code: number): void {
    const stream = this.#stream;
    const { session } = stream;
    if (session === undefined || session.destroyed) return;
    const { clock, cutMs } = this.#parts;
    const writtenBefore = session.socket.bytesWritten;
    stream.close(code);
    // What nobody reads any more would keep the stream from its end.
    stream.resume();
    // Something to be written, whatever has become of the stream by now.
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
