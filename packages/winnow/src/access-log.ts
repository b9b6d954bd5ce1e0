// The access log: one line for each request over HTTP, or for a fraction of them, in the router's log.
// Failures can be logged alone.

import { type Logger, excerpt } from "@winnow/core";
import type { AnsweredRequest, HttpObserver } from "@winnow/router";

/** Which requests are logged: none, those that fail, all, or of those that succeed this fraction. */
export type AccessLogged = "off" | "errors" | "all" | number;

/** What a text says of it; `undefined` if it is none: `0.01` logs failures and 1 % of the rest. */
export function accessLoggedOf(text: string): AccessLogged | undefined {
  if (text === "off" || text === "errors" || text === "all") return text;
  const fraction = Number(text);
  return /^[\d.]+$/.test(text) && fraction > 0 && fraction <= 1 ? fraction : undefined;
}

/** Logs requests, beside what another observer does with them. */
export function withAccessLog(
  observer: HttpObserver,
  logged: AccessLogged,
  { log, random }: { readonly log: Logger; readonly random: () => number },
): HttpObserver {
  if (logged === "off") return observer;
  const fraction = logged === "all" ? 1 : logged === "errors" ? 0 : logged;
  return {
    ...observer,
    answered(request) {
      observer.answered(request);
      const isFailure = request.status >= 400;
      if (isFailure || fraction === 1 || random() < fraction)
        log.info("request", fieldsOf(request));
    },
  };
}

/** A name without what a client may have put there that is not for logs: a query string, a key. */
function withoutQuery(model: string): string {
  const [name = ""] = model.split("?", 1);
  return name.replaceAll(/winnow_[a-z0-9-]+_[\w-]{43}/g, "winnow_…");
}

function fieldsOf(request: AnsweredRequest): Record<string, unknown> {
  const { requestId, api, model, version, key, status, code, instances, coverage } = request;
  return {
    requestId,
    api,
    ...(model !== undefined && { model: excerpt(withoutQuery(model)) }),
    ...(version !== undefined && { version }),
    ...(key !== undefined && { key }),
    status,
    ...(code !== "OK" && { code }),
    ...(instances > 0 && { instances }),
    ...(coverage < 1 && { coverage }),
    answerBytes: request.answerBytes,
    elapsedMs: Math.round(request.elapsedMs * 1000) / 1000,
  };
}
