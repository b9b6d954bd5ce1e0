// Which TCP connection lies beneath one with TLS. A server of TLS emits both, each by an event of its own,
// and Node tells nowhere which belong together; their ends do: no two open connections of one server have
// the same.

import type { Server, Socket } from "node:net";
import { Server as TlsServer } from "node:tls";

/** The connections of a server, from the first packet on. */
export class SocketsBeneath {
  readonly #isSecure: boolean;
  readonly #open = new Map<string, Socket>();
  readonly #beneath = new WeakMap<Socket, Socket>();

  /** Follows `server`, which does not listen yet; one without TLS has nothing beneath its connections. */
  constructor(server: Server) {
    this.#isSecure = server instanceof TlsServer;
    if (!this.#isSecure) return;
    server.prependListener("connection", (socket: Socket) => {
      const ends = endsOf(socket);
      this.#open.set(ends, socket);
      socket.once("close", () => {
        if (this.#open.get(ends) === socket) this.#open.delete(ends);
      });
    });
    server.prependListener("secureConnection", (socket: Socket) => {
      const beneath = this.#open.get(endsOf(socket));
      if (beneath !== undefined) this.#beneath.set(socket, beneath);
    });
  }

  /** The connection beneath, or `socket` itself where there is none. */
  of(socket: Socket): Socket {
    return this.#isSecure ? (this.#beneath.get(socket) ?? socket) : socket;
  }
}

function endsOf({ remoteAddress, remotePort, localAddress, localPort }: Socket): string {
  return `${remoteAddress} ${remotePort} ${localAddress} ${localPort}`;
}
