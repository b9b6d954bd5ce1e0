// Which requests are answered: those with an accepted client certificate and an accepted key. Probes need
// neither, because they come from the platform that runs the process.

import type { IncomingMessage } from "node:http";
import { assertCertified } from "@winnow/cluster";
import type { Admitted, KeyGuard, KeyRole, TlsSource } from "@winnow/cluster";
import type { PageFiles } from "../http-observer.ts";
import type { Route } from "../request-path.ts";
import { isConsolePath } from "../documents/console-page.ts";

/** What access is decided by; each part is optional. */
export interface AccessParts {
  readonly tls?: TlsSource | undefined;
  readonly keys?: KeyGuard | undefined;
  readonly metricsPath: string;
  readonly pages?: PageFiles | undefined;
}

const PROBES: ReadonlySet<string> = new Set(["/healthz", "/livez", "/readyz"]);

/** The roles of which one is needed, by kind of request; for all others any key is accepted. */
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
 * Lets a request in. The result must be released when the request has been answered.
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
  // Browsers send CORS preflight requests without a key.
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

/** The console's files contain no state, and its reader can only enter a key once it has loaded. */
function isConsole(
  path: string | undefined,
  { method }: IncomingMessage,
  pages: PageFiles | undefined,
): boolean {
  const isRead = method === "GET" || method === "HEAD";
  return path !== undefined && isRead && isConsolePath(path, pages);
}

/** All `authorization` headers of the request: Node's `headers` has only the first. */
function authorizationOf({ headers, rawHeaders }: IncomingMessage): string | string[] | undefined {
  const { authorization } = headers;
  if (authorization === undefined) return undefined;
  let count = 0;
  for (let at = 0; at < rawHeaders.length; at += 2) {
    if (/^authorization$/i.test(rawHeaders[at]!)) count += 1;
  }
  return count === 1 ? authorization : Array.from({ length: count }, () => authorization);
}
