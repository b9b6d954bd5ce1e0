// Which requests are answered: those by a name of the server, with an accepted client certificate and an accepted key.
// Probes need none of these, because they come from the platform that runs the process.

import type { IncomingMessage } from "node:http";
import { assertCertified, authorizationOf } from "@winnow/cluster";
import type { Admitted, KeyGuard, KeyRole, TlsSource } from "@winnow/cluster";
import type { PageFiles } from "../http-observer.ts";
import type { Route } from "../request-path.ts";
import { assertCalledBy, assertOneHost } from "./request-host.ts";
import { isConsolePath } from "../documents/console-page.ts";

/** What access is decided by; each part is optional. */
export interface AccessParts {
  readonly tls?: TlsSource | undefined;
  readonly keys?: KeyGuard | undefined;
  readonly hosts?: ReadonlySet<string> | undefined;
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

const METRICS_ROLES: readonly KeyRole[] = ["status"];

/**
 * Lets a request in. The result must be released when the request has been answered.
 * @throws WinnowError UNAUTHENTICATED, PERMISSION_DENIED, INVALID_ARGUMENT; TooManyRequests; RefusedBody
 */
export function admitRequest(
  parts: AccessParts,
  route: Route,
  request: IncomingMessage,
): Admitted | undefined {
  const { tls, keys, hosts, metricsPath } = parts;
  assertOneHost(request);
  const path = route.kind === "outside" ? route.path : undefined;
  // Metrics may be configured to a path that would otherwise be a probe or the console.
  const isMetrics = path?.split("?", 1)[0] === metricsPath;
  if (!isMetrics && isProbe(route)) return undefined;
  if (hosts !== undefined) assertCalledBy(hosts, request);
  assertCertified(tls, request.socket);
  // Browsers send CORS preflight requests without a key.
  if (keys === undefined || route.kind === "preflight") return undefined;
  if (!isMetrics && isConsole(path, request, parts.pages)) return undefined;
  const roles = isMetrics ? METRICS_ROLES : (ROLES[route.kind] ?? []);
  return keys.admit(authorizationOf(request), roles);
}

function isProbe(route: Route): boolean {
  if (route.kind === "v2-server") return route.asked !== "metadata";
  return route.kind === "outside" && PROBES.has(route.path);
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
