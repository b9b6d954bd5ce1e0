// Which TCP connection is below a TLS connection. A TLS server emits both, each in its own event, and Node
// does not tell which belong together. Their addresses and ports do, because no two open connections of one
// server have the same.

import type { Server, Socket } from "node:net";
import { Server as TlsServer } from "node:tls";

/** What a Map's former hash tables may keep for long (`core/src/memory/outstanding.ts`): emptied when the connection closes. */
interface OpenSocket {
  socket: Socket | undefined;
}

/** The TCP connections of a server, from the first packet on. */
export class SocketsBeneath {
  readonly #isSecure: boolean;
  readonly #open = new Map<string, OpenSocket>();
  readonly #beneath = new WeakMap<Socket, Socket>();

  /** Follows `server`, which does not listen yet. Without TLS, connections have nothing below them. */
  constructor(server: Server) {
    this.#isSecure = server instanceof TlsServer;
    if (!this.#isSecure) return;
    server.prependListener("connection", (socket: Socket) => {
      const ends = endsOf(socket);
      const open: OpenSocket = { socket };
      this.#open.set(ends, open);
      socket.once("close", () => {
        open.socket = undefined;
        if (this.#open.get(ends) === open) this.#open.delete(ends);
      });
    });
    server.prependListener("secureConnection", (socket: Socket) => {
      const beneath = this.#open.get(endsOf(socket))?.socket;
      if (beneath === undefined) return;
      this.#beneath.set(socket, beneath);
      socket.once("close", () => this.#beneath.delete(socket));
    });
  }

  /** The TCP connection below `socket`, or `socket` itself if there is none. */
  of(socket: Socket): Socket {
    return this.#isSecure ? (this.#beneath.get(socket) ?? socket) : socket;
  }
}

function endsOf({ remoteAddress, remotePort, localAddress, localPort }: Socket): string {
  return `${remoteAddress} ${remotePort} ${localAddress} ${localPort}`;
}
