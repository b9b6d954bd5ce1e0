// The worker's gRPC server: streams of routers, Describe, GetProgram, SetModels,
// health. Its drain is the order
// that loses nothing: DRAIN frame, routers end their streams, and only then the listener closes (a
// GOAWAY before that may kill calls in flight: grpc-node #3068).

import { Server, ServerCredentials, status } from "@grpc/grpc-js";
import type { ServerWritableStream, ServiceError } from "@grpc/grpc-js";
import { WinnowError, fingerprint, grpcStatusOf, toWinnowError } from "@winnow/core";
import type { Environment } from "@winnow/core";
import { HealthImplementation } from "grpc-health-check";
import { encodeAnnouncement } from "../announcement-codec.ts";
import type { ProgramChunk } from "./generated/winnow/shard/v1/ProgramChunk.ts";
import type { ProgramRequest__Output } from "./generated/winnow/shard/v1/ProgramRequest.ts";
import type { SetModelsRequest__Output } from "./generated/winnow/shard/v1/SetModelsRequest.ts";
import { decodeModelsOrder } from "./models-order.ts";
import { cutDetails } from "./malformed-frame.ts";
import { RouterLink } from "./router-link.ts";
import { MESSAGE_BYTES_MAX, SERVER_OPTIONS, shardService } from "./shard-service.ts";
import type { ShardHandlers } from "./shard-service.ts";
import type { WorkerService } from "./worker-link.ts";

/** What Kubernetes' probes ask: is the first load done; does it take traffic. */
export interface WorkerHealth {
  /** `winnow.startup`: the first share is loaded, or refused with a reason. */
  readonly started: boolean;
  /** `winnow.shard.v1.Shard`: loaded and not draining. */
  readonly ready: boolean;
}

/** Where and how a worker listens. */
export interface WorkerServerSettings {
  /** Interface to listen on. Default 127.0.0.1. */
  readonly host: string;
  /** Default 0: any free port. */
  readonly port: number;
  /** Bytes of replies a router may leave unread before it is disconnected. Default 64 MiB. */
  readonly unreadBytesMax: number;
  /** Without a frame of a router for so long its stream is ended; it pings. Default 10,000 ms. */
  readonly silentRouterMs: number;
}

/** A worker that routers can reach: a `WorkerServer`, or what a simulator has instead. */
export type WorkerListener = Pick<WorkerServer, "port" | "setHealth" | "drain" | "close">;

/** Makes a worker reachable. @throws WinnowError UNAVAILABLE when the address cannot be had */
export type ListenForRouters = (
  parts: WorkerServerParts,
  settings: Partial<WorkerServerSettings>,
) => Promise<WorkerListener>;

/** What a server serves, and with which clock. */
export interface WorkerServerParts {
  readonly service: WorkerService;
  readonly environment: Environment;
}

const PROGRAM_CHUNK_BYTES = 1024 * 1024;
/** Between the last stream's end and the connections' own. */
const SHUTDOWN_MS = 500;
const DEFAULTS: WorkerServerSettings = {
  host: "127.0.0.1",
  port: 0,
  unreadBytesMax: 64 * 1024 * 1024,
  silentRouterMs: 10_000,
};

/** A listening worker. */
export class WorkerServer {
  readonly #server: Server;
  readonly #parts: WorkerServerParts;
  readonly #settings: WorkerServerSettings;
  readonly #health = new HealthImplementation({ "": "SERVING" });
  readonly #links = new Set<RouterLink>();
  #port = 0;
  #isDraining = false;
  #onLastLink: (() => void) | undefined;

  private constructor(parts: WorkerServerParts, settings: WorkerServerSettings) {
    this.#parts = parts;
    this.#settings = settings;
    this.#server = new Server(SERVER_OPTIONS);
    this.#server.addService(shardService, this.#handlers());
    this.#health.addToServer(this.#server);
    this.setHealth({ started: false, ready: false });
  }

  /** Listens. @throws WinnowError UNAVAILABLE when the address cannot be had */
  static async listen(
    parts: WorkerServerParts,
    settings: Partial<WorkerServerSettings> = {},
  ): Promise<WorkerServer> {
    const worker = new WorkerServer(parts, { ...DEFAULTS, ...settings });
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

  /** Sets what the health service answers. */
  setHealth({ started, ready }: WorkerHealth): void {
    this.#health.setStatus("winnow.startup", started ? "SERVING" : "NOT_SERVING");
    this.#health.setStatus("winnow.shard.v1.Shard", ready ? "SERVING" : "NOT_SERVING");
  }

  /**
   * Refuses new streams, sends DRAIN on each open one, waits until the routers have ended them (at
   * most `graceMs`), then closes the server. What is still open after that is cut off.
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
  }

  /** Cuts everything off at once. */
  close(): void {
    this.#isDraining = true;
    this.#server.forceShutdown();
  }

  #bind(): Promise<void> {
    const { host, port } = this.#settings;
    return new Promise((resolve, reject) => {
      const address = host.includes(":") ? `[${host}]:${port}` : `${host}:${port}`;
      this.#server.bindAsync(address, ServerCredentials.createInsecure(), (cause, bound) => {
        this.#port = bound;
        if (cause === null) return resolve();
        reject(new WinnowError("UNAVAILABLE", `Cannot listen on ${address}`, { cause }));
      });
    });
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
      GetProgram: (call) => void sendProgram(call, service),
      SetModels: ({ request }, reply) => {
        setModels(request, service).then(
          () => reply(null, {}),
          (error: unknown) => reply(failureOf(error)),
        );
      },
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
          },
        );
        this.#links.add(link);
      },
    };
  }

  #forget(link: RouterLink): void {
    this.#links.delete(link);
    if (this.#links.size === 0) this.#onLastLink?.();
  }
}

type ProgramCall = ServerWritableStream<ProgramRequest__Output, ProgramChunk>;

/** Sends a program in chunks, no faster than the router reads. */
async function sendProgram(call: ProgramCall, service: WorkerService): Promise<void> {
  const { request } = call;
  try {
    const bytes = await service.program({
      version: {
        model: request.model,
        version: request.version,
        fingerprint: fingerprint(request.fingerprint),
      },
      tableBytesMax: request.table_bytes_max,
    });
    for (let at = 0; at < bytes.length && !call.cancelled; at += PROGRAM_CHUNK_BYTES) {
      const data = bytes.subarray(at, at + PROGRAM_CHUNK_BYTES);
      if (!call.write({ data })) await drained(call);
    }
    call.end();
  } catch (error) {
    call.emit("error", failureOf(error));
  }
}

async function setModels(request: SetModelsRequest__Output, service: WorkerService): Promise<void> {
  await service.orderModels(decodeModelsOrder(request));
}

function failureOf(error: unknown): Partial<ServiceError> {
  const { code, message } = toWinnowError(error);
  return { code: grpcStatusOf(code), details: cutDetails(message) };
}

function drained(call: ProgramCall): Promise<void> {
  return new Promise((resolve) => {
    for (const event of ["drain", "cancelled", "close"]) call.once(event, () => resolve());
  });
}
