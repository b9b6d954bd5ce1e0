// Requests that arrive on a connection while it has an earlier one under way (HTTP/1.1 pipelining). Node reads
// up to 2 MB of a connection in one turn of the event loop and hands out every request in them, so that a client with
// thousands of requests on one connection would delay all others by a second. Here only the first one begins at once:
//
//   arrives ── nothing under way on its connection ──────────────────────▶ begun ──▶ answered
//      └── else: waits; nothing more is read of its connection ── turn ───▶ begun
//
// In each turn a few of those that wait begin, one of a connection after the other, so that a client that sends more has
// no more of a turn than one that sends little. Answers keep their order, which Node sees to.
//
// The first request of a connection waits, too, in a turn in which many have come, and until those that had to wait have
// begun: if a thousand clients ask at the same time, answers of workers and clients that ask for little would otherwise
// wait until the loop has worked on all of them. Of the requests that wait, those with short bodies or none go before the
// others, which keep a part of each turn.
//
// That leaves what it costs to make requests of the bytes. Where many wait that came in one turn, the connections of the
// server, and those that are opened in the minute after, are read in small pieces (`divided-reading.ts`).

import type { IncomingMessage, RequestListener, ServerResponse } from "node:http";
import type { Socket } from "node:net";
import { Outstanding, nextLoopTurn } from "@winnow/core";
import type { Clock } from "@winnow/core";
import { DividedReading } from "./divided-reading.ts";
import { closeIfBytesAreLost, closeWith, offersUpgrade } from "./offered-upgrade.ts";

/** Requests of one connection that are under way at the same time. */
const UNDER_WAY_MAX = 32;

/** Requests of all connections that begin in one turn after they have waited: about a millisecond of work. */
const BEGUN_IN_TURN_MAX = 16;

/** First requests of connections that begin in one turn as they come. */
const BEGUN_AT_ONCE_MAX = 128;

/** After so many, the end of the turn is waited for: a turn with fewer costs nothing. */
const COUNTED_UNTIL_TURN = 32;

/** First requests of connections that begin in one turn after they have waited; and of these, long ones beside short ones. */
const LATE_IN_TURN_MAX = 32;
const LATE_LONG_IN_TURN_MIN = 8;

/** A body of at most this many bytes is short: a few instances. */
const SHORT_BODY_BYTES = 256;

/** Requests of all connections that come in one turn while others of theirs are under way, before reading is divided. */
const UNDIVIDED_IN_TURN_MAX = 256;

/** How long new connections are divided after so many came for the last time. */
const DIVIDED_FOR_MS = 60_000;

interface WaitingRequest {
  readonly request: IncomingMessage;
  readonly response: ServerResponse;
  readonly handle: () => void;
}

/** One connection. */
interface Line {
  readonly socket: Socket;
  underWay: number;
  readonly waiting: WaitingRequest[];
  /** Whether the connection is not read. */
  isHeld: boolean;
  /** Whether what is read of the connection is divided. */
  isDivided: boolean;
  /** Called once nothing waits and nothing is under way. */
  onIdle: (() => void) | undefined;
}

/** The requests of a server's connections. */
export class PipelinedRequests {
  readonly #lines = new WeakMap<Socket, Line>();
  /** Connections of which a request may begin, the next one first. */
  readonly #next = new Set<Line>();
  /** Connections whose first request came in a turn with many others, with a short body or a long one. */
  readonly #lateShort = new Set<Line>();
  readonly #lateLong = new Set<Line>();
  /** All open connections. */
  readonly #open = new Outstanding<Socket>();
  readonly #clock: Clock;
  #dividedUntilMs = -Infinity;
  /** Requests that had to wait since this turn began. */
  #waitedInTurn = 0;
  #isTurning = false;
  /** First requests that have begun as they came, since a turn ended after many of them. */
  #begunAtOnce = 0;

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /** Hands requests to `listener`, those of one connection in order, and none of a connection that is closed. */
  listener(listener: RequestListener): RequestListener {
    return (request, response) => {
      const handle = (): void => listener(request, response);
      const line = this.#lineOf(request.socket);
      if (offersUpgrade(request)) this.#offered(line, request, response);
      this.#take(line, { request, response, handle });
    };
  }

  /** Tells of a new connection, once Node's HTTP parser reads it. */
  opened(socket: Socket): void {
    const id = this.#open.add(socket);
    socket.once("close", () => this.#open.delete(id));
    if (this.#clock.nowMs() < this.#dividedUntilMs) this.#divide(this.#lineOf(socket));
  }

  #offered(line: Line, request: IncomingMessage, response: ServerResponse): void {
    // A divided connection, which brings many requests at a time, has mostly more behind the piece that is read.
    if (line.isDivided) closeWith(response);
    else closeIfBytesAreLost(request, response);
  }

  #take(line: Line, taken: WaitingRequest): void {
    const isFirst = line.underWay === 0 && line.waiting.length === 0;
    if (isFirst && this.#mayBeginAtOnce()) return this.#begin(line, taken);
    line.waiting.push(taken);
    if (isFirst) return this.#offerFirst(line, taken.request);
    if (!line.isHeld) {
      line.isHeld = true;
      line.socket.pause();
    }
    this.#countWaiting();
    this.#offer(line);
  }

  #mayBeginAtOnce(): boolean {
    const isCrowded = this.#lateShort.size + this.#lateLong.size > 0;
    if (isCrowded || this.#begunAtOnce >= BEGUN_AT_ONCE_MAX) return false;
    this.#begunAtOnce += 1;
    if (this.#begunAtOnce === COUNTED_UNTIL_TURN) {
      void nextLoopTurn().then(() => (this.#begunAtOnce = 0));
    }
    return true;
  }

  #countWaiting(): void {
    if (this.#waitedInTurn === 0) void nextLoopTurn().then(() => (this.#waitedInTurn = 0));
    this.#waitedInTurn += 1;
    if (this.#waitedInTurn !== UNDIVIDED_IN_TURN_MAX) return;
    this.#dividedUntilMs = this.#clock.nowMs() + DIVIDED_FOR_MS;
    for (const socket of this.#open) this.#divide(this.#lineOf(socket));
  }

  /** Once it is read again, if it is paused: only then Node reads on when its parser no longer does. */
  #divide(line: Line): void {
    const { socket } = line;
    if (line.isDivided) return;
    if (socket.isPaused()) socket.once("resume", () => this.#divide(line));
    else line.isDivided = DividedReading.of(socket, () => line.isHeld) !== undefined;
  }

  /**
   * Calls `act`, at once if no request of a connection waits; else once none waits or is under way, or the last one has
   * begun and has no end, and then only the first that was given for that connection.
   */
  whenIdle(socket: Socket, act: () => void): void {
    const line = this.#lines.get(socket);
    if (line === undefined || line.waiting.length === 0) act();
    else line.onIdle ??= act;
  }

  #lineOf(socket: Socket): Line {
    const known = this.#lines.get(socket);
    if (known !== undefined) return known;
    const line: Line = {
      socket,
      underWay: 0,
      waiting: [],
      isHeld: false,
      isDivided: false,
      onIdle: undefined,
    };
    this.#lines.set(socket, line);
    // Node resumes a connection whenever a request of it has arrived, or its body is read.
    const resume = socket.resume.bind(socket);
    socket.resume = () => (line.isHeld ? socket : resume());
    socket.once("close", () => {
      this.#lines.delete(socket);
      line.waiting.length = 0;
      for (const lines of [this.#next, this.#lateShort, this.#lateLong]) lines.delete(line);
    });
    return line;
  }

  #begin(line: Line, { response, handle }: WaitingRequest): void {
    line.underWay += 1;
    handle();
    // After the listeners of `handle`, for whom the request has ended then.
    response.once("close", () => {
      line.underWay -= 1;
      if (line.waiting.length > 0) this.#offer(line);
      else if (line.underWay === 0) tellIdle(line);
    });
  }

  /** Has the next request of a connection begin in one of the next turns, if it has one and may have one more. */
  #offer(line: Line): void {
    if (line.waiting.length === 0 || line.underWay >= UNDER_WAY_MAX) return;
    this.#next.add(line);
    if (!this.#isTurning) void this.#turn(); // Never rejects.
  }

  /** Has the first request of a connection begin in one of the next turns. */
  #offerFirst(line: Line, request: IncomingMessage): void {
    (hasShortBody(request) ? this.#lateShort : this.#lateLong).add(line);
    if (!this.#isTurning) void this.#turn(); // Never rejects.
  }

  async #turn(): Promise<void> {
    this.#isTurning = true;
    while (this.#next.size + this.#lateShort.size + this.#lateLong.size > 0) {
      await nextLoopTurn();
      const long = Math.min(LATE_LONG_IN_TURN_MIN, this.#lateLong.size);
      const short = this.#beginSome(this.#lateShort, LATE_IN_TURN_MAX - long);
      this.#beginSome(this.#lateLong, LATE_IN_TURN_MAX - short);
      this.#beginSome(this.#next, BEGUN_IN_TURN_MAX);
    }
    this.#isTurning = false;
  }

  /** Has the next request of some of these connections begin, of `most` at most; gives of how many. */
  #beginSome(lines: Set<Line>, most: number): number {
    let begun = 0;
    for (const line of lines) {
      if (begun === most) break;
      lines.delete(line);
      const taken = line.waiting.shift();
      // It was in two lists, and its request has begun already.
      if (taken === undefined) continue;
      begun += 1;
      this.#begin(line, taken);
      // It goes behind the others.
      this.#offer(line);
      if (line.waiting.length === 0) this.#lastBegun(line, taken.request);
    }
    return begun;
  }

  /** None of a connection waits any more. */
  #lastBegun(line: Line, request: IncomingMessage): void {
    if (line.isHeld) {
      line.isHeld = false;
      line.socket.resume();
    }
    // What broke is the body of this request, which will not end by itself.
    if (!request.complete) tellIdle(line);
  }
}

function tellIdle(line: Line): void {
  const { onIdle } = line;
  line.onIdle = undefined;
  onIdle?.();
}

function hasShortBody({ headers }: IncomingMessage): boolean {
  const isChunked = headers["transfer-encoding"] !== undefined;
  return !isChunked && Number(headers["content-length"] ?? 0) <= SHORT_BODY_BYTES;
}
