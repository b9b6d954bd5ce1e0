// Room for new connections. A server holds `connectionsMax`; who rests (asks nothing, or has not yet
// sent a whole head) costs little, but fills these places for as long as it is let, and ten thousand of
// them would keep everybody else out. So once all places are taken, the connection that has rested for
// longest makes room for a new one. Only where every connection has a request under way is a new one
// refused.
//
//   opened ──▶ resting ── head ──▶ asking ── answered ──▶ resting ── … ──▶ closed
//                 └── the longest of all, and no place is left: cut ──────────▲
//
// A connection with TLS rests while it shakes hands. What is counted is always the connection beneath TLS:
// it is there from the first packet.

import type { IncomingMessage, Server, ServerResponse } from "node:http";
import type { Socket } from "node:net";
import { SocketsBeneath } from "@winnow/cluster";
import type { RoomLoss } from "../http-observer.ts";

/** Beyond `connectionsMax`: connections that are cut, but not yet closed. */
const CLOSING_MAX = 1024;

/** The connections of a server. */
export interface ConnectionRoom {
  /** Cuts all. */
  clear(): void;
}

/** Keeps a server within its connections from now on. */
export function keepRoom(
  server: Server,
  connectionsMax: number,
  onLoss: (loss: RoomLoss) => void,
): ConnectionRoom {
  /** Requests under way. */
  const open = new Map<Socket, number>();
  /** Connections without a request, the longest idle first. */
  const resting = new Set<Socket>();
  const beneath = new SocketsBeneath(server);
  server.maxConnections = connectionsMax + CLOSING_MAX;

  const forget = (socket: Socket): void => {
    open.delete(socket);
    resting.delete(socket);
  };
  const makeRoom = (): boolean => {
    const [longest] = resting;
    if (longest === undefined) return false;
    forget(longest);
    longest.destroy();
    onLoss("resting");
    return true;
  };
  const count = (socket: Socket, change: number): void => {
    const before = open.get(socket);
    if (before === undefined) return;
    const requests = before + change;
    open.set(socket, requests);
    if (requests > 0) resting.delete(socket);
    else resting.add(socket);
  };
  server.on("connection", (socket: Socket) => {
    if (open.size >= connectionsMax && !makeRoom()) {
      onLoss("refused");
      socket.destroy();
      return;
    }
    open.set(socket, 0);
    resting.add(socket);
    socket.once("close", () => forget(socket));
  });
  server.on("request", ({ socket }: IncomingMessage, response: ServerResponse) => {
    const connection = beneath.of(socket);
    count(connection, 1);
    response.once("close", () => count(connection, -1));
  });
  return {
    clear: () => {
      for (const socket of open.keys()) socket.destroy();
    },
  };
}
