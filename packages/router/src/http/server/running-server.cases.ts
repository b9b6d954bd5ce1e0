// A server with a fake predictor behind it, for tests that are clients.

import { silentLogger, systemClock } from "@winnow/core";
import type { HeldMemory } from "@winnow/core";
import { FixturePredictor, SMALL_WEIGHTS } from "../fixture-predictor.cases.ts";
import type { AnsweredRequest } from "../http-observer.ts";
import { createHttpServer, type HttpServer } from "./http-server.ts";
import type { HttpOptions } from "../http-settings.ts";

/** A listening server and what is behind it. */
export interface Running {
  readonly server: HttpServer;
  readonly predictor: FixturePredictor;
  readonly port: number;
  readonly answered: AnsweredRequest[];
  /** Transfers that were given up: `body stalled`, `answer memory`. */
  readonly gaveUp: string[];
}

/** A body that model "retrieval" answers. */
export const BODY = '{"instances": ["42"]}';

const servers: HttpServer[] = [];

/** Starts a server on any free port. */
export async function start(options: HttpOptions = {}): Promise<Running> {
  const predictor = new FixturePredictor(SMALL_WEIGHTS);
  const answered: AnsweredRequest[] = [];
  const gaveUp: string[] = [];
  const server = createHttpServer(
    predictor,
    { drainPollMs: 5, ...options },
    {
      clock: systemClock,
      random: () => 0.5,
      log: silentLogger,
      observer: {
        answered: (request) => void answered.push(request),
        gaveUp: (what, reason) => void gaveUp.push(`${what} ${reason}`),
      },
    },
  );
  servers.push(server);
  const { port } = await server.listen({ host: "127.0.0.1", port: 0 });
  return { server, predictor, port, answered, gaveUp };
}
/** Ends every server started. */
export async function closeAll(): Promise<void> {
  await Promise.all(servers.splice(0).map((server) => server.close()));
}

/** Bytes held of one kind. */
export function heldBytes({ server }: Running, kind: HeldMemory["kind"]): number {
  return server.held().find((held) => held.kind === kind)!.bytes;
}

/** A promise and what settles it. */
export function gate(): { readonly opened: Promise<void>; readonly open: () => void } {
  let open = (): void => undefined;
  const opened = new Promise<void>((resolve) => {
    open = resolve;
  });
  return { opened, open };
}

/** Waits for a condition. */
export async function until(condition: () => boolean): Promise<void> {
  while (!condition()) await new Promise((resolve) => setTimeout(resolve, 2));
}

/** The text of an error body. */
export const errorOf = (text: string): string => (JSON.parse(text) as { error: string }).error;
