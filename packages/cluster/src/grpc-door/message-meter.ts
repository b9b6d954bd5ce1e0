// Finds where messages begin and end in the bytes of a gRPC stream: each is a flag (1 byte), a length (4
// bytes) and as many bytes of content. Only the position in the current message is kept.

/** Bytes of flag and length. */
const PREFIX_BYTES = 5;

/** Follows the bytes of one stream. */
export class MessageMeter {
  /** Bytes of the current message's prefix that have arrived. */
  #prefixBytes = 0;
  #length = 0;
  /** Bytes of the current message's content still to come. */
  #left = 0;

  /** Whether a message has begun that is not complete. */
  get isInside(): boolean {
    return this.#prefixBytes > 0;
  }

  /** Takes the next bytes of the stream; gives how many messages end in them. */
  read(chunk: Uint8Array): number {
    let ended = 0;
    let at = 0;
    while (at < chunk.length) {
      if (this.#prefixBytes < PREFIX_BYTES) {
        if (this.#prefixBytes > 0) this.#length = this.#length * 256 + chunk[at]!;
        this.#prefixBytes += 1;
        at += 1;
        if (this.#prefixBytes === PREFIX_BYTES) this.#left = this.#length;
      } else {
        const bytes = Math.min(this.#left, chunk.length - at);
        this.#left -= bytes;
        at += bytes;
      }
      if (this.#prefixBytes === PREFIX_BYTES && this.#left === 0) {
        ended += 1;
        this.#prefixBytes = 0;
        this.#length = 0;
      }
    }
    return ended;
  }
}
