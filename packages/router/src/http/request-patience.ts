// The patience with an HTTP request: its client has left when the connection closes unanswered.

import type { ServerResponse } from "node:http";
import { WinnowError } from "@winnow/core";
import type { Clock } from "@winnow/core";
import { Patience } from "../patience.ts";

/** Begins with the request; `timeoutMs` 0: no deadline. */
export function requestPatience(
  clock: Clock,
  response: ServerResponse,
  timeoutMs: number,
): Patience {
  const patience = new Patience(clock, { timeoutMs });
  response.once("close", () =>
    patience.stop(() => new WinnowError("CANCELLED", "The client closed the connection")),
  );
  return patience;
}
