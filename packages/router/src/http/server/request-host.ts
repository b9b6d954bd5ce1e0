// By which names a server may be called. A web page whose name its owner points at this server's address (DNS rebinding)
// is, for a browser, of the same origin as the server: its requests need no CORS. What gives it away is the name: the
// browser sends it as `Host`, and no page can change that header. `Origin` and `Sec-Fetch-Site` say nothing here, because
// browsers send neither with a GET to the page's own origin over HTTP.
//
// So the names that are taken are those that nobody can register and point here: addresses, names without a dot,
// `localhost` and `internal` with what is below them, and the names that the operator gives.

import type { IncomingMessage } from "node:http";
import { isIP } from "node:net";
import { WinnowError, excerpt } from "@winnow/core";
import { RefusedBody } from "../http-answer.ts";

/** Headers of a request; of more, Node would leave those beyond out, whatever they say. */
export const HEADERS_MAX = 999;
/** Characters of names, addresses and ports (RFC 3986, 3.2.2). */
const HOST = /^[\w\-.~%!$&'()*+,;=:[\]]*$/;

/**
 * Holds a request to exactly one well-formed `Host` (RFC 9112, 3.2), so that whatever stands before the server and
 * the server itself cannot take it to be for two names. HTTP/1.0 has requests without one.
 * @throws WinnowError INVALID_ARGUMENT; RefusedBody 431 for more headers than are looked at
 */
export function assertOneHost({ rawHeaders, httpVersionMinor }: IncomingMessage): void {
  if (rawHeaders.length > 2 * HEADERS_MAX) {
    throw new RefusedBody(431, `The request has more than ${HEADERS_MAX} headers`);
  }
  let hosts = 0;
  for (let at = 0; at < rawHeaders.length; at += 2) {
    const name = rawHeaders[at]!;
    if (name.length !== 4 || name.toLowerCase() !== "host") continue;
    hosts += 1;
    const host = rawHeaders[at + 1]!;
    if (!HOST.test(host))
      throw invalid(
        `"${excerpt(host)}" is no Host: it must be a name or address, with :port or without`,
      );
  }
  if (hosts > 1) throw invalid(`The request has ${hosts} Host headers; send one`);
  if (hosts === 0 && httpVersionMinor > 0) {
    throw invalid(
      "The request has no Host header, which HTTP/1.1 needs; send one, which may be empty",
    );
  }
}

function invalid(text: string): WinnowError {
  return new WinnowError("INVALID_ARGUMENT", text);
}

/** Top-level domains that the public DNS never has (RFC 6761; ICANN reserved `internal` for private use). */
const PRIVATE_DOMAINS = [".localhost", ".internal"];

/** @throws WinnowError PERMISSION_DENIED for a request by a name that is neither private nor one of `names` */
export function assertCalledBy(
  names: ReadonlySet<string>,
  { headers: { host } }: IncomingMessage,
): void {
  // Every browser sends a name.
  if (host === undefined || host === "") return;
  const name = hostname(host);
  if (isPrivate(name) || names.has(name)) return;
  const text = `The router is not known by the name "${excerpt(name)}", which the request has as its Host`;
  const remedy = "start it with --allowed-hosts to name it so, or ask it by its address";
  throw new WinnowError("PERMISSION_DENIED", `${text}: ${remedy}`);
}

/** The name in a `Host` header, in lower case, without its port and the dot of the root. */
function hostname(host: string): string {
  const [, address, name = ""] = /^(?:\[([^\]]*)\]|([^:]*))(?::\d*)?$/.exec(host) ?? [];
  return (address ?? name).toLowerCase().replace(/\.$/, "");
}

function isPrivate(name: string): boolean {
  return (
    isIP(name) !== 0 ||
    (name !== "" && !name.includes(".")) ||
    PRIVATE_DOMAINS.some((domain) => name.endsWith(domain))
  );
}
