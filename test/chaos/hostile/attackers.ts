// The connections of hostile clients: raw sockets and HTTP/2 by hand, because a client library would refuse
// to send this. It counts what is opened and what comes back, and can end all of it at once.

import {
  type ClientHttp2Session,
  type ClientHttp2Stream,
  connect as connectHttp2,
} from "node:http2";
import { type Socket, connect } from "node:net";

/** Counts of what was opened and what came back, and the end of all of it. */
export class Attackers {
  readonly #closers = new Set<() => void>();
  readonly #seen = new Map<string, number>();
  #isOver = false;

  /** Counts something seen. */
  note(what: string): void {
    this.#seen.set(what, (this.#seen.get(what) ?? 0) + 1);
  }

  /** A connection whose replies are noted by their first line, and which is opened again if wanted. */
  socket(port: number, onConnect: (socket: Socket) => void, reopenMs?: number): Socket {
    const socket = connect({ host: "127.0.0.1", port, noDelay: true });
    const close = (): void => void socket.destroy();
    this.#closers.add(close);
    this.note("connections");
    socket.once("connect", () => onConnect(socket));
    socket.on("data", (chunk) => {
      const status = /^HTTP\/1\.[01] (\d{3})/.exec(chunk.toString("latin1", 0, 16))?.[1];
      if (status !== undefined) this.note(status);
    });
    socket.on("error", () => undefined);
    socket.on("close", () => {
      this.#closers.delete(close);
      if (this.#isOver) return;
      this.note("closed by the server");
      if (reopenMs !== undefined) {
        this.later(reopenMs, () => this.socket(port, onConnect, reopenMs));
      }
    });
    return socket;
  }

  /** A connection of HTTP/2, opened again when it ends. */
  session(port: number, onConnect: (session: ClientHttp2Session) => void): void {
    if (this.#isOver) return;
    const session = connectHttp2(`http://127.0.0.1:${port}`);
    const close = (): void => session.destroy();
    this.#closers.add(close);
    this.note("connections");
    session.once("connect", () => onConnect(session));
    session.on("error", () => undefined);
    session.on("close", () => {
      this.#closers.delete(close);
      if (this.#isOver) return;
      this.note("closed by the server");
      this.later(500, () => this.session(port, onConnect));
    });
  }

  /** A gRPC call without a message; its end is noted by its status. */
  call(session: ClientHttp2Session, path: string): ClientHttp2Stream | undefined {
    if (session.destroyed || session.closed) return undefined;
    const stream = session.request({
      ":method": "POST",
      ":path": path,
      "content-type": "application/grpc",
      te: "trailers",
    });
    this.note("calls");
    const noteStatus = (headers: Readonly<Record<string, unknown>>): void => {
      const status = headers["grpc-status"];
      if (status !== undefined) this.note(`code ${JSON.stringify(status)}`);
    };
    stream.on("response", noteStatus);
    stream.on("trailers", noteStatus);
    stream.on("error", () => this.note("call broken"));
    return stream;
  }

  /** Does something after a while, unless the attack is over. */
  later(ms: number, work: () => void): void {
    const timer = setTimeout(() => {
      this.#closers.delete(close);
      work();
    }, ms);
    const close = (): void => clearTimeout(timer);
    this.#closers.add(close);
  }

  /** Does something again and again. */
  every(ms: number, work: () => void): void {
    const timer = setInterval(work, ms);
    this.#closers.add(() => clearInterval(timer));
  }

  /** Ends everything, and gives the counts. */
  end(): Promise<string> {
    this.#isOver = true;
    for (const close of this.#closers) close();
    const seen = [...this.#seen].map(([what, count]) => `${count} ${what}`);
    return Promise.resolve(seen.join(", "));
  }
}
