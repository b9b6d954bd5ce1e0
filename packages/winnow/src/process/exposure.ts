// What a process that listens beyond its own machine leaves open. Without `--require-security` it says so
// once; with it, it does not start.

import { isLoopback, parseMembers } from "@winnow/cluster";
import { type Logger, WinnowError } from "@winnow/core";

/** What protects a process. */
export interface Protection {
  readonly host: string;
  /** What listens there: a router's ports for clients, or a worker's for routers. */
  readonly role: "router" | "worker";
  /** TLS for clients (of a worker: for who reads its metrics), and certificates or keys that they must show. */
  readonly hasTls: boolean;
  readonly knowsClients: boolean;
  readonly hasClusterTls: boolean;
  /** A fixed list of members, `id@host:port,…`. */
  readonly members?: string | undefined;
  readonly redis: string | undefined;
  /** Redis that tells what users have seen, where it is another one. */
  readonly seenRedis?: string | undefined;
}

/** Whether a router can be read on its own machine alone, or knows who reads: the console is for these. */
export function isShownToFew({
  host,
  knowsClients,
}: Pick<Protection, "host" | "knowsClients">): boolean {
  return knowsClients || isLoopback(host);
}

/** Whether a router meets its workers on its own machine alone. */
function areLocal(members: string | undefined): boolean {
  if (members === undefined || members === "") return false;
  return parseMembers(members).every(({ address }) =>
    isLoopback(address.slice(0, address.lastIndexOf(":"))),
  );
}

/** What would protect whom the process answers, beside members of the cluster. */
const MENDED_BY = {
  router: [
    "TLS for clients (--tls-cert, --tls-key)",
    "who may ask (--api-keys or --tls-client-ca)",
  ],
  worker: [
    "TLS for metrics (--tls-cert, --tls-key; or --metrics-port 0)",
    "who may read metrics (--api-keys or --tls-client-ca)",
  ],
} as const;

/**
 * What is missing, as the flags that would mend it; nothing for a process that listens on loopback.
 *
 * @internal tests call it
 */
export function missingProtection(protection: Protection): string[] {
  const { host, role, hasTls, knowsClients, members, redis, seenRedis } = protection;
  if (isLoopback(host)) return [];
  const [ofTls, ofClients] = MENDED_BY[role];
  return [
    ...(hasTls ? [] : [ofTls]),
    ...(knowsClients ? [] : [ofClients]),
    ...(protection.hasClusterTls || areLocal(members)
      ? []
      : ["TLS between routers and workers (--cluster-tls-…)"]),
    ...([redis, seenRedis].some(isPlainRedis) ? ["TLS to Redis (rediss://)"] : []),
  ];
}

function isPlainRedis(url: string | undefined): boolean {
  if (url === undefined || !URL.canParse(url)) return false;
  const { protocol, hostname } = new URL(url);
  return protocol !== "rediss:" && !isLoopback(hostname);
}

/** Says what is missing. @throws WinnowError FAILED_PRECONDITION where nothing may be */
export function checkProtection(protection: Protection, isRequired: boolean, log: Logger): void {
  const missing = missingProtection(protection);
  if (missing.length === 0) return;
  const { host } = protection;
  if (!isRequired) {
    log.warn("others on the network can reach this process, which is not protected", {
      host,
      missing,
    });
    return;
  }
  const text = `--require-security: on --host ${host} there is missing: ${missing.join("; ")}`;
  throw new WinnowError("FAILED_PRECONDITION", text);
}
