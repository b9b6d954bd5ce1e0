// The gRPC port: TensorFlow Serving's PredictionService and ModelService, the Open Inference Protocol's service, and
// the health service probes ask.
// Start reading here to follow a call down:
//
//   cluster/grpc-door ─▶ call-gate ─▶ serving-handlers
//     ─▶ predict-call ─▶ request-messages, tensor-proto-reader
//                      └─▶ Predictor ─▶ predict-answer
//     ─▶ inference/infer-call ─▶ infer-message, tensor-contents
//                              └─▶ Predictor ─▶ infer-answer

import path from "node:path";
import { Server } from "@grpc/grpc-js";
import type { UntypedServiceImplementation } from "@grpc/grpc-js";
import { GrpcDoor, HealthService, listenFault, portCredentials } from "@winnow/cluster";
import type { PlaceLimits } from "@winnow/cluster";
import { hostPort, sleep } from "@winnow/core";
import type { HeldMemory } from "@winnow/core";
import type { Predictor } from "../../predictor.ts";
import { CallGate } from "./call-gate.ts";
import { removeDeadSocket } from "./dead-socket.ts";
import { keyInterceptor } from "./key-interceptor.ts";
import { resolveGrpcOptions } from "../grpc-settings.ts";
import type { GrpcOptions, GrpcSettings } from "../grpc-settings.ts";
import {
  INFERENCE_SERVICE,
  MODEL_SERVICE,
  PREDICTION_SERVICE,
  serviceOf,
} from "../serving-definition.ts";
import { ServingHandlers } from "./serving-handlers.ts";
import type { GrpcEnvironment } from "./serving-handlers.ts";

/** A server of these services. */
export interface GrpcServer {
  /**
   * Starts to listen; port 0 takes any free port. Gives the port.
   * @throws WinnowError UNAVAILABLE when the address cannot be bound
   */
  listen(address: { readonly host: string; readonly port: number }): Promise<{ port: number }>;
  /** Listens on a socket of the file system, too, like the port with TLS and keys. @throws as `listen` */
  listenOnSocket(file: string): Promise<void>;
  /** Stops accepting calls, answers those that are open, and resolves when all connections are closed. */
  drain(): Promise<void>;
  /** Stops at once; open calls are cut. */
  close(): Promise<void>;
  /** The memory held for clients. */
  held(): readonly HeldMemory[];
}

/** Makes a server that answers from `predictor`; it does not listen yet. */
export function createGrpcServer(
  predictor: Predictor,
  options: GrpcOptions,
  environment: GrpcEnvironment,
): GrpcServer {
  return new ServingServer(predictor, resolveGrpcOptions(options), environment);
}

const HEALTH_WATCH = "/grpc.health.v1.Health/Watch";
/** Names that the health service answers for; "" is the server as a whole. */
const HEALTH_NAMES = ["", PREDICTION_SERVICE, MODEL_SERVICE, INFERENCE_SERVICE];

class ServingServer implements GrpcServer {
  readonly #settings: GrpcSettings;
  readonly #environment: GrpcEnvironment;
  readonly #predictor: Predictor;
  readonly #door: GrpcDoor;
  readonly #gate = new CallGate();
  readonly #server: Server;
  readonly #handlers: ServingHandlers;
  readonly #health = new HealthService();
  readonly #ended = new AbortController();
  #drained: Promise<void> | undefined;
  #isServing: boolean | undefined;

  constructor(predictor: Predictor, settings: GrpcSettings, environment: GrpcEnvironment) {
    this.#settings = settings;
    this.#environment = environment;
    this.#predictor = predictor;
    const places = placesOf(settings);
    this.#door = new GrpcDoor({
      clock: environment.clock,
      settings,
      placeOf: (path) => (path === HEALTH_WATCH ? places.watches : places.calls),
      onGivenUp: (what, reason) => environment.observer?.gaveUp?.(what, reason),
      onHandshakeFailure: () => environment.observer?.gaveUp?.("connection", "handshake"),
    });
    const handlers = new ServingHandlers(predictor, settings, environment);
    this.#handlers = handlers;
    this.#server = new Server({
      ...GrpcDoor.options(Object.values(places)),
      "grpc.max_receive_message_length": settings.messageBytesMax,
      "grpc.max_send_message_length": settings.messageBytesMax,
      "grpc.keepalive_time_ms": settings.keepaliveMs,
      "grpc.keepalive_timeout_ms": settings.keepaliveTimeoutMs,
      // Channelz stays on: without it, grpc-js 1.14 loses track of connections, and forceShutdown()
      // cuts none.
      interceptors: [
        this.#door.interceptor,
        this.#gate.interceptor,
        ...(environment.keys === undefined
          ? []
          : [keyInterceptor(environment.keys, (...call) => handlers.refused(...call))]),
      ],
    });
    this.#door.guard(this.#server);
    this.#serve(PREDICTION_SERVICE, handlers.predictionService());
    this.#serve(MODEL_SERVICE, handlers.modelService());
    this.#serve(INFERENCE_SERVICE, handlers.inferenceService());
    this.#health.addToServer(this.#server);
    this.#setHealth(false);
  }

  async listen(address: { host: string; port: number }): Promise<{ port: number }> {
    const { host, port } = address;
    const where = hostPort(host, port);
    const bound = await this.#bind(where, "--grpc-port and --host");
    void this.#followHealth();
    return { port: bound };
  }

  async listenOnSocket(file: string): Promise<void> {
    await removeDeadSocket(file);
    await this.#bind(`unix:${path.resolve(file)}`);
  }

  #bind(where: string, flags?: string): Promise<number> {
    const credentials = portCredentials(this.#environment.tls, this.#settings.handshakeTimeoutMs);
    return new Promise((resolve, reject) => {
      this.#server.bindAsync(where, credentials, (cause, taken) => {
        if (cause === null) return resolve(taken);
        reject(listenFault(where, cause, flags));
      });
    });
  }

  held(): readonly HeldMemory[] {
    return [...this.#door.held(), this.#handlers.held()];
  }

  drain(): Promise<void> {
    this.#drained ??= this.#drain();
    return this.#drained;
  }

  close(): Promise<void> {
    this.#refuse();
    return this.#cut(this.#closed());
  }

  /**
   * Closes the listener, lets those who have connected ask, and sends GOAWAY on all connections; open calls are answered.
   * Open health watches end with their connections, which are cut once no other call is left.
   */
  async #drain(): Promise<void> {
    this.#refuse();
    const { drainTimeoutMs, drainIdleMs } = this.#settings;
    await this.#door.stopListening({ acceptMs: drainTimeoutMs / 2, firstCallMs: drainIdleMs });
    const closed = this.#closed();
    await this.#within(drainTimeoutMs, [closed, this.#silence()]);
    await this.#cut(closed);
  }

  #refuse(): void {
    this.#ended.abort();
    this.#setHealth(false);
  }

  /** Resolves when the listener and all connections are closed; idle connections close at once. */
  #closed(): Promise<void> {
    return new Promise((resolve) => {
      this.#server.tryShutdown(() => resolve());
    });
  }

  /** Ends everything that is open. A client that does not even read that is not waited for. */
  async #cut(closed: Promise<void>): Promise<void> {
    this.#gate.cut();
    await this.#within(this.#settings.drainIdleMs, [closed]);
    this.#server.forceShutdown();
    this.#door.close();
  }

  /** Waits for the first of these promises, but no longer than `limitMs`. */
  async #within(limitMs: number, awaited: readonly Promise<void>[]): Promise<void> {
    const done = new AbortController();
    const limit = sleep(this.#environment.clock, limitMs, done.signal).catch(() => undefined);
    await Promise.race([...awaited, limit]);
    done.abort();
  }

  /** Resolves when no call has been open for a moment. */
  async #silence(): Promise<void> {
    do {
      await this.#gate.idle();
      await sleep(this.#environment.clock, this.#settings.drainIdleMs);
    } while (!this.#gate.isIdle);
  }

  /** Checks readiness from time to time, because the router does not report changes. */
  async #followHealth(): Promise<void> {
    const { signal } = this.#ended;
    while (!signal.aborted) {
      this.#setHealth(this.#predictor.ready);
      await sleep(this.#environment.clock, this.#settings.healthLookMs, signal).catch(
        () => undefined,
      );
    }
  }

  /** Notifies health watchers only when the state has changed. */
  #setHealth(isReady: boolean): void {
    if (this.#isServing === isReady) return;
    this.#isServing = isReady;
    for (const name of HEALTH_NAMES) {
      this.#health.setStatus(name, isReady ? "SERVING" : "NOT_SERVING");
    }
  }

  #serve(name: string, handlers: object): void {
    this.#server.addService(serviceOf(name), handlers as UntypedServiceImplementation);
  }
}

function placesOf(settings: GrpcSettings): Record<"calls" | "watches", PlaceLimits> {
  return {
    calls: {
      kind: "calls",
      max: settings.callsMax,
      perConnectionMax: settings.callsPerConnectionMax,
      keeps: "request",
    },
    watches: {
      kind: "health watches",
      max: settings.watchesMax,
      perConnectionMax: settings.watchesPerConnectionMax,
      keeps: "request",
    },
  };
}
