// Whose requests are answered: by the certificate of the connection, by the key of the request. Probes come
// from whoever runs the process, with neither.

import type { IncomingMessage } from "node:http";
import { assertCertified } from "@winnow/cluster";
import type { Admitted, KeyGuard, KeyRole, TlsSource } from "@winnow/cluster";
import type { PageFiles } from "../http-observer.ts";
import type { Route } from "../request-path.ts";
import { isConsolePath } from "../documents/console-page.ts";

/** What decides on the access of a request; each part is optional. */
export interface AccessParts {
  readonly tls?: TlsSource | undefined;
  readonly keys?: KeyGuard | undefined;
  readonly metricsPath: string;
  readonly pages?: PageFiles | undefined;
}

const PROBES: ReadonlySet<string> = new Set(["/healthz", "/livez", "/readyz"]);

/** The roles of which one is enough; for all other requests any key is. */
const ROLES: Partial<Readonly<Record<Route["kind"], readonly KeyRole[]>>> = {
  predict: ["predict"],
  examples: ["predict"],
  infer: ["predict"],
  "v2-model": ["predict", "status"],
  metadata: ["predict", "status"],
  status: ["status"],
  list: ["status"],
  cluster: ["status"],
};

/**
 * Lets a request in; what it gives must be released when the request has been answered.
 * @throws WinnowError UNAUTHENTICATED, PERMISSION_DENIED; TooManyRequests
 */
export function admitRequest(
  parts: AccessParts,
  route: Route,
  request: IncomingMessage,
): Admitted | undefined {
  const { tls, keys, metricsPath } = parts;
  const path = route.kind === "outside" ? route.path : undefined;
  if (isProbe(route)) return undefined;
  assertCertified(tls, request.socket);
  // Browsers send no key with the question whether they may.
  if (keys === undefined || route.kind === "preflight") return undefined;
  if (isConsole(path, request, parts.pages)) return undefined;
  return keys.admit(authorizationOf(request), rolesFor(route, metricsPath));
}

function isProbe(route: Route): boolean {
  if (route.kind === "v2-server") return route.asked !== "metadata";
  return route.kind === "outside" && PROBES.has(route.path);
}

function rolesFor(route: Route, metricsPath: string): readonly KeyRole[] {
  const isMetrics = route.kind === "outside" && route.path.split("?", 1)[0] === metricsPath;
  return isMetrics ? ["status"] : (ROLES[route.kind] ?? []);
}

/** The console's files tell nothing: whoever reads them has yet to give a key. */
function isConsole(
  path: string | undefined,
  { method }: IncomingMessage,
  pages: PageFiles | undefined,
): boolean {
  const isRead = method === "GET" || method === "HEAD";
  return path !== undefined && isRead && isConsolePath(path, pages);
}

/** The header, or as many as came: Node would tell the first alone. */
function authorizationOf({ headers, rawHeaders }: IncomingMessage): string | string[] | undefined {
  const { authorization } = headers;
  if (authorization === undefined) return undefined;
  let count = 0;
  for (let at = 0; at < rawHeaders.length; at += 2) {
    if (/^authorization$/i.test(rawHeaders[at]!)) count += 1;
  }
  return count === 1 ? authorization : Array.from({ length: count }, () => authorization);
}
