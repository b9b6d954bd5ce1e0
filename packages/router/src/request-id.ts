// The id of a request, by which a client's line, a proxy's and this router's access log are found
// together: the client's own `X-Request-Id`, or one that is made here.

/** What is taken from a client: visible ASCII, so that it can neither break a header nor a log line. */
const CLIENT_ID = /^[\x21-\x7e]{1,128}$/;
const PREFIX_DIGITS = 8;
const RADIX = 36;

/** Gives each request of this process an id; ids of two processes differ by their random prefix. */
export class RequestIds {
  readonly #prefix: string;
  #count = 0;

  /** `random`: from 0 to 1. */
  constructor(random: () => number) {
    const digits = Array.from({ length: PREFIX_DIGITS }, () =>
      Math.floor(random() * RADIX).toString(RADIX),
    );
    this.#prefix = digits.join("");
  }

  /** The id in this header if it is one, else a new one. */
  idOf(header: string | readonly string[] | undefined): string {
    if (typeof header === "string" && CLIENT_ID.test(header)) return header;
    this.#count += 1;
    return `${this.#prefix}-${this.#count.toString(RADIX)}`;
  }
}
