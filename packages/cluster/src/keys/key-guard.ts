// Decides by its key whether a request is answered: whose key it is, whether its role allows the request, and
// whether its limits do. A request without a valid key costs a comparison and at most one hash; it is counted
// and not logged, so that nobody can fill the log. The use of a key survives the replacement of the file.

import type { IncomingMessage } from "node:http";
import { WinnowError } from "@winnow/core";
import type { Clock } from "@winnow/core";
import { findKey } from "./api-keys.ts";
import type { ApiKey, ApiKeys, KeyRole } from "./api-keys.ts";

/** How the guard decided on a request. */
export type KeyOutcome = "admitted" | "missing" | "unknown" | "role" | "rate" | "concurrency";

/** Called for every request at the guard; `key` is "" if the key is unknown. */
export type KeyObserver = (key: string, outcome: KeyOutcome) => void;

/** A request that was let in. */
export interface Admitted {
  /** The id of its key. */
  readonly key: string;
  /** Must be called once, when the request has been answered. */
  release(): void;
}

/** A request beyond the limits of its key; it says when to try again. */
export class TooManyRequests extends WinnowError {
  readonly retryAfterSeconds: number;

  constructor(message: string, retryAfterSeconds: number) {
    super("RESOURCE_EXHAUSTED", message);
    this.retryAfterSeconds = retryAfterSeconds;
  }
}

/** How much of its limits a key has used. */
interface Use {
  /** Requests that may be made at once. */
  tokens: number;
  refilledMs: number;
  open: number;
}

/** Lets requests in. */
export class KeyGuard {
  readonly #clock: Clock;
  readonly #observe: KeyObserver;
  #keys: ApiKeys;
  readonly #uses = new Map<string, Use>();

  constructor(keys: ApiKeys, clock: Clock, observe: KeyObserver = () => undefined) {
    this.#keys = keys;
    this.#clock = clock;
    this.#observe = observe;
  }

  /** Replaces the keys; requests that were let in go on. */
  replaceKeys(keys: ApiKeys): void {
    this.#keys = keys;
    for (const id of this.#uses.keys()) if (!keys.has(id)) this.#uses.delete(id);
  }

  /**
   * Lets in a request that presents its key as `Authorization: Bearer <key>`. One of the `roles` is needed;
   * without any, every key is accepted. `header` is an array if the request has it several times.
   * @throws WinnowError UNAUTHENTICATED, PERMISSION_DENIED; TooManyRequests
   */
  admit(header: string | readonly string[] | undefined, roles: readonly KeyRole[]): Admitted {
    const key = this.#keyOf(header);
    if (roles.length > 0 && !roles.some((role) => key.roles.has(role))) {
      this.#observe(key.id, "role");
      const text = `The key "${key.id}" may not do this: it needs the role ${roles.join(" or ")}`;
      throw new WinnowError("PERMISSION_DENIED", text);
    }
    const use = this.#useOf(key);
    this.#assertConcurrency(key, use);
    this.#takeToken(key, use);
    use.open += 1;
    this.#observe(key.id, "admitted");
    return { key: key.id, release: () => void (use.open -= 1) };
  }

  #keyOf(header: string | readonly string[] | undefined): ApiKey {
    if (header === undefined || header === "") throw this.#unauthenticated("missing", MISSING);
    if (typeof header !== "string") throw this.#unauthenticated("unknown", TWICE);
    const presented = header.slice(0, BEARER.length).toLowerCase() === BEARER;
    const key = presented ? findKey(this.#keys, header.slice(BEARER.length).trim()) : undefined;
    if (key === undefined) throw this.#unauthenticated("unknown", UNKNOWN);
    return key;
  }

  #unauthenticated(outcome: KeyOutcome, message: string): WinnowError {
    this.#observe("", outcome);
    return new WinnowError("UNAUTHENTICATED", message);
  }

  #useOf(key: ApiKey): Use {
    const known = this.#uses.get(key.id);
    if (known !== undefined) return known;
    const use = { tokens: key.ratePerSecond ?? 0, refilledMs: this.#clock.nowMs(), open: 0 };
    this.#uses.set(key.id, use);
    return use;
  }

  #assertConcurrency({ id, concurrencyMax = Infinity }: ApiKey, { open }: Use): void {
    if (open < concurrencyMax) return;
    this.#observe(id, "concurrency");
    const text = `The key "${id}" has ${concurrencyMax} requests under way, as many as it may; try again`;
    throw new TooManyRequests(text, 1);
  }

  /** A token bucket with room for the requests of one second. */
  #takeToken({ id, ratePerSecond: rate }: ApiKey, use: Use): void {
    if (rate === undefined) return;
    const nowMs = this.#clock.nowMs();
    // A clock that is set back refills nothing, and takes nothing away.
    const refill = (Math.max(0, nowMs - use.refilledMs) / 1000) * rate;
    use.tokens = Math.min(rate, use.tokens + refill);
    use.refilledMs = nowMs;
    if (use.tokens >= 1) {
      use.tokens -= 1;
      return;
    }
    this.#observe(id, "rate");
    const text = `The key "${id}" may ask ${rate} times a second; try again later`;
    throw new TooManyRequests(text, Math.max(1, Math.ceil((1 - use.tokens) / rate)));
  }
}

/** All `authorization` headers of a request: Node's `headers` has only the first. */
export function authorizationOf({
  headers,
  rawHeaders,
}: Pick<IncomingMessage, "headers" | "rawHeaders">): string | string[] | undefined {
  const { authorization } = headers;
  if (authorization === undefined) return undefined;
  let count = 0;
  for (let at = 0; at < rawHeaders.length; at += 2) {
    if (/^authorization$/i.test(rawHeaders[at]!)) count += 1;
  }
  return count === 1 ? authorization : Array.from({ length: count }, () => authorization);
}

const BEARER = "bearer ";
const MISSING = "A key is needed here: Authorization: Bearer <key>";
const UNKNOWN = "The key is not known here";
const TWICE = "The request has more than one Authorization header";
