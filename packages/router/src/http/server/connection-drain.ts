// How a server stops without losing a request. `http.Server.close()` resets idle connections, and a client
// may be writing to one of them at that moment. Therefore only the listening socket is closed, every answer
// from now on carries `Connection: close`, and connections end as their clients use them. After a while,
// connections without a request are closed.

import type { Server } from "node:http";
import { Server as NetServer } from "node:net";
import { sleep } from "@winnow/core";
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
  if (server.listening) NetServer.prototype.close.call(server);
  while ((await connectionCountOf(server)) > 0) {
    const elapsedMs = clock.nowMs() - startMs;
    if (elapsedMs >= waits.drainTimeoutMs) return server.closeAllConnections();
    if (elapsedMs >= waits.drainIdleMs) server.closeIdleConnections();
    await sleep(clock, waits.drainPollMs);
  }
}

function connectionCountOf(server: Server): Promise<number> {
  return new Promise((resolve, reject) => {
    server.getConnections((error, count) => (error === null ? resolve(count) : reject(error)));
  });
}
