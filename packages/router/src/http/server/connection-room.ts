// Room for new connections. A server holds `connectionsMax`; who rests (asks nothing, or has not yet
// sent a whole head) costs little, but fills these places for as long as it is let, and ten thousand of
// them would keep everybody else out. So once all places are taken, the connection that has rested for
// longest makes room for a new one. Only where every connection has a request under way is a new one
// refused.
//
//   opened ──▶ resting ── head ──▶ asking ── answered ──▶ resting ── … ──▶ closed
//                 └── the longest of all, and no place is left: cut ──────────▲

import type { IncomingMessage, Server, ServerResponse } from "node:http";
import type { Socket } from "node:net";
import type { RoomLoss } from "../http-observer.ts";

/** Beyond `connectionsMax`: connections that are cut, but not yet closed. */
const CLOSING_MAX = 1024;

/** Keeps a server within its connections from now on. */
export function keepRoom(
  server: Server,
  connectionsMax: number,
  onLoss: (loss: RoomLoss) => void,
): void {
  /** Requests under way. */
  const open = new Map<Socket, number>();
  /** Connections without a request, the longest idle first. */
  const resting = new Set<Socket>();
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
    count(socket, 1);
    response.once("close", () => count(socket, -1));
  });
}
