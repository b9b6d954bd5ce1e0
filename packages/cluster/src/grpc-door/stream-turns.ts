// Which of a server's streams of one kind begin when. Node hands out all streams that came in one turn of the event loop
// at once: hundreds from each connection that has sent that many, and the calls of others would wait until all of them
// have begun. Here only the first of each connection and a few more begin at once; the others wait for the next turns:
//
//   opened ── none waits, and the connection's first or one of few in this turn ──▶ begun
//      └── else: waits ── turn, one of a connection after the other ─────────────▶ begun, unless it is over by then
//            └── all places are taken: the last stream of the connection that waits with most gives way to others
//
// A connection that sends more has no more of a turn than one that sends little, and a stream that is reset while it
// waits costs no more. How many wait has the bound of the door's places.

import { nextLoopTurn } from "@winnow/core";

/** Streams of all connections that begin in one turn, beyond the first of each: a few milliseconds of work. */
const BEGUN_IN_TURN_MAX = 16;

/** A stream that can begin. */
interface Beginning {
  /** Whether it has ended already. */
  readonly isOver: boolean;
}

/** The order in which streams of a server's connections begin. */
export class StreamTurns<Connection, Stream extends Beginning> {
  readonly #begin: (stream: Stream) => void;
  /** Streams that wait, by their connection, the connection whose turn it is first; no list is empty. */
  readonly #waiting = new Map<Connection, Stream[]>();
  /** Connections of which a stream has begun in this turn. */
  readonly #served = new Set<Connection>();
  #begunInTurn = 0;
  #isTurning = false;

  /** `begin` must not throw. */
  constructor(begin: (stream: Stream) => void) {
    this.#begin = begin;
  }

  /** Has a stream begin, at once or in a later turn, in the order of its connection. */
  take(connection: Connection, stream: Stream): void {
    if (!this.#isTurning) void this.#turn(); // Never rejects.
    const waiting = this.#waiting.get(connection);
    if (waiting !== undefined) waiting.push(stream);
    else if (this.#mayBegin(connection)) this.#serve(connection, stream);
    else this.#waiting.set(connection, [stream]);
  }

  /**
   * Takes the last stream of the connection with most that wait out of its line; none if that connection has no more
   * than one beyond those of `connection`, for which the place would be.
   */
  giveWay(connection: Connection): Stream | undefined {
    let longest = this.#waiting.get(connection) ?? [];
    const most = longest.length + 1;
    for (const waiting of this.#waiting.values()) {
      if (waiting.length > Math.max(most, longest.length)) longest = waiting;
    }
    return longest.length > most ? longest.pop() : undefined;
  }

  #mayBegin(connection: Connection): boolean {
    return this.#begunInTurn < BEGUN_IN_TURN_MAX || !this.#served.has(connection);
  }

  #serve(connection: Connection, stream: Stream): void {
    if (stream.isOver) return;
    this.#served.add(connection);
    this.#begunInTurn += 1;
    this.#begin(stream);
  }

  /** Goes on until a turn has passed in which nothing began. */
  async #turn(): Promise<void> {
    this.#isTurning = true;
    do {
      await nextLoopTurn();
      this.#begunInTurn = 0;
      this.#served.clear();
      this.#serveWaiting();
    } while (this.#begunInTurn > 0);
    this.#isTurning = false;
  }

  #serveWaiting(): void {
    for (const [connection, waiting] of this.#waiting) {
      if (this.#begunInTurn >= BEGUN_IN_TURN_MAX) return;
      this.#waiting.delete(connection);
      const stream = waiting.shift()!;
      // Behind the others, which this loop visits before it comes again.
      if (waiting.length > 0) this.#waiting.set(connection, waiting);
      this.#serve(connection, stream);
    }
  }
}
