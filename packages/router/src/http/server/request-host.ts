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
