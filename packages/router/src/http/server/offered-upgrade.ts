// A client may offer another protocol with a request (`Upgrade: h2c`, as Java's HTTP client does with every request). The
// router takes none up, which leaves the connection as it is. But Node's parser stops behind such a request, and what
// came with the same read is lost: a request that was sent behind it is never answered, and whoever counts answers takes
// the next one for its own. Where bytes were lost, the connection therefore ends with the answer to that request, so that
// its client knows that the rest was not read.
//
//   read: │ request with an offer │ next request │ ──▶ Node parses the first and drops the rest ──▶ answer, close
//   read: │ request with an offer │               ──▶ nothing is lost ──▶ answer, and the connection stays open

import type { IncomingMessage, ServerResponse } from "node:http";
import type { Socket } from "node:net";

type Parsed = (parsedBytes: number | Error) => void;

/** The part of Node's parser that is used, which is no interface of Node: the tests fail if it changes. */
interface Parser {
  readonly constructor: { readonly kOnExecute: number };
  /** What is being parsed. */
  getCurrentBuffer(): Buffer;
  [event: number]: Parsed | undefined;
}

/** Whether a request offers another protocol. */
export function offersUpgrade({ headers }: IncomingMessage): boolean {
  return headers.upgrade !== undefined;
}

/**
 * Ends the connection with the answer to a request that offers another protocol, if Node loses what came behind it. To
 * be called while the request is being parsed.
 */
export function closeIfBytesAreLost(request: IncomingMessage, response: ServerResponse): void {
  const { parser } = request.socket as Socket & { readonly parser?: Parser | null };
  const event = parser?.constructor.kOnExecute;
  const goOn = event === undefined ? undefined : parser?.[event];
  if (!parser || event === undefined || goOn === undefined) return closeWith(response);
  parser[event] = (parsedBytes) => {
    const isLost =
      typeof parsedBytes === "number" && parsedBytes < parser.getCurrentBuffer().length;
    if (isLost) closeWith(response);
    // Its body may come with later reads.
    if (request.complete) parser[event] = goOn;
    goOn(parsedBytes);
  };
}

/** Has the connection end with a response, which says so unless its head was sent already. */
export function closeWith(response: ServerResponse): void {
  if (!response.headersSent) response.shouldKeepAlive = false;
  else if (response.writableFinished) response.req.socket.destroySoon();
  else response.once("finish", () => response.req.socket.destroySoon());
}
