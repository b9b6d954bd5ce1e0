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

import { Outstanding, nextLoopTurn } from "@winnow/core";

/** Streams of all connections that begin in one turn, beyond the first of each: a few milliseconds of work. */
const BEGUN_IN_TURN_MAX = 16;

/** A stream that can begin. */
interface Beginning {
  /** Whether it has ended already. */
  readonly isOver: boolean;
}

/** The streams of one connection. */
export class StreamLine<Stream extends Beginning> {
  /** @internal the first is the next to begin */
  readonly waiting: Stream[] = [];
  /** @internal among the lines in which a stream waits */
  id = 0;
  /** @internal the turn in which a stream of this line last began */
  begunIn = 0;
}

/** The order in which streams of a server's connections begin. */
export class StreamTurns<Stream extends Beginning> {
  readonly #begin: (stream: Stream) => void;
  /** Lines in which a stream waits, the one whose turn it is first. */
  readonly #waiting = new Outstanding<StreamLine<Stream>>();
  #turns = 1;
  #begunInTurn = 0;
  #isTurning = false;

  /** `begin` must not throw. */
  constructor(begin: (stream: Stream) => void) {
    this.#begin = begin;
  }

  /** Has a stream begin, at once or in a later turn, in the order of its connection. */
  take(line: StreamLine<Stream>, stream: Stream): void {
    if (!this.#isTurning) void this.#turn(); // Never rejects.
    if (line.waiting.length === 0 && this.#mayBegin(line)) return this.#serve(line, stream);
    if (line.waiting.push(stream) === 1) line.id = this.#waiting.add(line);
  }

  /**
   * Takes the last stream of the line in which most wait out of it; none if that line has no more than one beyond those
   * of `line`, for which the place would be.
   */
  giveWay(line: StreamLine<Stream>): Stream | undefined {
    let { waiting: longest } = line;
    const most = longest.length + 1;
    for (const { waiting } of this.#waiting) {
      if (waiting.length > Math.max(most, longest.length)) longest = waiting;
    }
    return longest.length > most ? longest.pop() : undefined;
  }

  #mayBegin(line: StreamLine<Stream>): boolean {
    return this.#begunInTurn < BEGUN_IN_TURN_MAX || line.begunIn !== this.#turns;
  }

  #serve(line: StreamLine<Stream>, stream: Stream): void {
    if (stream.isOver) return;
    line.begunIn = this.#turns;
    this.#begunInTurn += 1;
    this.#begin(stream);
  }

  /** Goes on until a turn has passed in which nothing began. */
  async #turn(): Promise<void> {
    this.#isTurning = true;
    do {
      await nextLoopTurn();
      this.#begunInTurn = 0;
      this.#turns += 1;
      this.#serveWaiting();
    } while (this.#begunInTurn > 0);
    this.#isTurning = false;
  }

  #serveWaiting(): void {
    while (this.#begunInTurn < BEGUN_IN_TURN_MAX) {
      const line = this.#waiting.oldest;
      if (line === undefined) return;
      this.#waiting.delete(line.id);
      const stream = line.waiting.shift()!;
      // Behind the others, each of which has its turn before this one comes again.
      if (line.waiting.length > 0) line.id = this.#waiting.add(line);
      this.#serve(line, stream);
    }
  }
}
