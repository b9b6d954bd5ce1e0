// The worker's gRPC server: streams of routers, Describe, GetProgram, FollowOrder, GetOrder, DrainWorker,
// health. Its drain loses no request, because of its order: the DRAIN frame, then routers end their
// streams, and only then the server shuts down (an earlier GOAWAY may kill calls in flight:
// grpc-node #3068).

import { Server, status } from "@grpc/grpc-js";
import { WinnowError, descriptorLimit, excerpt, fittingConnections, hostPort } from "@winnow/core";
import type { Environment, HeldMemory } from "@winnow/core";
import { encodeAnnouncement } from "../announcement/announcement-codec.ts";
import { GrpcDoor } from "../grpc-door/grpc-door.ts";
import type { GrpcDoorSettings, PlaceLimits } from "../grpc-door/grpc-door.ts";
import type { FollowOrderRequest__Output } from "./generated/winnow/shard/v1/FollowOrderRequest.ts";
import { HealthService } from "./health-service.ts";
import { listenFault } from "./listen-fault.ts";
import { ProgramCalls, failureOf } from "./program-calls.ts";
import type { ProgramSettings } from "./program-calls.ts";
import { RouterLink } from "./router-link.ts";
import { MESSAGE_BYTES_MAX, SERVER_OPTIONS, shardService } from "./frames/shard-service.ts";
import type { ShardHandlers } from "./frames/shard-service.ts";
import { isMember, portCredentials } from "../tls/grpc-credentials.ts";
import type { ClusterTls } from "../tls/grpc-credentials.ts";
import { isLoopback } from "../trust/loopback.ts";
import type { WorkerService } from "./worker-link.ts";

/** The state that Kubernetes' probes ask for. */
export interface WorkerHealth {
  /** `winnow.startup`: the first replicas are loaded, or have failed with a reason. */
  readonly started: boolean;
  /** `winnow.shard.v1.Shard`: loaded and not draining. */
  readonly ready: boolean;
}

/** Where and how a worker listens. */
export interface WorkerServerSettings extends GrpcDoorSettings, ProgramSettings {
  /** Interface to listen on. Default 127.0.0.1. */
  readonly host: string;
  /** Default 0: any free port. */
  readonly port: number;
  /** Bytes of replies a router may leave unread before it is disconnected. Default 64 MiB. */
  readonly unreadBytesMax: number;
  /** Ms without a frame after which a stream is ended (routers ping). Default 10,000. */
  readonly silentRouterMs: number;
  /** Milliseconds for the first frame of a stream. Default 5,000. */
  readonly helloMs: number;
  /** Streams of routers open at once. Beyond it, streams whose first frame is late are ended. Default 1,024. */
  readonly streamsMax: number;
  /** Other calls open at once. Default 256. */
  readonly callsMax: number;
  /** Health watches open at once. Default 256. */
  readonly watchesMax: number;
  /** Streams of each of these kinds per connection; clients queue further ones. Default 32. */
  readonly perConnectionMax: number;
}

/** A worker that routers can reach: a `WorkerServer`, or the simulator's stand-in. */
export type WorkerListener = Pick<WorkerServer, "port" | "setHealth" | "drain" | "close">;

/** Makes a worker reachable. @throws WinnowError UNAVAILABLE when the address cannot be bound */
export type ListenForRouters = (
  parts: WorkerServerParts,
  settings: Partial<WorkerServerSettings>,
) => Promise<WorkerListener>;

/** The service behind a server, and the environment with its clock. */
export interface WorkerServerParts {
  readonly service: WorkerService;
  readonly environment: Environment;
  /** The certificates of both sides. Default: no TLS. */
  readonly tls?: ClusterTls | undefined;
}

/** Ms between the end of the last stream and the forced end of connections. */
const SHUTDOWN_MS = 500;
/** Ms between two log lines about failed handshakes. */
const HANDSHAKE_LOG_MS = 10_000;
const MEBIBYTE = 1024 * 1024;
const EXCHANGE = "/winnow.shard.v1.Shard/Exchange";
const HEALTH_WATCH = "/grpc.health.v1.Health/Watch";
const DEFAULTS: WorkerServerSettings = {
  host: "127.0.0.1",
  port: 0,
  unreadBytesMax: 64 * MEBIBYTE,
  silentRouterMs: 10_000,
  helloMs: 5000,
  streamsMax: 1024,
  callsMax: 256,
  watchesMax: 256,
  perConnectionMax: 32,
  connectionsMax: 4096,
  messageBytesMax: MESSAGE_BYTES_MAX,
  requestBytesInFlightMax: 512 * MEBIBYTE,
  bodyReserveBytes: 64 * MEBIBYTE,
  smallBodyBytes: 256 * 1024,
  bodyStallMs: 10_000,
  bodyTimeoutMs: 60_000,
  answerBytesInFlightMax: 1024 * MEBIBYTE,
  answerStallMs: 20_000,
  answerTimeoutMs: 120_000,
  connectionCheckMs: 1000,
  programTableBytesMax: 64 * MEBIBYTE,
  programsPackedMax: 4,
  programTimeoutMs: 60_000,
};

/** A listening worker. */
export class WorkerServer {
  readonly #server: Server;
  readonly #parts: WorkerServerParts;
  readonly #settings: WorkerServerSettings;
  readonly #door: GrpcDoor;
  readonly #programs: ProgramCalls;
  readonly #health = new HealthService();
  readonly #links = new Set<RouterLink>();
  #port = 0;
  #isDraining = false;
  #handshakeLoggedMs = -Infinity;
  #onLastLink: (() => void) | undefined;

  private constructor(parts: WorkerServerParts, settings: WorkerServerSettings) {
    this.#parts = parts;
    this.#settings = settings;
    const { clock } = parts.environment;
    const { service } = parts;
    this.#programs = new ProgramCalls((query) => service.program(query), clock, settings);
    const places = placesOf(settings);
    this.#door = new GrpcDoor({
      clock,
      settings,
      placeOf: (path) => places.get(path) ?? places.get("")!,
      admits: (socket) => isMember(socket, parts.tls?.memberName),
      onHandshakeFailure: (reason) => this.#logHandshake(reason),
    });
    this.#server = new Server({
      ...SERVER_OPTIONS,
      ...GrpcDoor.options([...places.values()]),
      interceptors: [this.#door.interceptor],
    });
    this.#door.guard(this.#server);
    this.#server.addService(shardService, this.#handlers());
    this.#health.addToServer(this.#server);
    this.#health.setStatus("", "SERVING");
    this.setHealth({ started: false, ready: false });
  }

  /** Listens. @throws WinnowError UNAVAILABLE when the address cannot be bound */
  static async listen(
    parts: WorkerServerParts,
    settings: Partial<WorkerServerSettings> = {},
  ): Promise<WorkerServer> {
    const connectionsMax = fittingConnections(DEFAULTS.connectionsMax, 1 / 2, descriptorLimit());
    const worker = new WorkerServer(parts, { ...DEFAULTS, connectionsMax, ...settings });
    await worker.#bind();
    return worker;
  }

  /** The port it listens on. */
  get port(): number {
    return this.#port;
  }

  /** Open streams of routers. */
  get links(): number {
    return this.#links.size;
  }

  /** The memory held for routers and other clients. */
  held(): readonly HeldMemory[] {
    return this.#door.held();
  }

  /** Sets what the health service answers. */
  setHealth({ started, ready }: WorkerHealth): void {
    this.#health.setStatus("winnow.startup", started ? "SERVING" : "NOT_SERVING");
    this.#health.setStatus("winnow.shard.v1.Shard", ready ? "SERVING" : "NOT_SERVING");
  }

  /**
   * Refuses new streams, sends DRAIN on each open one, waits until the routers have ended them (at
   * most `graceMs`), then closes the server. Streams that are still open after that are cut off.
   */
  async drain(graceMs: number): Promise<void> {
    this.#isDraining = true;
    this.#health.setStatus("winnow.shard.v1.Shard", "NOT_SERVING");
    for (const link of this.#links) link.drain();
    await this.#linksEnded(graceMs);
    const { clock } = this.#parts.environment;
    const timer = clock.setTimer(SHUTDOWN_MS, () => this.#server.forceShutdown());
    await new Promise<void>((resolve) => {
      this.#server.tryShutdown(() => resolve());
    });
    clock.clearTimer(timer);
    this.#door.close();
  }

  /** Cuts everything off at once. */
  close(): void {
    this.#isDraining = true;
    this.#server.forceShutdown();
    this.#door.close();
  }

  #bind(): Promise<void> {
    const { host, port } = this.#settings;
    return new Promise((resolve, reject) => {
      const address = hostPort(host, port);
      const credentials = portCredentials(this.#parts.tls?.source);
      this.#server.bindAsync(address, credentials, (cause, bound) => {
        this.#port = bound;
        if (cause === null) return resolve();
        reject(listenFault(address, cause, "--port and --host"));
      });
    });
  }

  /** Logs at most one failed handshake per `HANDSHAKE_LOG_MS`: anybody who reaches the port can cause them. */
  #logHandshake(reason: string): void {
    const { clock, log } = this.#parts.environment;
    if (clock.nowMs() < this.#handshakeLoggedMs + HANDSHAKE_LOG_MS) return;
    this.#handshakeLoggedMs = clock.nowMs();
    log.warn("a connection was refused in its TLS handshake", { reason: excerpt(reason) });
  }

  #linksEnded(graceMs: number): Promise<void> {
    if (this.#links.size === 0) return Promise.resolve();
    const { clock, log } = this.#parts.environment;
    return new Promise((resolve) => {
      const timer = clock.setTimer(graceMs, () => {
        log.warn("streams cut off at the end of the drain", { streams: this.#links.size });
        this.#server.forceShutdown();
        resolve();
      });
      this.#onLastLink = () => {
        clock.clearTimer(timer);
        resolve();
      };
    });
  }

  #handlers(): ShardHandlers {
    const { service, environment } = this.#parts;
    const { clock } = environment;
    return {
      Describe: (_, reply) => reply(null, encodeAnnouncement(service.announcement())),
      GetProgram: (call) => void this.#programs.answer(call),
      FollowOrder: ({ request }, reply) => {
        followOrder(request, service).then(
          () => reply(null, {}),
          (error: unknown) => reply(failureOf(error)),
        );
      },
      DrainWorker: ({ request }, reply) => {
        try {
          service.drainOnOrder({ signed: request.order, isFromMember: this.#isReachedByMembers() });
          reply(null, {});
        } catch (error) {
          reply(failureOf(error));
        }
      },
      GetOrder: (_, reply) => reply(null, { order: service.knownOrder() ?? "" }),
      Exchange: (call) => {
        if (this.#isDraining) {
          call.emit("error", { code: status.UNAVAILABLE, details: "The worker is draining" });
          return;
        }
        const link = new RouterLink(
          call,
          { service, clock, onEnd: (ended) => this.#forget(ended) },
          {
            unreadBytesMax: this.#settings.unreadBytesMax,
            replyBytesMax: MESSAGE_BYTES_MAX / 2,
            silentMs: this.#settings.silentRouterMs,
            helloMs: this.#settings.helloMs,
          },
        );
        this.#links.add(link);
      },
    };
  }

  /**
   * Whether only members, or only processes of this machine, can reach the port. The peer's address does not
   * count, because a proxy on this machine passes on connections of others.
   */
  #isReachedByMembers(): boolean {
    return this.#parts.tls !== undefined || isLoopback(this.#settings.host);
  }

  #forget(link: RouterLink): void {
    this.#links.delete(link);
    if (this.#links.size === 0) this.#onLastLink?.();
  }
}

async function followOrder(
  { what, order, draft }: FollowOrderRequest__Output,
  service: WorkerService,
): Promise<void> {
  if (what === undefined) throw new WinnowError("INVALID_ARGUMENT", "Neither order nor draft");
  await service.followOrder({ kind: what, signed: order ?? draft ?? "" });
}

/** Limits by path; those of "" are for all other paths. */
function placesOf(settings: WorkerServerSettings): ReadonlyMap<string, PlaceLimits> {
  const { streamsMax, watchesMax, callsMax, perConnectionMax } = settings;
  const place = (kind: string, max: number, keeps: PlaceLimits["keeps"]): PlaceLimits => ({
    kind,
    max,
    perConnectionMax,
    keeps,
  });
  return new Map([
    [EXCHANGE, place("streams", streamsMax, "nothing")],
    [HEALTH_WATCH, place("health watches", watchesMax, "request")],
    ["", place("calls", callsMax, "request")],
  ]);
}
