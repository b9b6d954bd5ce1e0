// From a request to its answer: dispatch over the routes of `request-path.ts`. Nothing in this file knows
// sockets or fastify.

import type { IncomingMessage } from "node:http";
import { Transfers, WinnowError, excerpt } from "@winnow/core";
import type { Clock, HeldMemory } from "@winnow/core";
import type { Degradation, Predictor, UnknownUsers, VersionStatus } from "../../predictor.ts";
import { BodyParser } from "../predict/body-parser.ts";
import { emptyAnswer, errorAnswer, jsonAnswer, pageAnswer, textAnswer } from "../http-answer.ts";
import type { HttpAnswer } from "../http-answer.ts";
import type { HttpObserver, MetricsPage, PageFiles, ReportPage } from "../http-observer.ts";
import type { HttpSettings } from "../http-settings.ts";
import { consoleAnswer } from "../documents/console-page.ts";
import { metadataDocument } from "../documents/metadata-document.ts";
import { openApiDocument } from "../documents/openapi-document.ts";
import { PredictHandler, pinModel } from "../predict/predict-handler.ts";
import type { PredictCall } from "../predict/predict-handler.ts";
import { modelDocument, serverDocument } from "../predict/inference/inference-documents.ts";
import type { RequestContext } from "../../request-context.ts";
import { readBody } from "../body/request-body.ts";
import type { RequestBody } from "../body/request-body.ts";
import type { NamedModel, Route } from "../request-path.ts";
import { statusDocument } from "../documents/status-document.ts";

/** One request as the handler sees it. */
export interface ApiCall {
  readonly method: string;
  readonly request: IncomingMessage;
  readonly context: RequestContext;
}

/** An answer, and what logs and metrics need to know of it. */
export interface ApiAnswer {
  readonly answer: HttpAnswer;
  readonly instances?: number;
  readonly coverage?: number;
  /** Number of ignored keys; default 0. */
  readonly ignoredKeys?: number;
  readonly degradations?: readonly Degradation[];
  readonly unknownUsers?: readonly UnknownUsers[];
}

/** What the handler needs of its server. */
export interface ApiHost {
  readonly clock: Clock;
  readonly observer: HttpObserver | undefined;
  readonly metrics: MetricsPage | undefined;
  readonly report: ReportPage | undefined;
  readonly pages: PageFiles | undefined;
  /** Winnow's release, as clients are told. */
  readonly release: string;
  /** Whether the server is draining, so that readiness says no. */
  isDraining(): boolean;
}

type Kind<K extends Route["kind"]> = Extract<Route, { readonly kind: K }>;
type InferenceRoute = Kind<"infer" | "v2-model" | "v2-server" | "v2-unknown">;

/** Answers every request of the predict API and Winnow's own paths. */
export class ApiHandler {
  readonly #predictor: Predictor;
  readonly #settings: HttpSettings;
  readonly #host: ApiHost;
  readonly #predicts: PredictHandler;
  readonly #bodies: Transfers;
  readonly #parser: BodyParser;
  #inFlight = 0;

  constructor(predictor: Predictor, settings: HttpSettings, host: ApiHost) {
    this.#predictor = predictor;
    this.#settings = settings;
    this.#host = host;
    this.#parser = new BodyParser({
      clock: host.clock,
      settings,
      limits: predictor.limits,
      onGivenUp: (reason) => host.observer?.gaveUp?.("body", reason),
    });
    this.#predicts = new PredictHandler(predictor, this.#parser);
    this.#bodies = new Transfers(host.clock, {
      bytesMax: settings.bodyBytesInFlightMax,
      smallBytes: settings.smallBodyBytes,
      reserveBytes: settings.bodyReserveBytes,
      stallMs: settings.bodyStallMs,
      timeoutMs: settings.bodyTimeoutMs,
      lookMs: settings.connectionCheckMs,
    });
  }

  /** Memory of bodies that are arriving or being worked on, and of parsing the large ones. */
  held(): readonly HeldMemory[] {
    const { bytes, bytesMax } = this.#bodies;
    return [{ kind: "requests", bytes, bytesMax }, this.#parser.held()];
  }

  /** Ends the timers and threads. */
  async close(): Promise<void> {
    this.#bodies.close();
    await this.#parser.close();
  }

  /** Answers a request. @throws WinnowError, RefusedBody: `failureAnswer` makes an answer of them. */
  answer(route: Route, call: ApiCall): ApiAnswer | Promise<ApiAnswer> {
    if (route.kind === "predict") return this.#predict(route.model, call);
    if (isInference(route)) return this.#inference(route, call);
    if (route.kind === "examples") {
      return this.#predict(route.model, call, { examples: route.method });
    }
    if (route.kind === "metadata") return this.#metadata(route.model);
    if (route.kind === "outside") return this.#outside(route, call);
    return { answer: this.#simple(route, call) };
  }

  #simple(
    route: Exclude<
      Route,
      { readonly kind: "predict" | "examples" | "metadata" | "outside" } | InferenceRoute
    >,
    call: ApiCall,
  ): HttpAnswer {
    switch (route.kind) {
      case "status":
        return this.#status(route.model);
      case "list":
        return this.#settings.ownPaths ? this.#list() : nameless();
      case "cluster":
        return this.#cluster();
      case "nameless":
        return nameless();
      case "malformed":
        return errorAnswer(400, `Malformed request: ${call.method} ${route.path}`);
      case "overflow":
        return emptyAnswer(400, "application/json");
      case "preflight":
        return preflight(call.request.headers.origin);
      case "illegal":
        return pageAnswer(400);
      case "unsupported":
        return pageAnswer(501);
    }
  }

  #inference(route: InferenceRoute, call: ApiCall): ApiAnswer | Promise<ApiAnswer> {
    // TensorFlow Serving has no such paths.
    if (!this.#settings.ownPaths) return { answer: pageAnswer(404) };
    switch (route.kind) {
      case "infer":
        return this.#predict(route.model, call, {
          inference: { jsonBytes: jsonBytesOf(call.request) },
        });
      case "v2-model":
        return this.#describeModel(route);
      case "v2-server":
        return { answer: this.#describeServer(route.asked) };
      case "v2-unknown":
        return { answer: unknownPath(route, call.method) };
    }
  }

  async #describeModel({ model, asked }: Kind<"v2-model">): Promise<ApiAnswer> {
    const pinned = await pinModel(this.#predictor, model);
    try {
      const document =
        asked === "ready"
          ? { name: pinned.model, ready: true }
          : modelDocument(pinned, this.#predictor.status(pinned.model) ?? []);
      return { answer: documentAnswer(document) };
    } finally {
      pinned.release();
    }
  }

  #describeServer(asked: Kind<"v2-server">["asked"]): HttpAnswer {
    if (asked === "metadata") return documentAnswer(serverDocument(this.#host.release));
    if (asked === "live") return documentAnswer({ live: true });
    const reason = this.#unreadyReason();
    if (reason === undefined) return documentAnswer({ ready: true });
    return { ...documentAnswer({ ready: false, error: reason }), status: 503 };
  }

  async #predict(
    model: NamedModel,
    call: ApiCall,
    how: Pick<PredictCall, "inference" | "examples"> = {},
  ): Promise<ApiAnswer> {
    this.#admit();
    const body = await this.#read(call);
    try {
      this.#admit();
      this.#inFlight++;
      try {
        const { context } = call;
        const { headers } = call.request;
        const allowPartial = isYes(headers["x-winnow-allow-partial"]);
        const header = (name: string): string | undefined => headers[name]?.toString();
        return await this.#predicts.predict({
          model,
          body,
          allowPartial,
          header,
          context,
          inference: how.inference,
          examples: how.examples,
        });
      } finally {
        this.#inFlight--;
      }
    } finally {
      body.close();
    }
  }

  #read({ request, context }: ApiCall): Promise<RequestBody> {
    return readBody(request, {
      bodies: this.#bodies,
      bodyBytesMax: this.#settings.bodyBytesMax,
      signal: context.signal,
      onGivenUp: (reason) => this.#host.observer?.gaveUp?.("body", reason),
    });
  }

  /** Refuses a request before any work is done. */
  #admit(): void {
    if (this.#inFlight < this.#settings.inFlightMax) return;
    throw new WinnowError(
      "UNAVAILABLE",
      `All ${this.#settings.inFlightMax} places for requests are taken; try again`,
    );
  }

  async #metadata(model: NamedModel): Promise<ApiAnswer> {
    const pinned = await pinModel(this.#predictor, model);
    try {
      return { answer: jsonAnswer(metadataDocument(pinned)) };
    } finally {
      pinned.release();
    }
  }

  /** A label in the URL is ignored, as in TensorFlow Serving. */
  #status(target: NamedModel): HttpAnswer {
    const { model, version } = target;
    const versions = this.#predictor.status(model);
    if (versions === undefined || versions.length === 0) {
      throw new WinnowError("NOT_FOUND", `Could not find any versions of model ${model}`);
    }
    if (version === undefined) return this.#stateAnswer(versions);
    const wanted = versions.filter((status) => status.version === version);
    if (wanted.length === 0 || target.unsafeVersion !== undefined) {
      const digits = target.unsafeVersion ?? String(version);
      throw new WinnowError("NOT_FOUND", `Could not find version ${digits} of model ${model}`);
    }
    return this.#stateAnswer(wanted);
  }

  /**
   * Until the router is ready for the first time its states are a 503: TensorFlow Serving's port is closed until its
   * models are loaded, and probes of its manifests ask this path.
   */
  #stateAnswer(versions: readonly VersionStatus[]): HttpAnswer {
    const answer = jsonAnswer(statusDocument(versions));
    const isStarting = !this.#predictor.ready && !this.#host.isDraining();
    return isStarting ? { ...answer, status: 503 } : answer;
  }

  #list(): HttpAnswer {
    const models = this.#predictor.models().map((name) => {
      const versions = (this.#predictor.status(name) ?? []).filter(({ state }) => state !== "END");
      return {
        name,
        versions: versions.map(({ version, state }) => ({ version: String(version), state })),
      };
    });
    return jsonAnswer(Buffer.from(`${JSON.stringify({ models }, null, 1)}\n`));
  }

  #cluster(): HttpAnswer {
    const { report } = this.#host;
    if (report === undefined || !this.#settings.ownPaths) {
      return errorAnswer(400, "Malformed request: GET /v1/cluster");
    }
    return jsonAnswer(report.json(), { "cache-control": "no-store" });
  }

  async #outside(route: Kind<"outside">, call: ApiCall): Promise<ApiAnswer> {
    const { metrics } = this.#host;
    const { metricsPath } = this.#settings;
    if (metrics !== undefined && route.path.split("?", 1)[0] === metricsPath) {
      if (route.path === metricsPath) return { answer: textAnswer(200, await metrics.text()) };
      const text = `Unexpected path: ${route.path}. Should be ${metricsPath}`;
      return { answer: textAnswer(400, text) };
    }
    const isRead = call.method === "GET" || call.method === "HEAD";
    const answer = isRead ? this.#ownAnswer(route.path, call) : undefined;
    return { answer: answer ?? pageAnswer(404) };
  }

  #ownAnswer(path: string, { request }: ApiCall): HttpAnswer | undefined {
    if (!this.#settings.ownPaths) return undefined;
    return this.#ownPath(path) ?? consoleAnswer(path, request, this.#host.pages);
  }

  #ownPath(path: string): HttpAnswer | undefined {
    switch (path) {
      case "/healthz":
      case "/livez":
        return textAnswer(200, "ok\n");
      case "/readyz":
        return this.#readiness();
      case "/openapi.json":
        return jsonAnswer(Buffer.from(openApiDocument()));
      default:
        return undefined;
    }
  }

  #readiness(): HttpAnswer {
    const reason = this.#unreadyReason();
    return reason === undefined ? textAnswer(200, "ok\n") : textAnswer(503, `${reason}\n`);
  }

  /** Why requests should not be sent to this router; `undefined`: they may. */
  #unreadyReason(): string | undefined {
    if (this.#host.isDraining()) return "draining";
    if (!this.#predictor.ready) return "no complete routing table yet";
    const isShort = this.#bodies.shortMs >= this.#settings.unreadyAfterMs;
    return isShort ? "no memory for requests" : undefined;
  }
}

function isInference(route: Route): route is InferenceRoute {
  return route.kind === "infer" || route.kind.startsWith("v2-");
}

function documentAnswer(document: object): HttpAnswer {
  return jsonAnswer(Buffer.from(`${JSON.stringify(document)}\n`));
}

function unknownPath({ path, method }: Kind<"v2-unknown">, given: string): HttpAnswer {
  if (method === undefined) {
    return errorAnswer(
      404,
      `No such path: ${excerpt(path)}; docs/inference-protocol.md lists those of /v2`,
    );
  }
  const answer = errorAnswer(405, `${excerpt(path)} takes ${method}, not ${given}`);
  return { ...answer, headers: { ...answer.headers, allow: method } };
}

/** Where binary data begin, if the request has any. @throws WinnowError INVALID_ARGUMENT */
function jsonBytesOf({ headers }: IncomingMessage): number | undefined {
  const length = headers["inference-header-content-length"];
  if (length === undefined) return undefined;
  const bytes = typeof length === "string" && /^\d+$/.test(length) ? Number(length) : Number.NaN;
  if (Number.isSafeInteger(bytes)) return bytes;
  const text = `Inference-Header-Content-Length is ${excerpt(String(length))}; it must be the bytes of the JSON`;
  throw new WinnowError("INVALID_ARGUMENT", text);
}

function nameless(): HttpAnswer {
  return errorAnswer(400, "Missing model name in request.");
}

function preflight(origin: string | undefined): HttpAnswer {
  const isAllowed = origin !== undefined && /https?:\/\//.test(origin);
  return emptyAnswer(isAllowed ? 200 : 400, "text/html; charset=ISO-8859-1");
}

function isYes(header: string | readonly string[] | undefined): boolean {
  return typeof header === "string" && /^(1|true|yes)$/i.test(header.trim());
}
