// The access log: a line in the router's log for each request over HTTP or gRPC, for a fraction of them, or
// for failures only. A line tells where the request's time went.

import { withoutKeys } from "@winnow/cluster";
import { type Logger, excerpt } from "@winnow/core";
import type { AnsweredCall, AnsweredRequest, GrpcObserver, HttpObserver } from "@winnow/router";

/** Which requests are logged: none, failures, all, or failures and this fraction of the others. */
export type AccessLogged = "off" | "errors" | "all" | number;

/** The setting that a text means; `undefined` for an invalid text. `0.01` logs failures and 1 % of the rest. */
export function accessLoggedOf(text: string): AccessLogged | undefined {
  if (text === "off" || text === "errors" || text === "all") return text;
  const fraction = Number(text);
  return /^[\d.]+$/.test(text) && fraction > 0 && fraction <= 1 ? fraction : undefined;
}

interface LogParts {
  readonly log: Logger;
  readonly random: () => number;
  /** The request id of the command that started this router, which asks for states many times a second until it is ready. */
  readonly starterId?: string | undefined;
}

/** An observer of HTTP requests that logs them and calls another observer. */
export function withAccessLog(
  observer: HttpObserver,
  logged: AccessLogged,
  parts: LogParts,
): HttpObserver {
  if (logged === "off") return observer;
  return {
    ...observer,
    answered(request) {
      observer.answered(request);
      if (isOfStarter(request, parts)) return;
      if (isLogged(logged, request.status >= 400, parts))
        parts.log.info("request", fieldsOf(request));
    },
  };
}

/** An observer of gRPC calls that logs them and calls another observer. */
export function withGrpcAccessLog(
  observer: GrpcObserver,
  logged: AccessLogged,
  parts: LogParts,
): GrpcObserver {
  if (logged === "off") return observer;
  return {
    ...observer,
    answered(call) {
      observer.answered(call);
      if (isLogged(logged, call.code !== "OK", parts))
        parts.log.info("request", callFieldsOf(call));
    },
  };
}

/** What the starter asks for. A client that takes its id can hide no prediction so, nor a key that is refused. */
const STARTER_APIS: ReadonlySet<string> = new Set(["status", "list"]);
const STARTER_STATUSES: ReadonlySet<number> = new Set([200, 404, 503]);

function isOfStarter(
  { api, requestId, status }: AnsweredRequest,
  { starterId }: LogParts,
): boolean {
  return requestId === starterId && STARTER_APIS.has(api) && STARTER_STATUSES.has(status);
}

function isLogged(logged: AccessLogged, isFailure: boolean, { random }: LogParts): boolean {
  const fraction = logged === "all" ? 1 : typeof logged === "number" ? logged : 0;
  return isFailure || fraction === 1 || random() < fraction;
}

/** A name without parts that a client may have put there and that must not be logged: a query string, a key. */
function withoutQuery(model: string): string {
  const [name = ""] = model.split("?", 1);
  return withoutKeys(name);
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
    ...timesAndBytesOf(request),
  };
}

function callFieldsOf(call: AnsweredCall): Record<string, unknown> {
  const { requestId, api, model, version, key, code, instances } = call;
  return {
    requestId,
    api: `grpc:${api}`,
    ...(model !== undefined && { model: excerpt(withoutQuery(model)) }),
    ...(version !== undefined && { version }),
    ...(key !== undefined && { key }),
    code,
    ...(instances > 0 && { instances }),
    ...timesAndBytesOf(call),
  };
}

/** Bytes, ms in total, and ms by stage: `queueMs`, `scatterMs`, `scanMs`, `mergeMs`, `writeMs`, … */
function timesAndBytesOf(
  request: Pick<AnsweredRequest, "requestBytes" | "answerBytes" | "elapsedMs" | "stages">,
): Record<string, number> {
  const { requestBytes, answerBytes, elapsedMs, stages } = request;
  const byStage = Array.from(stages ?? [], ([stage, ms]) => [`${stage}Ms`, rounded(ms)] as const);
  return {
    ...(requestBytes !== undefined && { requestBytes }),
    answerBytes,
    elapsedMs: rounded(elapsedMs),
    ...Object.fromEntries(byStage),
  };
}

const rounded = (ms: number): number => Math.round(ms * 1000) / 1000;
