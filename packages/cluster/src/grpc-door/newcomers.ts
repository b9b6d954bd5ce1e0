// How a gRPC server stops listening without losing a call of those who have connected already.
//
//   the kernel has set it up ─▶ accepted, one in a turn of the event loop ─▶ (TLS) settings are exchanged ─▶ its first call
//
// A client begins its first call only once the server's settings have come, one way forth and back after its connection
// was accepted. A process that was busy, or stood still, has many connections that are not that far: those that it has not
// accepted would be reset with the listening socket, and the others told to go before they have asked anything, to a
// server that listens no more.

import { type Server, Server as NetServer, type Socket } from "node:net";
import { type Clock, Outstanding, quietTurn, sleep } from "@winnow/core";

/** How long a server that stops waits for those who have connected. */
export interface NewcomerWaits {
  /** Milliseconds until the listening sockets are closed though clients still come. */
  readonly acceptMs: number;
  /** Milliseconds that each connection has for its first call. */
  readonly firstCallMs: number;
}

const POLL_MS = 10;

/** A connection that has not had a call yet. */
interface Newcomer {
  readonly acceptedMs: number;
  /** Among the newcomers. */
  id: number;
}

/** The listening sockets of one gRPC server, and the connections that have not had a call yet. */
export class Newcomers {
  readonly #clock: Clock;
  readonly #servers: Server[] = [];
  readonly #newcomers = new Outstanding<Newcomer>();
  readonly #newcomerOf = new WeakMap<Socket, Newcomer>();
  #accepted = 0;

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /** Follows the connections of a server that does not listen yet. */
  follow(server: Server): void {
    this.#servers.push(server);
    server.on("connection", (socket: Socket) => {
      this.#accepted += 1;
      const newcomer: Newcomer = { acceptedMs: this.#clock.nowMs(), id: 0 };
      newcomer.id = this.#newcomers.add(newcomer);
      this.#newcomerOf.set(socket, newcomer);
      socket.once("close", () => this.called(socket));
    });
  }

  /** A call has come on this connection. */
  called(socket: Socket): void {
    const newcomer = this.#newcomerOf.get(socket);
    if (newcomer === undefined) return;
    this.#newcomerOf.delete(socket);
    this.#newcomers.delete(newcomer.id);
  }

  /**
   * Closes the listening sockets after the first turn of the event loop in which nobody was waiting to be accepted, and
   * resolves when those who came last have had their first call, or their time for it.
   */
  async stopListening({ acceptMs, firstCallMs }: NewcomerWaits): Promise<void> {
    const endMs = this.#clock.nowMs() + acceptMs;
    await quietTurn(
      () => this.#accepted,
      () => this.#clock.nowMs() >= endMs,
    );
    for (const server of this.#servers) {
      // Not its own `close`, which may end sessions.
      if (server.listening) NetServer.prototype.close.call(server);
    }
    while (this.#areAwaited(firstCallMs)) await sleep(this.#clock, POLL_MS);
  }

  /** Whether a connection is so new that its first call may be on its way. */
  #areAwaited(firstCallMs: number): boolean {
    const sinceMs = this.#clock.nowMs() - firstCallMs;
    return [...this.#newcomers].some(({ acceptedMs }) => acceptedMs > sinceMs);
  }
}
