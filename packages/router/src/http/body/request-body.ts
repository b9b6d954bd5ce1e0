// The bytes of a request's body, from the socket to its parser. Bytes that have arrived count against the
// memory of all bodies (`core/src/limits/transfers.ts`), compressed or not, until the handler closes the
// body. Reading ends when the body is complete, when the client leaves, when the request's deadline passes,
// or when the body is too long, too slow, or others need its memory; each of these ends frees its memory.
//
//   head ─▶ packed otherwise: 415; announced too long: 413; no memory: 503  ─▶ chunks ─▶ [gunzip] ─▶ body
//
// A body is compressed if Content-Encoding contains "gzip"; a body that cannot be unpacked counts as empty,
// as in TensorFlow Serving. Other codings that HTTP knows are refused; words that are none of them say nothing.
// Unpacking runs on Node's thread pool, no faster than memory is granted.

import type { IncomingMessage, ServerResponse } from "node:http";
import { createGunzip } from "node:zlib";
import type { Gunzip } from "node:zlib";
import { WinnowError, nextLoopTurn } from "@winnow/core";
import type { GiveUpReason, Signal, Transfers } from "@winnow/core";
import { RefusedBody } from "../http-answer.ts";

/** Requests whose clients wait for 100 Continue before they send the body. */
export const leaveWanted: WeakMap<IncomingMessage, ServerResponse> = new WeakMap();

/** Codings that HTTP knows and routers cannot unpack. */
const UNREAD_CODINGS: ReadonlySet<string> = new Set(
  "br deflate zstd compress x-compress dcb dcz exi aes128gcm pack200-gzip".split(" "),
);
const CLIENT_LEFT = "The client closed the connection";
/** Memory of an unpacker beside its output: its window and its buffers. */
const UNPACKER_BYTES = 64 * 1024;
/** Shorter pieces of a body are copied together. */
const OWN_PIECE_BYTES = 16 * 1024;
const BLOCK_BYTES_MIN = 4 * 1024;
const BLOCK_BYTES_MAX = 64 * 1024;
/** Bytes that are copied before other work may run. */
const SLICE_BYTES = 1024 * 1024;

/** A body that has arrived completely. */
export interface RequestBody {
  /** Length of the body. */
  readonly bytes: number;
  /** The bytes in order; the caller owns them from then on. Empty at a second call. */
  take(): Buffer[];
  /** Accounts for this many bytes from now on. `false`, without any change, if there is no memory for more. */
  hold(bytes: number): boolean;
  /** Frees the memory of the body; to be called once it is not needed any more. Idempotent. */
  close(): void;
}

/** Takes a body as one buffer. */
export function bytesOf(body: RequestBody): Buffer {
  const chunks = body.take();
  return chunks.length === 1 ? chunks[0]! : Buffer.concat(chunks);
}

/** Takes a large body as one buffer with its own memory, copied in slices between which other work may run. */
export async function gatherBytes(body: RequestBody): Promise<Uint8Array<ArrayBuffer>> {
  const bytes = new Uint8Array(body.bytes);
  const chunks = body.take().toReversed();
  let at = 0;
  let pausedAt = 0;
  // Each chunk is dropped as soon as it is copied, so that a body does not take twice its memory.
  for (let chunk = chunks.pop(); chunk !== undefined; chunk = chunks.pop()) {
    bytes.set(chunk, at);
    at += chunk.length;
    if (at - pausedAt < SLICE_BYTES) continue;
    pausedAt = at;
    await nextLoopTurn();
  }
  return bytes;
}

/** What reading a body needs, and its limits. */
export interface BodyReading {
  readonly bodies: Transfers;
  /** Bytes of one body, unpacked. */
  readonly bodyBytesMax: number;
  /** Aborted with the request. */
  readonly signal: Signal;
  /** Called when a body was given up because it was slow or memory was short. */
  readonly onGivenUp: (reason: GiveUpReason) => void;
}

/**
 * Reads a body whole.
 * @throws RefusedBody 415 packed otherwise than by gzip, 413 too long, 408 too slow; WinnowError UNAVAILABLE without memory for it, CANCELLED
 * when the client went away; the reason of the request's end
 */
export function readBody(request: IncomingMessage, reading: BodyReading): Promise<RequestBody> {
  return new Promise((resolve, reject) => {
    const unread = unreadCodingOf(request);
    if (unread !== undefined) throw cannotUnpack(unread);
    const announced = Number(request.headers["content-length"] ?? 0);
    if (announced > reading.bodyBytesMax) throw tooLong(reading.bodyBytesMax);
    if (!reading.bodies.hasRoom(announced)) throw noMemory(reading);
    leaveWanted.get(request)?.writeContinue();
    collect(request, reading, { resolve, reject });
  });
}

/**
 * The pieces of a body. Every piece is an object, and may be a view of a much larger read: a client that
 * sends chunks of one byte would cost hundreds of bytes for each. Therefore short pieces are copied together.
 */
class Pieces {
  /** Length of all pieces. */
  bytes = 0;
  #pieces: Buffer[] = [];
  #block: Buffer | undefined;
  /** Bytes of the block that are in use. */
  #used = 0;

  add(piece: Buffer): void {
    this.bytes += piece.length;
    const isFirst = this.#pieces.length === 0 && this.#block === undefined;
    const isWorthIt =
      piece.length >= OWN_PIECE_BYTES && 2 * piece.length >= piece.buffer.byteLength;
    if (!isFirst && !isWorthIt) return this.#copy(piece);
    this.#seal();
    // Most bodies are one piece, which is copied only if it is a view of much more memory.
    const isCheap = 2 * piece.length >= Math.min(piece.buffer.byteLength, BLOCK_BYTES_MIN);
    this.#pieces.push(isCheap ? piece : Buffer.from(piece));
  }

  /** Takes all pieces, in order. */
  take(): Buffer[] {
    this.#seal();
    const pieces = this.#pieces;
    this.#pieces = [];
    this.bytes = 0;
    return pieces;
  }

  #copy(piece: Buffer): void {
    for (let from = 0; from < piece.length;) {
      if (this.#block === undefined || this.#used === this.#block.length) {
        const last = this.#block?.length ?? 0;
        this.#seal();
        const bytes = Math.min(BLOCK_BYTES_MAX, Math.max(BLOCK_BYTES_MIN, 2 * last));
        this.#block = Buffer.allocUnsafeSlow(bytes);
      }
      const copied = piece.copy(this.#block, this.#used, from);
      this.#used += copied;
      from += copied;
    }
  }

  #seal(): void {
    if (this.#block !== undefined) this.#pieces.push(this.#block.subarray(0, this.#used));
    this.#block = undefined;
    this.#used = 0;
  }
}

interface Outcome {
  readonly resolve: (body: RequestBody) => void;
  readonly reject: (error: unknown) => void;
}

/** Collects chunks until the first of the possible ends of a body. */
function collect(request: IncomingMessage, reading: BodyReading, outcome: Outcome): void {
  const { bodies, bodyBytesMax, signal } = reading;
  const isPacked = request.headers["content-encoding"]?.includes("gzip") === true;
  const unpacker = isPacked ? createGunzip() : undefined;
  const pieces = new Pieces();
  let isOver = false;
  const transfer = bodies.open((reason) => fail(gaveUp(reading, reason)));
  const receive = (chunk: Buffer): void => {
    transfer.moved(chunk.length);
    if (unpacker === undefined) keep(chunk);
  };
  const keep = (chunk: Buffer): void => {
    if (pieces.bytes + chunk.length > bodyBytesMax) fail(tooLong(bodyBytesMax));
    else if (transfer.take(chunk.length)) pieces.add(chunk);
    else fail(noMemory(reading));
  };
  const finish = (): void => {
    stop();
    transfer.rest();
    outcome.resolve({
      bytes: pieces.bytes,
      take: () => pieces.take(),
      hold: (bytes) => transfer.hold(bytes),
      close: () => transfer.close(),
    });
  };
  const fail = (error: unknown): void => {
    if (isOver) return;
    stop();
    pieces.take();
    transfer.close();
    outcome.reject(error);
  };
  const lose = (): void => {
    // A body that has arrived completely may still be in the unpacker.
    if (!request.readableEnded) fail(new WinnowError("CANCELLED", CLIENT_LEFT));
  };
  const end = (): void => fail(signal.reason);
  /** Stops listening; further bytes are read and dropped. */
  const stop = (): void => {
    isOver = true;
    signal.removeEventListener("abort", end);
    request.off("data", receive).off("end", finish).off("error", lose).off("close", lose);
    if (unpacker !== undefined) {
      request.unpipe(unpacker);
      unpacker
        .removeAllListeners("data")
        .on("error", () => undefined)
        .destroy();
    }
    request.resume();
  };
  request.on("data", receive).once("error", lose).once("close", lose);
  if (unpacker === undefined) request.once("end", finish);
  else if (!transfer.take(UNPACKER_BYTES)) return fail(noMemory(reading));
  else unpack(request, unpacker, { keep, finish: () => void (isOver || finish()), pieces });
  if (signal.aborted) end();
  else signal.addEventListener("abort", end, { once: true });
}

/** Counts the unpacker's output as the body's bytes. Nothing is kept of a body that cannot be unpacked. */
function unpack(
  request: IncomingMessage,
  unpacker: Gunzip,
  to: { keep(chunk: Buffer): void; finish(): void; readonly pieces: Pieces },
): void {
  unpacker.on("data", (chunk: Buffer) => to.keep(chunk));
  unpacker.once("end", () => to.finish());
  unpacker.once("error", () => {
    to.pieces.take();
    to.finish();
  });
  request.pipe(unpacker);
}

function gaveUp(reading: BodyReading, reason: GiveUpReason): unknown {
  if (reason === "memory") return noMemory(reading);
  reading.onGivenUp(reason);
  return new RefusedBody(408, "The body of the request did not arrive in time");
}

/** The coding of a body that cannot be unpacked; `undefined`: there is none. */
function unreadCodingOf({ headers }: IncomingMessage): string | undefined {
  const codings = headers["content-encoding"]?.toLowerCase().split(",") ?? [];
  return codings.map((coding) => coding.trim()).find((coding) => UNREAD_CODINGS.has(coding));
}

function cannotUnpack(coding: string): RefusedBody {
  const text = `A body with Content-Encoding ${coding} cannot be unpacked; send it plain, or packed with gzip`;
  return new RefusedBody(415, text, { "accept-encoding": "gzip" });
}

function tooLong(bytesMax: number): RefusedBody {
  return new RefusedBody(413, `The body is longer than ${bytesMax} bytes; send less at once`);
}

function noMemory({ bodies, onGivenUp }: BodyReading): WinnowError {
  onGivenUp("memory");
  return new WinnowError(
    "UNAVAILABLE",
    `The bodies of all requests may hold ${bodies.bytesMax} bytes together; try again`,
  );
}
