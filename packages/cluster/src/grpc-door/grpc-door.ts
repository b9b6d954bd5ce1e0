// Bounds every stream of a gRPC server, from its headers to its close, whatever it asks for.
// grpc-js accepts any number of streams, keeps unfinished messages for as long as a client likes,
// and keeps answers that no client reads: it has no limits for these. A door sets limits on the
// connections and streams below grpc-js (`watchHttp2`):
//
//   connection ── too many: the one longest in a handshake of TLS is closed, else the one longest
//     │           without a stream, else the new one
//     └─ stream ── no place left, on its connection or at all ──▶ UNAVAILABLE
//          │ arriving ── stalls, takes too long, no memory ──▶ DEADLINE_EXCEEDED, UNAVAILABLE
//          │    └─ makes no progress, and another stream needs the place ──▶ UNAVAILABLE
//          │ waits until it is its connection's turn to begin (`stream-turns.ts`)
//          │    └─ of a connection with more that wait than another, which needs the place ──▶ UNAVAILABLE
//          ▼ request complete: the handler runs
//          │ answer ── no memory ──▶ UNAVAILABLE; unread: stalls, takes too long ──▶ cut
//          ▼
//        answered; the rest of an unfinished request is not read
//
// Places are counted per kind of stream: calls, health watches, routers' streams. No kind takes
// places of another, and one connection gets only a part of each kind. Bytes of requests count as
// they arrive and as they are unpacked, bytes of answers until they are written
// (`core/src/limits/transfers.ts`).

import { constants } from "node:http2";
import type {
  Http2Server,
  IncomingHttpHeaders,
  ServerHttp2Session,
  ServerHttp2Stream,
} from "node:http2";
import type { ListenOptions, Socket } from "node:net";
import { Server as TlsServer } from "node:tls";
import { status } from "@grpc/grpc-js";
import type { ChannelOptions, Server, ServerInterceptor } from "@grpc/grpc-js";
import { Outstanding, Transfers } from "@winnow/core";
import type { Clock, GiveUpReason, HeldMemory } from "@winnow/core";
import { UNACCEPTED_MAX } from "../http-door/connection-room.ts";
import { SocketsBeneath } from "../tls/sockets-beneath.ts";
import { DoorStream } from "./door-stream.ts";
import type { DoorStreamParts } from "./door-stream.ts";
import { type NewcomerWaits, Newcomers } from "./newcomers.ts";
import { StreamLine, StreamTurns } from "./stream-turns.ts";

/** How many streams of one kind may be open. */
export interface PlaceLimits {
  /** The name of the kind in messages: `calls`, `watches`. */
  readonly kind: string;
  readonly max: number;
  readonly perConnectionMax: number;
  /**
   * What counts as held until the stream ends. `request`: all bytes that have arrived. `nothing`,
   * for a stream of messages: each message counts only until it is complete.
   */
  readonly keeps: "request" | "nothing";
}

/** Bounds of a door. */
export interface GrpcDoorSettings {
  /** Open connections; beyond it, one without a stream or still in its handshake is closed, otherwise the new one. */
  readonly connectionsMax: number;
  /** Bytes of one message, unpacked. */
  readonly messageBytesMax: number;
  /** Bytes of all requests that are arriving or being worked on. */
  readonly requestBytesInFlightMax: number;
  /** Of these bytes, how many are reserved for requests of up to `smallBodyBytes`. */
  readonly bodyReserveBytes: number;
  readonly smallBodyBytes: number;
  /** Milliseconds within which a request must bring another 64 KiB, or its end. */
  readonly bodyStallMs: number;
  /** Milliseconds for a whole request to arrive. */
  readonly bodyTimeoutMs: number;
  /** Bytes of all answers that clients have not read. */
  readonly answerBytesInFlightMax: number;
  /** Milliseconds within which a client must read another 64 KiB of an answer, or the rest. */
  readonly answerStallMs: number;
  /** Milliseconds within which a whole answer must be read. */
  readonly answerTimeoutMs: number;
  /** Milliseconds between checks for slow transfers. */
  readonly connectionCheckMs: number;
}

/** What a door is made with. */
export interface GrpcDoorParts {
  readonly clock: Clock;
  readonly settings: GrpcDoorSettings;
  /** The kind of place that a path takes; the same object for each path of a kind. */
  readonly placeOf: (path: string) => PlaceLimits;
  /** Called when a request or an answer is given up: a slow client, or no memory or place. */
  readonly onGivenUp?: ((what: "body" | "answer", reason: GiveUpReason) => void) | undefined;
  /** Called when a TLS handshake fails, or its client is not admitted. */
  readonly onHandshakeFailure?: ((reason: string) => void) | undefined;
  /** Whether a connection may stay, once its handshake is over. Default: yes. */
  readonly admits?: ((socket: Socket) => boolean) | undefined;
}

interface Connection {
  /** To be destroyed directly: the session's `destroy()` waits until the kernel has taken all written bytes. */
  readonly socket: Socket;
  /** The TCP connection of `socket`: `socket` itself without TLS. */
  readonly beneath: Socket;
  /** How many of its streams have a place. */
  streams: number;
  readonly shares: Map<PlaceLimits, Share>;
  isOpen: boolean;
  /** Among the idle connections, if it is one. */
  idleId: number;
}

/** What a connection has of the places of one kind. */
interface Share {
  streams: number;
  readonly line: StreamLine<OpenedStream>;
}

/** A stream that has a place, and can be handed to grpc-js. */
class OpenedStream {
  readonly stream: DoorStream;
  readonly serve: () => void;

  constructor(stream: DoorStream, serve: () => void) {
    this.stream = stream;
    this.serve = serve;
  }

  get isOver(): boolean {
    return this.stream.isOver;
  }
}

/** The places of one kind. */
interface Places {
  /** Streams that have a place. */
  readonly taken: Outstanding<DoorStream>;
  /** Those of them that have not begun. */
  readonly turns: StreamTurns<OpenedStream>;
}

/** The streams and connections of one gRPC server. */
export class GrpcDoor {
  readonly #settings: GrpcDoorSettings;
  readonly #placeOf: (path: string) => PlaceLimits;
  readonly #requests: Transfers;
  readonly #answers: Transfers;
  readonly #streamParts: DoorStreamParts;
  #open = 0;
  /** Connections without a stream, the one idle longest first. */
  readonly #idle = new Outstanding<Connection>();
  readonly #connectionOf = new WeakMap<ServerHttp2Session, Connection>();
  /** Connections in their TLS handshake, the oldest first. */
  readonly #shaking = new Set<Socket>();
  readonly #newcomers: Newcomers;
  readonly #admits: (socket: Socket) => boolean;
  readonly #onHandshakeFailure: (reason: string) => void;
  readonly #places = new Map<PlaceLimits, Places>();
  /** The stream that is being handed to grpc-js, which runs its interceptors within that call. */
  #begun: DoorStream | undefined;

  constructor(parts: GrpcDoorParts) {
    const { clock, settings, placeOf, onGivenUp } = parts;
    this.#settings = settings;
    this.#placeOf = placeOf;
    this.#newcomers = new Newcomers(clock);
    this.#admits = parts.admits ?? (() => true);
    this.#onHandshakeFailure = parts.onHandshakeFailure ?? (() => undefined);
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
   * Open connections; those in a handshake count.
   *
   * @internal tests read it
   */
  get connections(): number {
    return this.#open + this.#shaking.size;
  }

  /**
   * Open streams that have a place.
   *
   * @internal tests read it
   */
  get streams(): number {
    return [...this.#places.values()].reduce((sum, { taken }) => sum + taken.size, 0);
  }

  /** The memory held for requests and answers. */
  held(): readonly HeldMemory[] {
    const { bytes, bytesMax } = this.#requests;
    return [
      { kind: "requests", bytes, bytesMax },
      { kind: "answers", bytes: this.#answers.bytes, bytesMax: this.#answers.bytesMax },
    ];
  }

  /** To be passed with the server's options, as the first of its interceptors. */
  readonly interceptor: ServerInterceptor = (_method, call) => {
    this.#begun?.adopt(call);
    // grpc-js needs only the interface of a call, and returning the call itself saves a layer.
    return call as ReturnType<ServerInterceptor>;
  };

  /** Server options that announce the door's bounds to clients. */
  static options(places: readonly PlaceLimits[]): ChannelOptions {
    const most = Math.max(...places.map(({ perConnectionMax }) => perConnectionMax));
    return { "grpc.max_concurrent_streams": most };
  }

  /** Installs the door at a server that does not listen yet. */
  guard(server: Server): void {
    watchHttp2(server, {
      onServer: (http2Server) => this.#newcomers.follow(http2Server),
      onShaking: (socket) => this.#shakes(socket),
      onShakingFailed: (reason) => this.#onHandshakeFailure(reason),
      onSession: (session, socket, beneath) => this.#connected(session, socket, beneath),
      onStream: (stream, headers, serve) => this.#opened(stream, headers, serve),
    });
  }

  /** Before a drain: stops listening, and resolves when those who have connected have had their first call. */
  stopListening(waits: NewcomerWaits): Promise<void> {
    return this.#newcomers.stopListening(waits);
  }

  /** Stops the checks of transfers. */
  close(): void {
    this.#requests.close();
    this.#answers.close();
  }

  #shakes(socket: Socket): void {
    if (!this.#makeRoom()) return void socket.destroy();
    this.#shaking.add(socket);
    socket.once("close", () => this.#shaking.delete(socket));
  }

  #connected(session: ServerHttp2Session, socket: Socket, beneath: Socket): void {
    this.#shaking.delete(beneath);
    if (!this.#admits(socket)) {
      this.#onHandshakeFailure("its certificate lacks the DNS name of --cluster-tls-name");
      return void socket.destroy();
    }
    if (!this.#makeRoom()) return void socket.destroy();
    const connection: Connection = {
      socket,
      beneath,
      streams: 0,
      shares: new Map(),
      isOpen: true,
      idleId: 0,
    };
    this.#open += 1;
    connection.idleId = this.#idle.add(connection);
    this.#connectionOf.set(session, connection);
    session.once("close", () => {
      this.#open -= 1;
      connection.isOpen = false;
      this.#idle.delete(connection.idleId);
      this.#connectionOf.delete(session);
    });
  }

  /** Makes room for one more connection if need be; `false` if there is none. */
  #makeRoom(): boolean {
    if (this.connections < this.#settings.connectionsMax) return true;
    const [shaking] = this.#shaking;
    if (shaking !== undefined) {
      this.#shaking.delete(shaking);
      shaking.destroy();
      return true;
    }
    const idle = this.#idle.oldest;
    if (idle === undefined) return false;
    this.#idle.delete(idle.idleId);
    idle.socket.destroy();
    return true;
  }

  #opened(stream: ServerHttp2Stream, headers: IncomingHttpHeaders, serve: () => void): void {
    const connection = this.#connectionOf.get(stream.session as ServerHttp2Session);
    if (connection === undefined) return stream.close(constants.NGHTTP2_REFUSED_STREAM);
    this.#newcomers.called(connection.beneath);
    const opened = new DoorStream(stream, connection.socket, this.#streamParts);
    const limits = this.#placeOf(String(headers[constants.HTTP2_HEADER_PATH]));
    const refusal = this.#takePlace(opened, connection, limits);
    if (refusal !== undefined) return opened.refuse(status.UNAVAILABLE, refusal);
    dropFarDeadline(headers);
    const { line } = shareOf(connection, limits);
    this.#placesOf(limits).turns.take(line, new OpenedStream(opened, serve));
  }

  #begin({ stream, serve }: OpenedStream, keeps: PlaceLimits["keeps"]): void {
    this.#begun = stream;
    try {
      serve();
    } finally {
      this.#begun = undefined;
    }
    stream.follow(keeps);
  }

  #placesOf(limits: PlaceLimits): Places {
    let places = this.#places.get(limits);
    if (places === undefined) {
      const turns: Places["turns"] = new StreamTurns((opened) => this.#begin(opened, limits.keeps));
      this.#places.set(limits, (places = { taken: new Outstanding(), turns }));
    }
    return places;
  }

  /** Takes a place for the stream; gives the reason if there is none. */
  #takePlace(stream: DoorStream, connection: Connection, limits: PlaceLimits): string | undefined {
    const { kind, max, perConnectionMax } = limits;
    const { taken, turns } = this.#placesOf(limits);
    const share = shareOf(connection, limits);
    if (share.streams >= perConnectionMax) {
      return `All ${perConnectionMax} places for ${kind} of one connection are taken; try again`;
    }
    if (taken.size >= max) {
      const noPlace = `All ${max} places for ${kind} are taken; try again`;
      const stillest = this.#requests.hasStill ? stillestOf(taken) : undefined;
      const waiting = stillest === undefined ? turns.giveWay(share.line) : undefined;
      stillest?.giveUp("places");
      waiting?.stream.refuse(status.UNAVAILABLE, noPlace);
      if (stillest === undefined && waiting === undefined) return noPlace;
    }
    this.#hold(stream, connection, limits);
    return undefined;
  }

  #hold(stream: DoorStream, connection: Connection, limits: PlaceLimits): void {
    const { taken } = this.#placesOf(limits);
    const share = shareOf(connection, limits);
    const id = taken.add(stream);
    if (connection.streams === 0) this.#idle.delete(connection.idleId);
    connection.streams += 1;
    share.streams += 1;
    stream.onOver(() => {
      taken.delete(id);
      connection.streams -= 1;
      share.streams -= 1;
      if (connection.streams > 0 || !connection.isOpen) return;
      // As the last in order it gives way last.
      connection.idleId = this.#idle.add(connection);
    });
  }
}

function shareOf({ shares }: Connection, limits: PlaceLimits): Share {
  let share = shares.get(limits);
  if (share === undefined) shares.set(limits, (share = { streams: 0, line: new StreamLine() }));
  return share;
}

/** The longest deadline that grpc-js keeps, whose milliseconds wrap at 32 bits: some 24 days. */
const DEADLINE_MS_MAX = 2 ** 31 - 1;
/** Milliseconds of those units of `grpc-timeout` in which 8 digits can say more. */
const UNITS_MS = new Map([
  ["H", 3_600_000],
  ["M", 60_000],
  ["S", 1000],
]);

/** Takes a deadline from a call that grpc-js would read as one that has passed. */
function dropFarDeadline(headers: IncomingHttpHeaders): void {
  const [, count = "", unit = ""] = /(\d{1,8})\s*([HMS])/.exec(String(headers[TIMEOUT])) ?? [];
  if (Number(count) * (UNITS_MS.get(unit) ?? 0) > DEADLINE_MS_MAX) delete headers[TIMEOUT];
}

const TIMEOUT = "grpc-timeout";

/** The stream whose request has not moved for longest; none if all move or are complete. */
function stillestOf(streams: Iterable<DoorStream>): DoorStream | undefined {
  let stillest: DoorStream | undefined;
  for (const stream of streams) {
    if (stream.stillLooks > (stillest?.stillLooks ?? 0)) stillest = stream;
  }
  return stillest;
}

interface Http2Listener {
  /** A server that does not listen yet. */
  onServer(http2Server: Http2Server): void;
  /** A TLS connection without a session yet. */
  onShaking(socket: Socket): void;
  onShakingFailed(reason: string): void;
  /** `beneath` is the TCP connection of `socket`: `socket` itself without TLS. */
  onSession(session: ServerHttp2Session, socket: Socket, beneath: Socket): void;
  /** `serve` hands the stream to grpc-js. */
  onStream(stream: ServerHttp2Stream, headers: IncomingHttpHeaders, serve: () => void): void;
}

/**
 * Bytes of a call's metadata, which clients are told. A longer list ends its stream, but a single text of 64 KiB the
 * connection with all its calls (and under Node 20 their clients then wait for their deadlines).
 */
const HEADER_BYTES_MAX = 65_535;

type HandlerSetUp = (http2Server: Http2Server, ...more: unknown[]) => void;
const SET_UP = "_setupHandlers";

type StreamListener = (stream: ServerHttp2Stream, ...more: unknown[]) => void;

/**
 * Puts a listener between a server of grpc-js and its connections. grpc-js 1.14 has no interface
 * for that: this replaces its internal method that adds handlers to each HTTP/2 server it makes.
 * The doors' tests fail if the method disappears.
 */
function watchHttp2(server: Server, listener: Http2Listener): void {
  const inner = server as unknown as Record<string, HandlerSetUp | undefined>;
  const setUp = inner[SET_UP];
  if (setUp === undefined) throw new RangeError(`grpc-js has no ${SET_UP}: see watchHttp2`);
  inner[SET_UP] = (http2Server, ...more) => {
    setUp.call(server, http2Server, ...more);
    keepUnaccepted(http2Server);
    http2Server.updateSettings({ maxHeaderListSize: HEADER_BYTES_MAX });
    listener.onServer(http2Server);
    const [serve] = http2Server.listeners("stream") as StreamListener[];
    http2Server.removeAllListeners("stream");
    // Node makes a session, and emits it, within the event of its connection; this is how the
    // socket is found, which the session does not expose.
    let connected: Socket | undefined;
    const beneath = new SocketsBeneath(http2Server);
    for (const event of ["connection", "secureConnection"]) {
      http2Server.prependListener(event, (socket: Socket) => (connected = socket));
    }
    http2Server.on("session", (session) => {
      if (connected !== undefined) listener.onSession(session, connected, beneath.of(connected));
    });
    if (http2Server instanceof TlsServer) {
      http2Server.on("connection", (socket: Socket) => listener.onShaking(socket));
      http2Server.on("tlsClientError", ({ message }) => listener.onShakingFailed(message));
    }
    http2Server.on("stream", (stream, headers, ...rest) => {
      listener.onStream(stream, headers, () => serve?.call(http2Server, stream, headers, ...rest));
    });
  };
}

/** grpc-js leaves the system with Node's few connections that wait to be accepted. */
function keepUnaccepted(http2Server: Http2Server): void {
  const listen = http2Server.listen.bind(http2Server);
  const widely = (options: ListenOptions, onListening?: () => void): Http2Server =>
    listen({ ...options, backlog: UNACCEPTED_MAX }, onListening);
  http2Server.listen = widely as typeof listen;
}
