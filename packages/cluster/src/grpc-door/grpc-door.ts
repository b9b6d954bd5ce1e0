// What every stream of a gRPC server passes, from its headers to its close, whatever it asks for. grpc-js
// itself takes any number of streams, keeps unfinished messages for as long as their client likes, and
// answers that nobody reads; it has no limits for any of these. A door has, on the connections and
// streams below grpc-js (`watchHttp2`):
//
//   connection ── too many: the one longest without a stream is closed, or this one
//     └─ stream ── no place on its connection, or in all ──▶ UNAVAILABLE
//          │ arriving ── stalls, takes too long, no memory ──▶ DEADLINE_EXCEEDED, UNAVAILABLE
//          │    └─ its place is wanted, and it does not move ──▶ UNAVAILABLE
//          ▼ whole: its handler's
//          │ answer ── unread: stalls, takes too long, no memory ──▶ cut
//          ▼
//        answered; a request that goes on is read no further
//
// A place is one of a kind: calls, health watches, routers' streams. Those of one kind never take those of
// another, and one connection has a part of each only. The bytes of requests are counted as they come,
// packed or not, those of answers until they are written (`core/src/transfers.ts`).

import { constants } from "node:http2";
import type {
  Http2Server,
  IncomingHttpHeaders,
  ServerHttp2Session,
  ServerHttp2Stream,
} from "node:http2";
import type { Socket } from "node:net";
import { status } from "@grpc/grpc-js";
import type { ChannelOptions, Server, ServerInterceptor } from "@grpc/grpc-js";
import { Transfers } from "@winnow/core";
import type { Clock, GiveUpReason, HeldMemory } from "@winnow/core";
import { DoorStream } from "./door-stream.ts";
import type { DoorStreamParts } from "./door-stream.ts";

/** How many streams of one kind may be open. */
export interface PlaceLimits {
  /** What the streams are, in a message: `calls`, `watches`. */
  readonly kind: string;
  readonly max: number;
  readonly perConnectionMax: number;
  /**
   * What is held until the stream ends: `request`, all that has come; `nothing` where messages follow
   * each other, and each is held until it is whole.
   */
  readonly keeps: "request" | "nothing";
}

/** Bounds of a door. */
export interface GrpcDoorSettings {
  /** Open connections; then one without a stream gives way, or the new one is closed. */
  readonly connectionsMax: number;
  /** Bytes of one message, unpacked. */
  readonly messageBytesMax: number;
  /** Bytes of all requests that arrive or are worked on. */
  readonly requestBytesInFlightMax: number;
  /** Bytes of these that requests of more than `smallBodyBytes` leave to the small. */
  readonly bodyReserveBytes: number;
  readonly smallBodyBytes: number;
  /** Milliseconds in which a request must bring 64 KiB, or its end. */
  readonly bodyStallMs: number;
  /** Milliseconds for a whole request. */
  readonly bodyTimeoutMs: number;
  /** Bytes of all answers that clients have not read. */
  readonly answerBytesInFlightMax: number;
  /** Milliseconds in which a client must read 64 KiB of an answer, or all. */
  readonly answerStallMs: number;
  /** Milliseconds for the reading of an answer. */
  readonly answerTimeoutMs: number;
  /** Milliseconds between looks for what is too slow. */
  readonly connectionCheckMs: number;
}

/** What a door is made with. */
export interface GrpcDoorParts {
  readonly clock: Clock;
  readonly settings: GrpcDoorSettings;
  /** Which kind of place a path takes; each kind is one and the same object. */
  readonly placeOf: (path: string) => PlaceLimits;
  /** A request was not read to its end, or an answer not written: the client is slow, or room short. */
  readonly onGivenUp?: ((what: "body" | "answer", reason: GiveUpReason) => void) | undefined;
}

interface Connection {
  readonly session: ServerHttp2Session;
  /** Its own destruction waits until the kernel has taken what was written; this one's does not. */
  readonly socket: Socket;
  readonly streams: Set<DoorStream>;
}

/** The streams and connections of one gRPC server. */
export class GrpcDoor {
  readonly #settings: GrpcDoorSettings;
  readonly #placeOf: (path: string) => PlaceLimits;
  readonly #requests: Transfers;
  readonly #answers: Transfers;
  readonly #streamParts: DoorStreamParts;
  /** Those that have been without a stream for longest come first. */
  readonly #connections = new Map<ServerHttp2Session, Connection>();
  /** Streams that have a place, oldest first. */
  readonly #places = new Map<PlaceLimits, Set<DoorStream>>();
  /** The stream that grpc-js is being given: its interceptors run in that call. */
  #begun: DoorStream | undefined;

  constructor({ clock, settings, placeOf, onGivenUp }: GrpcDoorParts) {
    this.#settings = settings;
    this.#placeOf = placeOf;
    const lookMs = settings.connectionCheckMs;
    this.#requests = new Transfers(clock, {
      bytesMax: settings.requestBytesInFlightMax,
      smallBytes: settings.smallBodyBytes,
      reserveBytes: settings.bodyReserveBytes,
      stallMs: settings.bodyStallMs,
      timeoutMs: settings.bodyTimeoutMs,
      lookMs,
    });
    this.#answers = new Transfers(clock, {
      bytesMax: settings.answerBytesInFlightMax,
      smallBytes: 0,
      reserveBytes: 0,
      stallMs: settings.answerStallMs,
      timeoutMs: settings.answerTimeoutMs,
      lookMs,
    });
    this.#streamParts = {
      clock,
      cutMs: lookMs,
      requests: this.#requests,
      answers: this.#answers,
      messageBytesMax: settings.messageBytesMax,
      onGivenUp: (what, reason) => onGivenUp?.(what, reason),
    };
  }

  /**
   * Open connections.
   *
   * @internal tests read it
   */
  get connections(): number {
    return this.#connections.size;
  }

  /**
   * Open streams that have a place.
   *
   * @internal tests read it
   */
  get streams(): number {
    return [...this.#places.values()].reduce((sum, { size }) => sum + size, 0);
  }

  /** The memory held for clients. */
  held(): readonly HeldMemory[] {
    const { bytes, bytesMax } = this.#requests;
    return [
      { kind: "requests", bytes, bytesMax },
      { kind: "answers", bytes: this.#answers.bytes, bytesMax: this.#answers.bytesMax },
    ];
  }

  /** For the server's options, the first of its interceptors. */
  readonly interceptor: ServerInterceptor = (_method, call) => {
    this.#begun?.adopt(call);
    // grpc-js asks for no more than the interface of a call, and a layer less is time less.
    return call as ReturnType<ServerInterceptor>;
  };

  /** Options that tell clients of the door's bounds, before they run into them. */
  static options(places: readonly PlaceLimits[]): ChannelOptions {
    const most = Math.max(...places.map(({ perConnectionMax }) => perConnectionMax));
    return { "grpc.max_concurrent_streams": most };
  }

  /** Stands before a server, which does not listen yet. */
  guard(server: Server): void {
    watchHttp2(server, {
      onSession: (session, socket) => this.#connected(session, socket),
      onStream: (stream, headers, serve) => this.#opened(stream, headers, serve),
    });
  }

  /** Looks at transfers no more. */
  close(): void {
    this.#requests.close();
    this.#answers.close();
  }

  #connected(session: ServerHttp2Session, socket: Socket): void {
    if (this.#connections.size >= this.#settings.connectionsMax) {
      const idle = [...this.#connections.values()].find(({ streams }) => streams.size === 0);
      if (idle === undefined) return void socket.destroy();
      idle.socket.destroy();
    }
    this.#connections.set(session, { session, socket, streams: new Set() });
    session.once("close", () => this.#connections.delete(session));
  }

  #opened(stream: ServerHttp2Stream, headers: IncomingHttpHeaders, serve: () => void): void {
    const connection = this.#connections.get(stream.session as ServerHttp2Session);
    if (connection === undefined) return stream.close(constants.NGHTTP2_REFUSED_STREAM);
    const opened = new DoorStream(stream, connection.socket, this.#streamParts);
    const limits = this.#placeOf(String(headers[constants.HTTP2_HEADER_PATH]));
    const refusal = this.#takePlace(opened, connection, limits);
    if (refusal !== undefined) return opened.refuse(status.UNAVAILABLE, refusal);
    this.#begun = opened;
    try {
      serve();
    } finally {
      this.#begun = undefined;
    }
    opened.follow(limits.keeps);
  }

  /** Why there is no place, if there is none. */
  #takePlace(stream: DoorStream, connection: Connection, limits: PlaceLimits): string | undefined {
    const { kind, max, perConnectionMax } = limits;
    let taken = this.#places.get(limits);
    if (taken === undefined) this.#places.set(limits, (taken = new Set()));
    let own = 0;
    for (const other of connection.streams) if (taken.has(other)) own += 1;
    if (own >= perConnectionMax) {
      return `All ${perConnectionMax} places for ${kind} of one connection are taken; try again`;
    }
    if (taken.size >= max) {
      const stillest = stillestOf(taken);
      if (stillest === undefined) return `All ${max} places for ${kind} are taken; try again`;
      stillest.giveUp("places");
    }
    this.#hold(stream, connection, taken);
    return undefined;
  }

  #hold(stream: DoorStream, connection: Connection, taken: Set<DoorStream>): void {
    taken.add(stream);
    connection.streams.add(stream);
    stream.onOver(() => {
      taken.delete(stream);
      connection.streams.delete(stream);
      const { session } = connection;
      if (connection.streams.size > 0 || !this.#connections.delete(session)) return;
      // Idle from now on: the last that gives way.
      this.#connections.set(session, connection);
    });
  }
}

/** The stream whose request has not moved for longest; none where all of them move, or have come. */
function stillestOf(streams: ReadonlySet<DoorStream>): DoorStream | undefined {
  let stillest: DoorStream | undefined;
  for (const stream of streams) {
    if (stream.stillLooks > (stillest?.stillLooks ?? 0)) stillest = stream;
  }
  return stillest;
}

interface Http2Listener {
  onSession(session: ServerHttp2Session, socket: Socket): void;
  /** `serve` hands the stream to grpc-js. */
  onStream(stream: ServerHttp2Stream, headers: IncomingHttpHeaders, serve: () => void): void;
}

type HandlerSetUp = (http2Server: Http2Server, ...more: unknown[]) => void;
const SET_UP = "_setupHandlers";

type StreamListener = (stream: ServerHttp2Stream, ...more: unknown[]) => void;

/**
 * Puts a listener between a server of grpc-js and its connections. grpc-js 1.14 offers no place for one:
 * this is its own method that dresses each HTTP/2 server it makes, and the tests of the doors fail
 * should it go.
 */
function watchHttp2(server: Server, listener: Http2Listener): void {
  const inner = server as unknown as Record<string, HandlerSetUp | undefined>;
  const setUp = inner[SET_UP];
  if (setUp === undefined) throw new RangeError(`grpc-js has no ${SET_UP}: see watchHttp2`);
  inner[SET_UP] = (http2Server, ...more) => {
    setUp.call(server, http2Server, ...more);
    const [serve] = http2Server.listeners("stream") as StreamListener[];
    http2Server.removeAllListeners("stream");
    // A session is made, and told of, while its connection is: the session itself hides its socket.
    let connected: Socket | undefined;
    for (const event of ["connection", "secureConnection"]) {
      http2Server.prependListener(event, (socket: Socket) => (connected = socket));
    }
    http2Server.on("session", (session) => {
      if (connected !== undefined) listener.onSession(session, connected);
    });
    http2Server.on("stream", (stream, headers, ...rest) => {
      listener.onStream(stream, headers, () => serve?.call(http2Server, stream, headers, ...rest));
    });
  };
}
