// Asks the router that this page came from. The key stays in this tab (`sessionStorage`) and is only sent in
// one header, to this origin; it is part of no URL and of nothing that is shown or copied.

import type { ClusterReport } from "@winnow/router";

/** The outcome of a question. */
export type Answer<Value> =
  | {
      readonly kind: "answered";
      readonly value: Value;
      readonly elapsedMs: number;
      /** The router's timeline of the request, if it was asked for. */
      readonly timeline: string | undefined;
    }
  /** The router needs a key, or another one. */
  | { readonly kind: "refused"; readonly message: string }
  | { readonly kind: "failed"; readonly status: number; readonly message: string }
  /** Nothing answers. */
  | { readonly kind: "silent"; readonly message: string };

/** What the client uses of the browser. */
export interface Browser {
  fetch(path: string, init: RequestInit): Promise<Response>;
  nowMs(): number;
  /** A signal that is aborted after this time. */
  timeout(ms: number): AbortSignal;
  readonly storage: Pick<Storage, "getItem" | "setItem" | "removeItem">;
}

const KEY_NAME = "winnow-key";
const TIMELINE = "x-winnow-timeline";
const WAIT_MS_MAX = 10_000;
const PREDICT_MS_MAX = 60_000;

/** Asks one router. */
export class RouterClient {
  readonly #browser: Browser;

  constructor(browser: Browser) {
    this.#browser = browser;
  }

  /** Whether it sends a key. */
  get hasKey(): boolean {
    return this.#key !== "";
  }

  /** Sets the key to send; "" for none. */
  setKey(key: string): void {
    if (key === "") this.#browser.storage.removeItem(KEY_NAME);
    else this.#browser.storage.setItem(KEY_NAME, key.trim());
  }

  report(): Promise<Answer<ClusterReport>> {
    return this.#ask<ClusterReport>("/v1/cluster", undefined, WAIT_MS_MAX);
  }

  metadata(model: string): Promise<Answer<unknown>> {
    return this.#ask(`/v1/models/${encodeURIComponent(model)}/metadata`, undefined, WAIT_MS_MAX);
  }

  predict(path: string, body: string): Promise<Answer<unknown>> {
    return this.#ask(path, body, PREDICT_MS_MAX);
  }

  get #key(): string {
    return this.#browser.storage.getItem(KEY_NAME) ?? "";
  }

  async #ask<Value>(
    path: string,
    body: string | undefined,
    waitMs: number,
  ): Promise<Answer<Value>> {
    const startMs = this.#browser.nowMs();
    const headers = {
      ...(this.hasKey && { authorization: `Bearer ${this.#key}` }),
      ...(body !== undefined && { [TIMELINE]: "true" }),
    };
    const method = body === undefined ? "GET" : "POST";
    const signal = this.#browser.timeout(waitMs);
    try {
      const init = {
        method,
        headers,
        signal,
        cache: "no-store",
        ...(body !== undefined && { body }),
      };
      const response = await this.#browser.fetch(path, init as RequestInit);
      const text = await response.text();
      const elapsedMs = this.#browser.nowMs() - startMs;
      if (response.ok) {
        const timeline = response.headers.get(TIMELINE) ?? undefined;
        return { kind: "answered", value: readJson(text) as Value, elapsedMs, timeline };
      }
      const message = errorText(text);
      const { status } = response;
      if (status === 401 || status === 403) return { kind: "refused", message };
      return { kind: "failed", status, message };
    } catch (error) {
      const message = error instanceof Error ? error.message : String(error);
      return { kind: "silent", message };
    }
  }
}

/** What `JSON.parse` refuses, or rounds. */
const NEEDS_CARE = /NaN|Infinity|\d{16}/;
const STRING_OR_NUMBER = /"[^"\\]*(?:\\.[^"\\]*)*"|-?\b(?:NaN|Infinity)\b|-?\d[\d.eE+-]*/g;
const INTEGER = /^-?\d+$/;

/**
 * JSON as TensorFlow Serving writes it: NaN and Infinity, which stand bare in it, and integers that a number
 * cannot hold become texts of what was written.
 *
 * @internal tests call it
 */
export function readJson(text: string): unknown {
  if (!NEEDS_CARE.test(text)) return JSON.parse(text);
  return JSON.parse(text.replaceAll(STRING_OR_NUMBER, heldText));
}

function heldText(token: string): string {
  const number = Number(token);
  const isHeld =
    token.startsWith('"') ||
    (INTEGER.test(token) ? Number.isSafeInteger(number) : Number.isFinite(number));
  return isHeld ? token : `"${token}"`;
}

function errorText(text: string): string {
  try {
    const { error } = JSON.parse(text) as { error?: unknown };
    if (typeof error === "string") return error;
  } catch {
    // Not JSON, for example a proxy's page.
  }
  return text.slice(0, 300);
}
