// A connection of which the HTTP parser gets a few hundred bytes at a time. Node gives its parser whatever it has read of
// a connection, up to 64 KiB: more than two thousand short requests, all of which exist before the first one is looked
// at, and nothing stops the parser on its way. A client that sends so much waits for nothing, but everybody else waits:
// four hundred such connections took a router for a minute, and 1.8 GB of its memory.
//
//   socket ─▶ its own buffer ─ piece ─▶ parser ─▶ requests
//                     ▲           └── none while the connection is held or paused
//                     └ nothing more is read while it is full
//
// Without division Node's parser reads the socket itself, which takes less of the processor. So a connection is divided
// only once there is a reason (`pipelined-requests.ts`), and stays so.

import type { Socket } from "node:net";

/** Bytes for the parser at a time: at most twenty requests. */
const PIECE_BYTES = 512;

type TakeBytes = (bytes: Buffer) => void;

/** A connection whose reading is divided. Its `pause` and `resume` go on working as they did. */
export class DividedReading {
  readonly #socket: Socket;
  readonly #isHeld: () => boolean;
  readonly #take: TakeBytes;
  #isPaused: boolean;
  #isReading = false;

  /**
   * Divides what is read of a connection from now on; gives `undefined`, and changes nothing, if something other than
   * Node's HTTP parser reads it. While `isHeld` says so, the parser gets nothing.
   */
  static of(socket: Socket, isHeld: () => boolean): DividedReading | undefined {
    const [take, ...others] = socket.listeners("data");
    if (take === undefined || others.length > 0 || socket.destroyed) return undefined;
    socket.removeListener("data", take as TakeBytes);
    return new DividedReading(socket, isHeld, take as TakeBytes);
  }

  private constructor(socket: Socket, isHeld: () => boolean, take: TakeBytes) {
    this.#socket = socket;
    this.#isHeld = isHeld;
    this.#take = take;
    this.#isPaused = socket.isPaused();
    const pause = socket.pause.bind(socket);
    const resume = socket.resume.bind(socket);
    socket.pause = () => {
      this.#isPaused = true;
      return pause();
    };
    socket.resume = () => {
      if (isHeld()) return socket;
      this.#isPaused = false;
      resume();
      this.#read();
      return socket;
    };
    // From here on Node's parser does not read the socket by itself.
    socket.on("readable", () => this.#read());
  }

  #read(): void {
    if (this.#isReading) return;
    this.#isReading = true;
    while (this.#mayRead()) {
      const most = Math.max(1, Math.min(PIECE_BYTES, this.#socket.readableLength));
      const piece: unknown = this.#socket.read(most);
      if (piece === null) break;
      this.#take.call(this.#socket, piece as Buffer);
    }
    this.#isReading = false;
  }

  #mayRead(): boolean {
    const { destroyed, writableEnded } = this.#socket;
    return !this.#isPaused && !this.#isHeld() && !destroyed && !writableEnded;
  }
}
