// The patience with a gRPC call. Its client may set a deadline, which grpc-js itself answers.

import { WinnowError } from "@winnow/core";
import type { Clock } from "@winnow/core";
import { Patience } from "../patience.ts";
import { remainingMs } from "./clock.ts";

/** What is asked of a call of grpc-js. */
export interface ImpatientCall {
  getDeadline(): Date | number;
  /** `cancelled` comes when the client leaves, its deadline passes, or the call has been answered. */
  once(event: "cancelled", listener: () => void): unknown;
}

/** Begins with the call; `timeoutMs` 0: only the client's deadline counts. */
export function callPatience(clock: Clock, call: ImpatientCall, timeoutMs: number): Patience {
  const patience = new Patience(clock, { timeoutMs, clientMs: remainingMs(call.getDeadline()) });
  call.once("cancelled", () =>
    patience.stop(() =>
      patience.isOverdue
        ? new WinnowError("DEADLINE_EXCEEDED", "The client's deadline has passed")
        : new WinnowError("CANCELLED", "The client cancelled the call"),
    ),
  );
  return patience;
}
