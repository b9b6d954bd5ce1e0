// An operator's order to one worker to drain and exit, as on SIGTERM. It names the incarnation that is meant,
// so a copy that is sent again later ends no other process.
//
//   {"format":1,"cluster":"default","worker":"w0","incarnation":42}     signed as in `trust/cluster-secret.ts`

import { type Incarnation, WinnowError, type WorkerId } from "@winnow/core";
import type { ClusterSecret } from "../trust/cluster-secret.ts";

/** The process that is to drain. */
export interface DrainTarget {
  readonly workerId: WorkerId;
  readonly incarnation: Incarnation;
}

/** An order to drain, as a worker has read it. */
export interface ReadDrain extends DrainTarget {
  /** Whether a secret of this cluster signed it; `false` in a cluster without one. */
  readonly isProven: boolean;
}

/** The secret that signs and checks orders, and the cluster that they are for. */
export interface DrainTrust {
  readonly cluster: string;
  readonly secret: ClusterSecret;
}

const FORMAT = 1;
const CHARACTERS_MAX = 4096;

/** The text to send to the worker. */
export function signDrain({ workerId, incarnation }: DrainTarget, trust: DrainTrust): string {
  const { cluster, secret } = trust;
  const order = { format: FORMAT, cluster, worker: workerId, incarnation };
  return secret.sign("order to drain", JSON.stringify(order));
}

/**
 * Reads an order from any source.
 * @throws WinnowError UNAUTHENTICATED for a missing or wrong signature, INVALID_ARGUMENT for a malformed
 * order, PERMISSION_DENIED for an order of another cluster
 */
export function readDrain(signed: string, { cluster, secret }: DrainTrust): ReadDrain {
  if (signed.length > CHARACTERS_MAX) throw malformed(`has more than ${CHARACTERS_MAX} characters`);
  const order = parsed(secret.verify("order to drain", signed));
  const { format, worker, incarnation } = order;
  if (format !== FORMAT) throw malformed("is of another format");
  if (order["cluster"] !== cluster) {
    throw new WinnowError("PERMISSION_DENIED", "An order to drain of another cluster");
  }
  if (typeof worker !== "string" || !Number.isSafeInteger(incarnation)) {
    throw malformed("names no worker and incarnation");
  }
  return {
    workerId: worker as WorkerId,
    incarnation: incarnation as Incarnation,
    isProven: secret.hasSigned(signed),
  };
}

function parsed(text: string): Readonly<Record<string, unknown>> {
  try {
    const value: unknown = JSON.parse(text);
    if (typeof value === "object" && value !== null) return value as Record<string, unknown>;
  } catch {
    // The error for a malformed order follows.
  }
  throw malformed("is no JSON object");
}

const malformed = (why: string): WinnowError =>
  new WinnowError("INVALID_ARGUMENT", `An order to drain that ${why}`);
