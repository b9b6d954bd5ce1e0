// The id of a request, which appears in the logs of the client, of proxies and of this router: the client's
// own `X-Request-Id`, or one that is made here.

import { withoutKeys } from "@winnow/cluster";

/** Ids that are taken over from a client: visible ASCII, which can break neither a header nor a line of a log. */
const CLIENT_ID = /^[\x21-\x7e]{1,128}$/;
const PREFIX_DIGITS = 8;
const RADIX = 36;

/** Whether an id can be taken over. A key that a client sends as an id must not be logged as one. */
function isClientId(header: string): boolean {
  return CLIENT_ID.test(header) && withoutKeys(header) === header;
}

/** Makes ids for the requests of this process. The ids of two processes differ by a random prefix. */
export class RequestIds {
  readonly #prefix: string;
  #count = 0;

  /** `random` gives a number from 0 to 1. */
  constructor(random: () => number) {
    const digits = Array.from({ length: PREFIX_DIGITS }, () =>
      Math.floor(random() * RADIX).toString(RADIX),
    );
    this.#prefix = digits.join("");
  }

  /** The id in this header if it has one, otherwise a new id. */
  idOf(header: string | readonly string[] | undefined): string {
    if (typeof header === "string" && isClientId(header)) return header;
    this.#count += 1;
    return `${this.#prefix}-${this.#count.toString(RADIX)}`;
  }
}
