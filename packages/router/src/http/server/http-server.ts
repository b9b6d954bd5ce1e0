// The HTTP edge: fastify with one route for everything. The target of every request is rewritten to
// "/" before fastify's router sees it, so that none of the router's own rules (parameters, decoding,
// trailing slashes, length limits, automatic HEAD) applies; `request-path.ts` reads the original.
// Bodies are not parsed by fastify either: whatever the content type says, the handler reads bytes.
//
//   socket ─▶ (TLS) ─▶ fastify ─▶ routeOf ─▶ ApiHandler ─▶ answer ─▶ Exchange ─▶ socket
//                         │                        deadline, client gone: its RequestContext
//                         └ broken HTTP: answerBrokenRequest
//
// Of several requests on one connection at the same time, `pipelined-requests.ts` decides when each reaches fastify.

import type { IncomingMessage, RequestListener, Server, ServerResponse } from "node:http";
import type { AddressInfo, Socket } from "node:net";
import { TooManyRequests, UNACCEPTED_MAX, keepRoom, withoutKeys } from "@winnow/cluster";
import type { Admitted, ConnectionRoom, KeyGuard, TlsSource } from "@winnow/cluster";
import { Transfers, WinnowError, excerpt, hostPort, parseTraceparent } from "@winnow/core";
import type { Environment, HeldMemory, TraceSpan } from "@winnow/core";
import { fastify } from "fastify";
import type { FastifyInstance, FastifyReply, FastifyRequest } from "fastify";
import type { Predictor } from "../../predictor.ts";
import { ApiHandler } from "./api-handler.ts";
import type { ApiAnswer } from "./api-handler.ts";
import { answerBrokenRequest } from "./broken-request.ts";
import { drainConnections } from "./connection-drain.ts";
import { Exchange } from "./exchange.ts";
import type { ExchangeParts } from "./exchange.ts";
import { RefusedBody, errorAnswer, failureAnswer } from "../http-answer.ts";
import type { HttpAnswer } from "../http-answer.ts";
import type {
  AnsweredRequest,
  HttpObserver,
  MetricsPage,
  PageFiles,
  ReportPage,
  RoomLoss,
} from "../http-observer.ts";
import { leaveWanted } from "../body/request-body.ts";
import { PipelinedRequests } from "./pipelined-requests.ts";
import { RequestTimeline, TIMELINE_HEADER } from "./request-timeline.ts";
import { RequestIds } from "../../request-id.ts";
import { resolveHttpOptions } from "../http-settings.ts";
import type { HttpOptions, HttpSettings } from "../http-settings.ts";
import { routeOf } from "../request-path.ts";
import type { Route } from "../request-path.ts";
import { listeningServer } from "./listening-server.ts";
import { admitRequest } from "./request-access.ts";
import type { AccessParts } from "./request-access.ts";

/** What the server needs. */
export interface HttpEnvironment extends Environment {
  readonly observer?: HttpObserver | undefined;
  readonly metrics?: MetricsPage | undefined;
  /** Answers `GET /v1/cluster`. Default: that path does not exist. */
  readonly report?: ReportPage | undefined;
  /** The release that `GET /v2` tells. Default: none. */
  readonly release?: string | undefined;
  /** The console at `/console/`. Default: there is none. */
  readonly pages?: PageFiles | undefined;
  /** Certificates of the port, with client certificates where they name authorities. Default: HTTP without TLS. */
  readonly tls?: TlsSource | undefined;
  /** Only clients that present a key are answered; probes need none. Default: everybody is answered. */
  readonly keys?: KeyGuard | undefined;
  /**
   * Names by which the server may be called, in lower case, beside those that only private networks have
   * (`request-host.ts`). Default: any name.
   */
  readonly hosts?: ReadonlySet<string> | undefined;
}

/** A server of the predict API. */
export interface HttpServer {
  /**
   * Starts to listen; port 0 takes any free port. Gives the port.
   * @throws WinnowError UNAVAILABLE when the address cannot be bound
   */
  listen(address: { readonly host: string; readonly port: number }): Promise<{ port: number }>;
  /** Stops accepting connections, answers requests on open ones, and resolves when all are closed. */
  drain(): Promise<void>;
  /** Stops at once; open requests are cut. */
  close(): Promise<void>;
  /** Memory held for clients at present. */
  held(): readonly HeldMemory[];
}

/** Names and values by turns. */
const CORS_HEADERS: readonly string[] = Object.entries({
  "access-control-allow-origin": "*",
  "access-control-allow-methods": "POST, GET",
  "access-control-allow-headers": "Content-Type",
}).flat();
const ROUTES_WITHOUT_CORS: ReadonlySet<Route["kind"]> = new Set([
  "outside",
  "cluster",
  "illegal",
  "unsupported",
]);

/** Makes a server that answers from `predictor`; it does not listen yet. */
export function createHttpServer(
  predictor: Predictor,
  options: HttpOptions,
  environment: HttpEnvironment,
): HttpServer {
  return new FastifyServer(predictor, resolveHttpOptions(options), environment);
}

class FastifyServer implements HttpServer {
  readonly #settings: HttpSettings;
  readonly #environment: HttpEnvironment;
  readonly #handler: ApiHandler;
  readonly #app: FastifyInstance<Server, IncomingMessage, ServerResponse>;
  readonly #answers: Transfers;
  readonly #exchangeParts: ExchangeParts;
  readonly #requestIds: RequestIds;
  /**
   * The latest exchange on each connection. Entries are deleted when a connection closes: minor collections mostly leave
   * those that only their key's end would take out of a WeakMap, and with them connection and exchange.
   */
  readonly #exchanges = new WeakMap<Socket, Exchange>();
  readonly #pipelined: PipelinedRequests;
  readonly #access: AccessParts;
  readonly #rooms = new Set<ConnectionRoom>();
  #isDraining = false;
  #drained: Promise<void> | undefined;

  constructor(predictor: Predictor, settings: HttpSettings, environment: HttpEnvironment) {
    this.#settings = settings;
    this.#environment = environment;
    const { clock, observer, random } = environment;
    this.#requestIds = new RequestIds(random);
    this.#pipelined = new PipelinedRequests(clock);
    this.#access = { ...environment, metricsPath: settings.metricsPath };
    this.#handler = new ApiHandler(predictor, settings, {
      clock,
      observer,
      metrics: environment.metrics,
      report: environment.report,
      pages: environment.pages,
      release: environment.release ?? "",
      isDraining: () => this.#isDraining,
    });
    this.#answers = new Transfers(clock, {
      bytesMax: settings.answerBytesInFlightMax,
      smallBytes: 0,
      reserveBytes: 0,
      stallMs: settings.answerStallMs,
      timeoutMs: settings.answerTimeoutMs,
      lookMs: settings.connectionCheckMs,
    });
    this.#exchangeParts = {
      clock,
      answers: this.#answers,
      settings,
      onUnread: (reason) => observer?.gaveUp?.("answer", reason),
    };
    this.#app = this.#createApp();
  }

  async listen(address: { host: string; port: number }): Promise<{ port: number }> {
    await this.#app
      .listen({ ...address, backlog: UNACCEPTED_MAX })
      .catch((cause: NodeJS.ErrnoException) => {
        const where = hostPort(address.host, address.port);
        const text = `Cannot listen on ${where} (${cause.code}); choose another with --port and --host`;
        throw new WinnowError("UNAVAILABLE", text, { cause });
      });
    return { port: (this.#app.server.address() as AddressInfo).port };
  }

  drain(): Promise<void> {
    this.#isDraining = true;
    this.#drained ??= this.#drain();
    return this.#drained;
  }

  async close(): Promise<void> {
    this.#isDraining = true;
    await this.#end();
  }

  held(): readonly HeldMemory[] {
    const { bytes, bytesMax } = this.#answers;
    return [...this.#handler.held(), { kind: "answers", bytes, bytesMax }];
  }

  async #drain(): Promise<void> {
    await drainConnections(this.#app.server, this.#environment.clock, this.#settings);
    await this.#end();
  }

  async #end(): Promise<void> {
    this.#app.server.closeAllConnections();
    // The HTTP server does not know connections in their TLS handshake.
    for (const room of this.#rooms) room.clear();
    await this.#app.close();
    await this.#handler.close();
    this.#answers.close();
  }

  #createApp(): FastifyInstance<Server, IncomingMessage, ServerResponse> {
    const settings = this.#settings;
    const app = fastify({
      bodyLimit: settings.bodyBytesMax,
      // Bodies have their own limits (`request-body.ts`); Node's timeout would answer a second time.
      requestTimeout: 0,
      keepAliveTimeout: settings.keepAliveTimeoutMs,
      return503OnClosing: false,
      exposeHeadRoutes: false,
      forceCloseConnections: true,
      rewriteUrl: () => "/",
      serverFactory: (handler) => this.#createServer(handler),
      clientErrorHandler: (error, socket) =>
        this.#pipelined.whenIdle(socket, () =>
          answerBrokenRequest(error, socket, this.#exchanges.get(socket)),
        ),
    });
    // Fastify leaves bodies and their content types alone for methods that it takes to have no body.
    for (const method of app.supportedMethods) {
      app.addHttpMethod(method, { hasBody: false, overrideExisting: true });
    }
    const answer = (request: FastifyRequest, reply: FastifyReply): void => {
      void this.#serve(request, this.#exchangeOf(reply));
    };
    app.route({ method: app.supportedMethods, url: "/", handler: answer });
    app.setNotFoundHandler(answer);
    app.setErrorHandler((error, _request, reply) => {
      const answer = this.#failed(error);
      this.#exchangeOf(reply).send(answer, [], this.#isDraining);
    });
    // A client that waits for 100 Continue gets it when its body is read, after the checks that may refuse it.
    app.server.on("checkContinue", (request, response) => {
      leaveWanted.set(request, response);
      app.server.emit("request", request, response);
    });
    return app;
  }

  #createServer(handler: RequestListener): Server {
    const { tls, observer } = this.#environment;
    const onLoss = (loss: RoomLoss): void => observer?.gaveUp?.("connection", loss);
    const secure = { tls, onFailure: () => onLoss("handshake") };
    const listener = this.#pipelined.listener(handler);
    const server = listeningServer(listener, this.#settings, secure);
    const opened = tls === undefined ? "connection" : "secureConnection";
    server.on(opened, (socket: Socket) => {
      this.#pipelined.opened(socket);
      socket.once("close", () => this.#exchanges.delete(socket));
    });
    const room = keepRoom(server, this.#settings.connectionsMax, onLoss);
    this.#rooms.add(room);
    if (tls === undefined) {
      server.on("connection", (socket: Socket) => {
        socket.once("end", () => this.#exchanges.get(socket)?.clientEnded());
      });
    }
    return server;
  }

  #exchangeOf(reply: FastifyReply): Exchange {
    const exchange = new Exchange(this.#exchangeParts, reply);
    this.#exchanges.set(reply.request.raw.socket, exchange);
    return exchange;
  }

  /** Answers one request; never rejects. */
  async #serve(request: FastifyRequest, exchange: Exchange): Promise<void> {
    const { clock } = this.#environment;
    const startMs = clock.nowMs();
    const route = routeOf(request.method, request.originalUrl);
    const requestId = this.#requestIds.idOf(request.headers["x-request-id"]);
    exchange.context.span = this.#span(route, request.raw, { startMs, requestId });
    let given: ApiAnswer;
    let code: string;
    let admitted: Admitted | undefined;
    try {
      const { context } = exchange;
      admitted = admitRequest(this.#access, route, request.raw);
      const call = { method: request.method, request: request.raw, context };
      const outcome = this.#handler.answer(route, call);
      given = outcome instanceof Promise ? await context.untilAborted(outcome) : outcome;
      if (!exchange.hold(given.answer)) throw this.#answersUnread();
      code = codeOfStatus(given.answer.status);
    } catch (error) {
      given = { answer: this.#failed(error) };
      code = error instanceof WinnowError ? error.code : codeOfStatus(given.answer.status);
      exchange.hold(given.answer);
    } finally {
      admitted?.release();
    }
    const { span } = exchange.context;
    exchange.send(given.answer, this.#headers(route, requestId, span), this.#isDraining);
    const endMs = clock.nowMs();
    endSpan(span, given, { code, endMs });
    this.#environment.observer?.answered(
      answeredRequest(given, {
        requestId,
        route,
        code,
        key: admitted?.key,
        requestBytes: bytesOf(request.raw),
        elapsedMs: endMs - startMs,
        stages: exchange.context.stages,
      }),
    );
  }

  /** Headers beside an answer's own: the request's id, the timeline and CORS where they are wanted. */
  #headers({ kind }: Route, requestId: string, span: TraceSpan | undefined): readonly string[] {
    const further = ["x-request-id", requestId];
    if (span instanceof RequestTimeline) further.push(TIMELINE_HEADER, span.text());
    if (this.#settings.cors && !ROUTES_WITHOUT_CORS.has(kind)) further.push(...CORS_HEADERS);
    return further;
  }

  /**
   * The span of a request to a model, with OpenTelemetry's attributes; its parts are noted for a client that asks for
   * the timeline. Probes have none.
   */
  #span(
    route: Route,
    { method = "", headers }: IncomingMessage,
    { startMs, requestId }: { readonly startMs: number; readonly requestId: string },
  ): TraceSpan | undefined {
    if (!("model" in route)) return undefined;
    const api = route.kind === "examples" ? route.method : route.kind;
    const recorded = this.#environment.tracer?.begin({
      name: `${method} ${api}`,
      startMs,
      parent: parseTraceparent(headers["traceparent"]),
      attributes: {
        "http.request.method": method,
        "winnow.api": api,
        "winnow.model": excerpt(withoutKeys(route.model.model)),
        "winnow.request_id": requestId,
      },
    });
    const isTold = headers[TIMELINE_HEADER] === "true";
    return isTold ? new RequestTimeline(startMs, recorded) : recorded;
  }

  #answersUnread(): WinnowError {
    this.#environment.observer?.gaveUp?.("answer", "memory");
    return new WinnowError(
      "UNAVAILABLE",
      `Answers of ${this.#answers.bytesMax} bytes wait for their clients to read them; try again`,
    );
  }

  #failed(error: unknown): HttpAnswer {
    if (error instanceof WinnowError || error instanceof RefusedBody) {
      const { retryAfterSeconds } = error instanceof TooManyRequests ? error : this.#settings;
      const answer = failureAnswer(error, retryAfterSeconds);
      return answer.status === 401 ? withHeader(answer, "www-authenticate", "Bearer") : answer;
    }
    this.#environment.log.error("request failed by a fault of the router", { error });
    return errorAnswer(500, "The router failed to answer; its log says why");
  }
}

function withHeader(answer: HttpAnswer, name: string, value: string): HttpAnswer {
  return { ...answer, headers: { ...answer.headers, [name]: value } };
}

function codeOfStatus(status: number): string {
  if (status < 400) return "OK";
  if (status === 401) return "UNAUTHENTICATED";
  if (status === 403) return "PERMISSION_DENIED";
  if (status === 404) return "NOT_FOUND";
  if (status === 501) return "UNIMPLEMENTED";
  if (status === 503) return "UNAVAILABLE";
  if (status === 408) return "CANCELLED";
  if (status >= 500) return "INTERNAL";
  return status === 413 ? "RESOURCE_EXHAUSTED" : "INVALID_ARGUMENT";
}

function endSpan(
  span: TraceSpan | undefined,
  { answer, instances = 0 }: ApiAnswer,
  { code, endMs }: { readonly code: string; readonly endMs: number },
): void {
  if (span === undefined) return;
  const version = answer.headers["x-winnow-model-version"];
  const told = {
    "http.response.status_code": answer.status,
    "http.response.body.size": answer.body.length,
    "winnow.instances": instances,
    ...(version !== undefined && { "winnow.version": version }),
  };
  // An error of the client is no error of the server: by the conventions such a span has no error status.
  span.end(endMs, told, answer.status >= 500 ? code : undefined);
}

function bytesOf({ headers }: IncomingMessage): number | undefined {
  const length = headers["content-length"];
  return length === undefined ? undefined : Number(length);
}

/** What is reported of an answer; defaults where the answer does not say. */
function answeredRequest(
  { answer, instances, coverage, ignoredKeys, degradations, unknownUsers }: ApiAnswer,
  about: Pick<AnsweredRequest, "requestId" | "code" | "key" | "requestBytes" | "elapsedMs"> & {
    readonly route: Route;
    readonly stages: ReadonlyMap<string, number>;
  },
): AnsweredRequest {
  const { requestId, route, code, key, requestBytes, elapsedMs, stages } = about;
  return {
    requestId,
    api: route.kind === "examples" ? route.method : route.kind,
    model: "model" in route ? route.model.model : undefined,
    version: answer.headers["x-winnow-model-version"],
    key,
    status: answer.status,
    code,
    instances: instances ?? 0,
    coverage: coverage ?? 1,
    ignoredKeys: ignoredKeys ?? 0,
    degradations: degradations ?? [],
    unknownUsers: unknownUsers ?? [],
    requestBytes,
    answerBytes: answer.body.length,
    elapsedMs,
    stages,
  };
}
