// Room for new connections. A server holds at most `connectionsMax`. A connection that rests (has no request,
// or has not yet sent all headers) costs little but takes a place, and ten thousand of them would keep
// everybody else out. Therefore, once all places are taken, the connection that has rested for longest is cut
// for a new one. Only if every connection has a request under way, a new one is refused.
//
//   opened ──▶ resting ── head ──▶ asking ── answered ──▶ resting ── … ──▶ closed
//                 └── rested longest, and no place is left: cut ──────────────▲
//
// A TLS connection rests during its handshake. The connection below TLS is the one that is counted, because
// it exists from the first packet on.

import type { IncomingMessage, Server, ServerResponse } from "node:http";
import type { Socket } from "node:net";
import { Outstanding } from "@winnow/core";
import { SocketsBeneath } from "../tls/sockets-beneath.ts";

/** Connections beyond `connectionsMax` that are cut but not yet closed. */
const CLOSING_MAX = 1024;

/**
 * Connections that the system keeps until they are accepted, at most what it may (`somaxconn`). It drops a client that finds
 * no place, which asks again after 1 s, and then 2 s later; Node's 511 are taken when a thousand clients come back at once.
 */
export const UNACCEPTED_MAX: number = 4096;

/** `resting`: a connection without a request was cut for a new one; `refused`: a new one found no place. */
type RoomLoss = "resting" | "refused";

/** Keeps the connections of a server within their bound. */
export interface ConnectionRoom {
  /** Cuts all connections. */
  clear(): void;
}

/** An open connection. */
interface Held {
  readonly socket: Socket;
  /** Number of requests under way. */
  requests: number;
  /** Among all open connections, and among those that rest, or did. */
  openId: number;
  restId: number;
}

/** Bounds the connections of a server from now on. */
export function keepRoom(
  server: Server,
  connectionsMax: number,
  onLoss: (loss: RoomLoss) => void = () => undefined,
): ConnectionRoom {
  const open = new Outstanding<Held>();
  /** Connections without a request, the one that has rested for longest first. */
  const resting = new Outstanding<Held>();
  const heldOf = new WeakMap<Socket, Held>();
  const beneath = new SocketsBeneath(server);
  server.maxConnections = connectionsMax + CLOSING_MAX;

  const forget = (held: Held): void => {
    open.delete(held.openId);
    resting.delete(held.restId);
    heldOf.delete(held.socket);
  };
  const makeRoom = (): boolean => {
    const longest = resting.oldest;
    if (longest === undefined) return false;
    forget(longest);
    longest.socket.destroy();
    onLoss("resting");
    return true;
  };
  const count = (socket: Socket, change: number): void => {
    const held = heldOf.get(socket);
    if (held === undefined) return;
    held.requests += change;
    if (held.requests === 0) held.restId = resting.add(held);
    else resting.delete(held.restId);
  };
  server.on("connection", (socket: Socket) => {
    if (open.size >= connectionsMax && !makeRoom()) {
      onLoss("refused");
      socket.destroy();
      return;
    }
    const held: Held = { socket, requests: 0, openId: 0, restId: 0 };
    held.openId = open.add(held);
    held.restId = resting.add(held);
    heldOf.set(socket, held);
    socket.once("close", () => forget(held));
  });
  server.on("request", ({ socket }: IncomingMessage, response: ServerResponse) => {
    const connection = beneath.of(socket);
    count(connection, 1);
    response.once("close", () => count(connection, -1));
  });
  return {
    clear: () => {
      for (const { socket } of open) socket.destroy();
    },
  };
}
