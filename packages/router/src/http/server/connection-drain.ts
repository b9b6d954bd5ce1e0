// How a server stops without losing a request. `http.Server.close()` resets idle connections, and a client
// may be writing to one of them at that moment. Therefore only the listening socket is closed, every answer
// from now on carries `Connection: close`, and connections end as their clients use them. After a while,
// connections without a request are closed.
//
// A process that was busy, or stood still, has not seen yet what its kernel has for it: connections that are
// set up and not accepted, which end with the listening socket, and requests on connections that look idle.
// Before it closes either, the event loop reads what is there.

import type { Server } from "node:http";
import { Server as NetServer } from "node:net";
import { nextLoopTurn, quietTurn, sleep } from "@winnow/core";
import type { Clock } from "@winnow/core";

/** Waits of a drain, see `HttpSettings`. */
export interface DrainWaits {
  readonly drainTimeoutMs: number;
  readonly drainIdleMs: number;
  readonly drainPollMs: number;
}

/** Resolves when no connection is left; cuts those that remain after `drainTimeoutMs`. */
export async function drainConnections(
  server: Server,
  clock: Clock,
  waits: DrainWaits,
): Promise<void> {
  const startMs = clock.nowMs();
  await stopListening(server, clock, startMs + waits.drainTimeoutMs / 2);
  while ((await connectionCountOf(server)) > 0) {
    const elapsedMs = clock.nowMs() - startMs;
    if (elapsedMs >= waits.drainTimeoutMs) return server.closeAllConnections();
    if (elapsedMs >= waits.drainIdleMs) {
      // Timers run before reads: without this turn, a request that came while the process stood still is not seen.
      await nextLoopTurn();
      server.closeIdleConnections();
    }
    await sleep(clock, waits.drainPollMs);
  }
}

/**
 * Closes the listening socket after the first turn of the event loop in which no connection was waiting to be
 * accepted; Node accepts one in a turn. At `endMs` it is closed in any case, or new clients could keep it open and
 * leave no time to answer those before them.
 */
async function stopListening(server: Server, clock: Clock, endMs: number): Promise<void> {
  let accepted = 0;
  const count = (): void => void (accepted += 1);
  server.on("connection", count);
  await quietTurn(
    () => accepted,
    () => clock.nowMs() >= endMs,
  );
  server.off("connection", count);
  if (server.listening) NetServer.prototype.close.call(server);
}

function connectionCountOf(server: Server): Promise<number> {
  return new Promise((resolve, reject) => {
    server.getConnections((error, count) => (error === null ? resolve(count) : reject(error)));
  });
}
