// What a process that listens beyond its own machine leaves unprotected. Without `--require-security` this is
// logged once; with it, the process does not start.

import { isLoopback, parseMembers } from "@winnow/cluster";
import { type Logger, WinnowError, excerpt } from "@winnow/core";

/** The protection of a process. */
export interface Protection {
  readonly host: string;
  /** The ports that it listens on: a router's for clients, or a worker's for routers. */
  readonly role: "router" | "worker";
  /** TLS for clients (for a worker: for readers of its metrics), and certificates or keys that they must show. */
  readonly hasTls: boolean;
  readonly knowsClients: boolean;
  readonly hasClusterTls: boolean;
  /** A fixed list of members, `id@host:port,…`. */
  readonly members?: string | undefined;
  readonly redis: string | undefined;
  /** Redis with the items that users have seen, if it is another one. */
  readonly seenRedis?: string | undefined;
}

/**
 * Whether a router can only be reached from its own machine, or authenticates its clients: only then the
 * console is served.
 */
export function isShownToFew({
  host,
  knowsClients,
}: Pick<Protection, "host" | "knowsClients">): boolean {
  return knowsClients || isLoopback(host);
}

/**
 * The names by which a router may be asked over REST besides private ones: those of `--allowed-hosts`, and the
 * machine's own. `undefined`: by any. On loopback, where nothing else keeps out a web page whose name was pointed
 * there, no name is added by default; with TLS a browser finds that the certificate is not that name's.
 * @throws WinnowError INVALID_ARGUMENT for what is no list of names
 */
export function allowedHosts(
  { host, hasTls, knowsClients }: Pick<Protection, "host" | "hasTls" | "knowsClients">,
  list: string | undefined,
  own: string,
): ReadonlySet<string> | undefined {
  const isGuarded = hasTls || knowsClients || !isLoopback(host);
  if (list === undefined) {
    return isGuarded ? undefined : new Set([own.toLowerCase()]);
  }
  const names = list.split(",").map((name) => name.trim().toLowerCase());
  if (names.includes("*")) return undefined;
  const wrong = names.find((name) => !HOST_NAME.test(name));
  if (wrong === undefined) return new Set([...names, own.toLowerCase()]);
  const text = `--allowed-hosts takes names such as a.example.org, without scheme and port, not "${excerpt(wrong)}"`;
  throw new WinnowError("INVALID_ARGUMENT", text);
}

const HOST_NAME = /^[a-z0-9_-]+(?:\.[a-z0-9_-]+)*$/;

/** Whether a router reaches its workers on its own machine only. */
function areLocal(members: string | undefined): boolean {
  if (members === undefined || members === "") return false;
  return parseMembers(members).every(({ address }) =>
    isLoopback(address.slice(0, address.lastIndexOf(":"))),
  );
}

/** The flags that would protect a process from clients. */
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
 * The flags for the missing protection; empty for a process that listens on loopback.
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

/** Logs what is missing. @throws WinnowError FAILED_PRECONDITION if nothing may be missing */
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
