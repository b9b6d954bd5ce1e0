// How much one reply of Redis may make this process hold. The client's decoder has no bounds: it keeps a reply until it
// is complete, however long that takes, and makes the list that `*30000000` opens at once, with 240 MB for ten bytes. So
// whatever listens at the address of Redis could end every process that connects to it. The bytes are therefore read
// here before the decoder gets them, by the same framing, and a reply that is too large is refused at the line that says
// so. Framing that the decoder might read in another way is refused too: both must agree on where a reply ends.
//
//   + text CRLF    - error CRLF    : integer CRLF    $ bytes CRLF … CRLF    * elements CRLF …
//
// https://redis.io/docs/latest/develop/reference/protocol-spec/ (RESP2, the version that connections speak here)

import type { Redis } from "ioredis";

/** Bytes of a reply: the longest is a reading of known records, 64 MiB with their framing. */
const BYTES_MAX = 72 * 2 ** 20;
/** Elements of all lists of a reply: the longest is a list of seen items, one more than may be under way. */
const ELEMENTS_MAX = 2 ** 20 + 1;
/** Lists in lists; scripts and transactions give two. */
const DEPTH_MAX = 8;
/** An error is an object with a stack, which is as large as this many elements. */
const ELEMENTS_OF_ERROR = 256;
/** Characters of a number, with its sign. */
const NUMBER_CHARACTERS_MAX = 20;

const CR = 13;
const LF = 10;
const [STATUS, ERROR, INTEGER, BULK, LIST] = [43, 45, 58, 36, 42];

/** A reply that is too large, or none of Redis; the message is what a server did, without its name. */
export class RefusedReply extends Error {
  override readonly name = "RefusedReply";
  readonly reason: "excess" | "malformed";

  constructor(reason: "excess" | "malformed", message: string) {
    super(message);
    this.reason = reason;
  }
}

/** Ends each connection of the client, which speaks RESP2, when a reply on it is refused; its `error` is the refusal. */
export function boundReplies(redis: Redis): void {
  // By then the client has put its decoder on the stream, and nothing has arrived.
  redis.on("connect", () => {
    const { stream } = redis;
    const bounds = new ReplyBounds();
    const decoders = stream.listeners("data");
    stream.removeAllListeners("data");
    stream.on("data", (chunk: Uint8Array) => {
      try {
        bounds.take(chunk);
      } catch (error) {
        stream.destroy(error as RefusedReply);
        return;
      }
      for (const decode of decoders) decode.call(stream, chunk);
    });
  });
}

/** Follows the replies of one connection. @internal Only tests use it by itself. */
export class ReplyBounds {
  /** Bytes and elements of the reply that is arriving. */
  #bytes = 0;
  #elements = 0;
  /** Elements still to come, of each open list, the innermost last. */
  readonly #open: number[] = [];
  /** Bytes still to come of a text whose length was announced, with the end of its line. */
  #textBytes = 0;
  /** The first byte of the line that is arriving; `undefined` between lines. */
  #type: number | undefined;
  #number = "";
  #isAfterCr = false;

  /**
   * Reads the bytes that come next.
   * @throws RefusedReply
   */
  take(chunk: Uint8Array): void {
    let at = 0;
    while (at < chunk.length) {
      const from = at;
      if (this.#textBytes > 0) at = this.#passText(chunk, at);
      else if (this.#type === undefined) this.#begin(chunk[at++]!);
      else at = this.#passLine(chunk, at, this.#type);
      this.#bytes += at - from;
      if (this.#bytes > BYTES_MAX) throw tooManyBytes();
      if (this.#type === undefined && this.#textBytes === 0) this.#endValue();
    }
  }

  #begin(type: number): void {
    if (![STATUS, ERROR, INTEGER, BULK, LIST].includes(type)) throw notRedis();
    this.#type = type;
    this.#number = "";
    if (type === ERROR) this.#count(ELEMENTS_OF_ERROR);
  }

  #passText(chunk: Uint8Array, at: number): number {
    const bytes = Math.min(this.#textBytes, chunk.length - at);
    this.#textBytes -= bytes;
    return at + bytes;
  }

  /** Passes bytes of a line, at most to its end, and gives the place behind them. */
  #passLine(chunk: Uint8Array, at: number, type: number): number {
    if (this.#isAfterCr) {
      if (chunk[at] !== LF) throw notRedis();
      this.#isAfterCr = false;
      this.#type = undefined;
      this.#endLine(type);
      return at + 1;
    }
    const found = chunk.indexOf(CR, at);
    const end = found === -1 ? chunk.length : found;
    if (type !== STATUS && type !== ERROR) this.#addDigits(chunk.subarray(at, end));
    this.#isAfterCr = found !== -1;
    return this.#isAfterCr ? end + 1 : end;
  }

  #addDigits(digits: Uint8Array): void {
    if (this.#number.length + digits.length > NUMBER_CHARACTERS_MAX) throw notRedis();
    this.#number += String.fromCharCode(...digits);
  }

  #endLine(type: number): void {
    if (type === STATUS || type === ERROR) return;
    if (!/^[+-]?\d+$/.test(this.#number)) throw notRedis();
    if (type === INTEGER || this.#number === "-1") return;
    if (!/^\d+$/.test(this.#number)) throw notRedis();
    const length = Number(this.#number);
    if (type === LIST) this.#openList(length);
    else if (length > BYTES_MAX) throw tooManyBytes();
    else this.#textBytes = length + 2;
  }

  #openList(elements: number): void {
    this.#count(elements);
    if (elements === 0) return;
    if (this.#open.length === DEPTH_MAX) throw notRedis();
    // The list is itself an element of the one around it, which `#endValue` counts once the list is complete.
    this.#open.push(elements + 1);
  }

  #count(elements: number): void {
    this.#elements += elements;
    if (this.#elements <= ELEMENTS_MAX) return;
    throw new RefusedReply("excess", `sent an answer of more than ${ELEMENTS_MAX} elements`);
  }

  /** A value is complete, or a list was opened. */
  #endValue(): void {
    const open = this.#open;
    for (let last = open.length - 1; last >= 0; last -= 1) {
      open[last]! -= 1;
      if (open[last]! > 0) return;
      open.pop();
    }
    this.#bytes = 0;
    this.#elements = 0;
  }
}

function tooManyBytes(): RefusedReply {
  return new RefusedReply("excess", `sent an answer of more than ${BYTES_MAX} bytes`);
}

function notRedis(): RefusedReply {
  return new RefusedReply("malformed", "does not answer as Redis does");
}
