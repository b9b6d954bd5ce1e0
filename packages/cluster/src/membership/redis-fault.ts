// What is told of a Redis that does not answer: the client's own words, which for TLS are those of OpenSSL, and the setting
// that mends it. Errors of the client may contain passwords in other fields than the message.

import { RefusedReply } from "./redis-reply-bounds.ts";

/** What the client says of a connection that ends before it can be used, and of answers that are none of Redis. */
const NO_ANSWER = /^Stream isn't writeable|Please report this/;
const ADDRESS_REMEDY =
  "is the port right, and is it redis:// or, with TLS, rediss://? Or does Redis take no further clients (maxclients, protected-mode)?";
const UNANSWERED = `what listens there ends the connection or does not answer as Redis does; ${ADDRESS_REMEDY}`;
const CERTIFICATE_REMEDY =
  "does Redis ask for a certificate (--redis-cert, --redis-key), and accept its authority and its dates?";
/** What the other side says of the certificate that it was shown, among OpenSSL's places and numbers. */
const ALERT = /^\w+:error:\w+:SSL routines:\w*:([^:]*\balert\b[^:]*):/;

const UNTRUSTED =
  "the certificate of Redis is of no trusted authority; --redis-ca names the file of those that are";

/** By the code of an error of TLS. */
const OF_TLS: Readonly<Record<string, string>> = {
  DEPTH_ZERO_SELF_SIGNED_CERT: UNTRUSTED,
  SELF_SIGNED_CERT_IN_CHAIN: UNTRUSTED,
  UNABLE_TO_GET_ISSUER_CERT: UNTRUSTED,
  UNABLE_TO_GET_ISSUER_CERT_LOCALLY: UNTRUSTED,
  UNABLE_TO_VERIFY_LEAF_SIGNATURE: UNTRUSTED,
  CERT_HAS_EXPIRED:
    "the certificate of Redis, or of its authority in --redis-ca, is to be replaced",
  CERT_NOT_YET_VALID: "is the clock of this machine right?",
  ERR_TLS_CERT_ALTNAME_INVALID:
    "the URL of Redis must have a host for which its certificate is issued",
};

/** How a connection ends that Redis could not verify, or that has no TLS where Redis expects it, or the other way round. */
const SILENT: ReadonlySet<string> = new Set(["ECONNRESET", "EPIPE", "ETIMEDOUT"]);

/** Whether a command failed because its connection is not open, such as one that is being opened anew. */
export function isUnconnected({ message }: Error): boolean {
  return /^(Stream isn't writeable|Connection is closed)/.test(message);
}

/** Why a connection to Redis failed or broke. `isSecure`: over TLS. */
export function redisFault(error: Error, isSecure: boolean): string {
  const { message, code = "" } = error as NodeJS.ErrnoException;
  if (error instanceof RefusedReply) return `what listens there ${message}; ${ADDRESS_REMEDY}`;
  if (NO_ANSWER.test(message)) return UNANSWERED;
  const remedy = OF_TLS[code];
  if (remedy !== undefined) return `${message.trim().replace(/:$/, "")}; ${remedy}`;
  const [, alert] = ALERT.exec(message) ?? [];
  if (alert !== undefined) return `${alert}; ${CERTIFICATE_REMEDY}`;
  if (!SILENT.has(code)) return message;
  const isAddress = !isSecure || code === "ETIMEDOUT";
  return `${message}; if this lasts, ${isAddress ? ADDRESS_REMEDY : CERTIFICATE_REMEDY}`;
}
