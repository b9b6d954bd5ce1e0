// Why a member cannot be reached. gRPC gives the words of the network, or of OpenSSL, behind its own; those of TLS are told
// with the setting that mends them.

import { excerpt } from "@winnow/core";
import type { WinnowError } from "@winnow/core";

/** What gRPC says before and behind the reason. */
const BEFORE = /^(?:No connection established\. Last error: )?(?:Error(?: \[\w+\])?: )?/;
const BEHIND = /[.:\s]*Resolution note:.*$/s;
/** What it says, with the time, of a connection that ended before it could be used. */
const ENDED = /^Failed to connect\b.*/s;
const TIME = / \(\d{4}-[\dT:.-]+Z\)$/;
/** OpenSSL's numbers and places around its words. */
const OF_OPENSSL = /^\w+:error:\w+:SSL routines:\w*:([^:]*):.*$/s;

const ENDED_TEXT = "the connection ended before it could be used";

const REMEDIES: readonly (readonly [RegExp, string])[] = [
  [
    /self-signed certificate|unable to verify|unable to get (?:local )?issuer/,
    "its certificate is of no authority in --cluster-tls-ca",
  ],
  [/certificate has expired/, "its --cluster-tls-cert, or its authority, is to be replaced"],
  [/certificate is not yet valid/, "are the clocks of both machines right?"],
  [
    /altnames/,
    "a member's certificate must have the DNS name of --cluster-tls-name, or, where no member is given one, the host of its address",
  ],
  [
    /before it could be used|disconnected before secure|ECONNRESET|EPIPE|\balert\b|wrong version number|packet length/,
    "if this lasts, have both sides certificates of the same authority (--cluster-tls-cert, --cluster-tls-key, --cluster-tls-ca), or none?",
  ],
];

/** Why a connection to a member failed. */
export function memberFault({ message, cause }: WinnowError): string {
  const { details } = (cause ?? {}) as { readonly details?: unknown };
  if (typeof details !== "string" || details === "") return message;
  const reason = details.replace(BEFORE, "").replace(BEHIND, "").replace(OF_OPENSSL, "$1");
  const words = reason.replace(ENDED, ENDED_TEXT).replace(TIME, "");
  const remedy = REMEDIES.find(([pattern]) => pattern.test(words))?.[1];
  return remedy === undefined ? excerpt(words) : `${excerpt(words)}; ${remedy}`;
}
