// From a call of grpc-js to its answer: the context, the work of the method, the status. Nothing in this file
// knows servers or sockets.

import { sensitiveHeaders } from "node:http2";
import type { OutgoingHttpHeaders } from "node:http2";
import { withoutKeys } from "@winnow/cluster";
import type { KeyGuard, TlsSource } from "@winnow/cluster";
import { Metadata } from "@grpc/grpc-js";
import { WinnowError, excerpt, parseTraceparent } from "@winnow/core";
import type { Environment, HeldMemory, TraceSpan } from "@winnow/core";
import { degradedText, unknownUsersText } from "../../predictor.ts";
import type { Predictor } from "../../predictor.ts";
import { RequestIds } from "../../request-id.ts";
import { contextOfCall } from "./call-context.ts";
import type { CancellableCall } from "./call-context.ts";
import type { AnsweredCall, GrpcObserver } from "../grpc-observer.ts";
import type { GrpcSettings } from "../grpc-settings.ts";
import type { ExampleMethod } from "../../examples/example-signature.ts";
import { classifyOrRegress, multiInference } from "../calls/examples-call.ts";
import { getModelMetadata } from "../calls/metadata-call.ts";
import { predict } from "../calls/predict-call.ts";
import type { GrpcAnswer, GrpcCall } from "../calls/predict-call.ts";
import { reloadConfig } from "../calls/reload-call.ts";
import type { ReloadModels } from "../calls/reload-call.ts";
import { getModelStatus } from "../calls/status-call.ts";
import { modelInfer } from "../inference/infer-call.ts";
import {
  modelMetadata,
  modelReady,
  serverLive,
  serverMetadata,
  serverReady,
} from "../inference/server-calls.ts";
import { TensorMemory } from "../tensors/tensor-memory.ts";
import { takeKeyId } from "./key-interceptor.ts";
import { failureStatus } from "./status-details.ts";
import type { FailureStatus } from "./status-details.ts";

/** What the handlers need. */
export interface GrpcEnvironment extends Environment {
  readonly observer?: GrpcObserver | undefined;
  /** What HandleReloadConfigRequest does. Default: the call is UNIMPLEMENTED. */
  readonly reload?: ReloadModels | undefined;
  /** Certificates of the port, with client certificates where they name authorities. Default: no TLS. */
  readonly tls?: TlsSource | undefined;
  /** Only clients that present a key are answered; health checks need none. Default: everybody is answered. */
  readonly keys?: KeyGuard | undefined;
  /** Told by `ServerMetadata`. Default: none. */
  readonly release?: string | undefined;
}

/** A call of grpc-js with its request as bytes. */
export interface RawCall extends CancellableCall {
  readonly request: Uint8Array;
  readonly metadata: Pick<Metadata, "get">;
  sendMetadata(metadata: Metadata): void;
}

/** How grpc-js takes an answer. */
export type RawReply = (failure: FailureStatus | null, answer?: Buffer) => void;

/** Answers one method. */
export type RawHandler = (call: RawCall, reply: RawReply) => void;

const REQUEST_ID = "x-request-id";
const DEGRADED = "x-winnow-degraded";
const UNKNOWN_USERS = "x-winnow-unknown-users";
const ARM = "x-winnow-arm";
const IGNORED = "x-winnow-ignored";

type Work = (call: GrpcCall) => GrpcAnswer | Promise<GrpcAnswer>;

/** Handlers of all services, by method. */
export class ServingHandlers {
  readonly #settings: GrpcSettings;
  readonly #environment: GrpcEnvironment;
  readonly #predictor: Predictor;
  readonly #requestIds: RequestIds;
  readonly #memory: TensorMemory;

  constructor(predictor: Predictor, settings: GrpcSettings, environment: GrpcEnvironment) {
    this.#predictor = predictor;
    this.#settings = settings;
    this.#environment = environment;
    this.#requestIds = new RequestIds(environment.random);
    this.#memory = new TensorMemory(settings.tensorBytesInFlightMax);
  }

  /** The memory that tensors of calls take. */
  held(): HeldMemory {
    return this.#memory.held();
  }

  /** `PredictionService`. */
  predictionService(): Record<string, RawHandler> {
    return {
      ...this.#method("Predict", (call) => predict(this.#predictor, call, this.#settings)),
      ...this.#method("GetModelMetadata", (call) =>
        getModelMetadata(this.#predictor, call, this.#settings),
      ),
      ...this.#method("Classify", (call) => this.#classifyOrRegress(call, "classify")),
      ...this.#method("Regress", (call) => this.#classifyOrRegress(call, "regress")),
      ...this.#method("MultiInference", (call) =>
        multiInference(this.#predictor, call, this.#settings),
      ),
    };
  }

  #classifyOrRegress(call: GrpcCall, method: ExampleMethod): Promise<GrpcAnswer> {
    return classifyOrRegress(this.#predictor, { ...call, method }, this.#settings);
  }

  /** `ModelService`. */
  modelService(): Record<string, RawHandler> {
    return {
      ...this.#method("GetModelStatus", (call) => getModelStatus(this.#predictor, call)),
      ...this.#method("HandleReloadConfigRequest", (call) =>
        reloadConfig(this.#environment.reload, call),
      ),
    };
  }

  /** `GRPCInferenceService`. */
  inferenceService(): Record<string, RawHandler> {
    const { release = "" } = this.#environment;
    return {
      ...this.#method("ServerLive", serverLive),
      ...this.#method("ServerReady", (call) => serverReady(this.#predictor, call)),
      ...this.#method("ServerMetadata", (call) => serverMetadata(release, call)),
      ...this.#method("ModelReady", (call) => modelReady(this.#predictor, call)),
      ...this.#method("ModelMetadata", (call) => modelMetadata(this.#predictor, call)),
      ...this.#method("ModelInfer", (call) => modelInfer(this.#predictor, call, this.#settings)),
    };
  }

  /** A call that was refused before its message was read; gives the metadata of its answer. */
  refused(path: string, metadata: Metadata, { code }: WinnowError): Metadata {
    const requestId = this.#requestIds.idOf(metadata.get(REQUEST_ID)[0]?.toString());
    this.#environment.observer?.answered({
      requestId,
      api: path.slice(path.lastIndexOf("/") + 1),
      model: undefined,
      code,
      instances: 0,
      requestBytes: 0,
      answerBytes: 0,
      elapsedMs: 0,
    });
    return new AnswerMetadata(requestId);
  }

  #method(api: string, work: Work): Record<string, RawHandler> {
    return { [api]: (call, reply) => void this.#answer({ api, work }, call, reply) };
  }

  /** Answers one call; never rejects. */
  async #answer(
    method: { readonly api: string; readonly work: Work },
    call: RawCall,
    reply: RawReply,
  ): Promise<void> {
    const { clock, observer } = this.#environment;
    const startMs = clock.nowMs();
    const context = contextOfCall(clock, call, this.#settings.requestTimeoutMs);
    const { request: bytes, metadata } = call;
    const requestId = this.#requestIds.idOf(metadata.get(REQUEST_ID)[0]?.toString());
    const { tracer } = this.#environment;
    context.span = tracer?.begin({
      name: `grpc ${method.api}`,
      startMs,
      parent: parseTraceparent(metadata.get("traceparent")[0]),
      attributes: {
        "rpc.system": "grpc",
        "rpc.method": method.api,
        "winnow.request_id": requestId,
      },
    });
    let model: string | undefined;
    const names = (name: string): void => void (model = name);
    const header = (name: string): string | undefined => metadata.get(name)[0]?.toString();
    const outcome = await this.#outcome(method.work, {
      bytes,
      context,
      header,
      names,
      memory: this.#memory,
    });
    context.finish();
    call.sendMetadata(headerOf(requestId, outcome));
    if (outcome instanceof WinnowError) reply(failureStatus(outcome));
    else reply(null, outcome.bytes);
    const endMs = clock.nowMs();
    const { stages, span } = context;
    const told = tellingsOf(outcome);
    endSpan(span, { ...told, model, endMs });
    observer?.answered({
      requestId,
      api: method.api,
      model,
      key: takeKeyId(metadata),
      ...told,
      requestBytes: bytes.length,
      elapsedMs: endMs - startMs,
      stages,
    });
  }

  /** The answer, or the error that is sent instead. */
  async #outcome(work: Work, call: GrpcCall): Promise<GrpcAnswer | WinnowError> {
    try {
      const answer = work(call);
      return answer instanceof Promise ? await call.context.untilAborted(answer) : answer;
    } catch (error) {
      return this.#known(error);
    }
  }

  #known(error: unknown): WinnowError {
    if (error instanceof WinnowError) return error;
    this.#environment.log.error("request failed by a fault of the router", { error });
    return new WinnowError("INTERNAL", "The router failed to answer; its log says why");
  }
}

/**
 * Metadata of an answer. Its request id is marked as one that HPACK does not keep (RFC 7541, section 6.2.3): the table of a
 * connection's last headers would be full of ids that never come again, all of which nghttp2 compares for each new one.
 */
class AnswerMetadata extends Metadata {
  constructor(requestId: string) {
    super();
    this.set(REQUEST_ID, requestId);
  }

  override toHttp2Headers(): OutgoingHttpHeaders {
    return { ...super.toHttp2Headers(), [sensitiveHeaders]: [REQUEST_ID] };
  }
}

function headerOf(requestId: string, outcome: GrpcAnswer | WinnowError): Metadata {
  const metadata = new AnswerMetadata(requestId);
  if (outcome instanceof WinnowError) return metadata;
  const degraded = degradedText(outcome.degradations);
  if (degraded !== undefined) metadata.set(DEGRADED, degraded);
  const unknown = unknownUsersText(outcome.unknownUsers);
  if (unknown !== undefined) metadata.set(UNKNOWN_USERS, unknown);
  if (outcome.arms !== undefined) metadata.set(ARM, outcome.arms);
  const { ignored = [] } = outcome;
  if (ignored.length > 0) metadata.set(IGNORED, ignored.join(", "));
  return metadata;
}

/** Codes for which OpenTelemetry's conventions blame the server. */
const SERVER_FAULTS: ReadonlySet<string> = new Set([
  "UNKNOWN",
  "DEADLINE_EXCEEDED",
  "UNIMPLEMENTED",
  "INTERNAL",
  "UNAVAILABLE",
  "DATA_LOSS",
]);

function endSpan(
  span: TraceSpan | undefined,
  {
    code,
    instances,
    model,
    endMs,
    version,
  }: Pick<AnsweredCall, "code" | "instances" | "model" | "version"> & { readonly endMs: number },
): void {
  if (span === undefined) return;
  const told = {
    "rpc.response.status_code": code,
    "winnow.instances": instances,
    ...(model !== undefined && { "winnow.model": excerpt(withoutKeys(model)) }),
    ...(version !== undefined && { "winnow.version": version }),
  };
  span.end(endMs, told, SERVER_FAULTS.has(code) ? code : undefined);
}

function tellingsOf(
  outcome: GrpcAnswer | WinnowError,
): Pick<
  AnsweredCall,
  "code" | "instances" | "version" | "answerBytes" | "degradations" | "unknownUsers"
> {
  if (outcome instanceof WinnowError) return { code: outcome.code, instances: 0, answerBytes: 0 };
  const { bytes, instances, degradations, unknownUsers } = outcome;
  const version = outcome.version?.toString();
  return { code: "OK", instances, version, answerBytes: bytes.length, degradations, unknownUsers };
}
