// The context of a gRPC call. Its client may set a deadline, and may cancel the call.

import { WinnowError } from "@winnow/core";
import type { Clock } from "@winnow/core";
import { CLIENT_DEADLINE_PASSED, RequestContext } from "../../request-context.ts";
import { remainingMs } from "./clock.ts";

/** The part of a grpc-js call that a context needs. */
export interface CancellableCall {
  getDeadline(): Date | number;
  /** `cancelled` is emitted when the client leaves, its deadline passes, or the call has been answered. */
  once(event: "cancelled", listener: () => void): unknown;
}

/** The context of a call, which starts now. `timeoutMs` 0: only the client's deadline counts. */
export function contextOfCall(
  clock: Clock,
  call: CancellableCall,
  timeoutMs: number,
): RequestContext {
  const context = new RequestContext(clock, {
    timeoutMs,
    clientMs: remainingMs(call.getDeadline()),
  });
  // grpc-js has its own timer for the client's deadline, which may fire before the context's.
  call.once("cancelled", () =>
    context.abort(() =>
      clock.nowMs() >= context.deadlineMs
        ? new WinnowError("DEADLINE_EXCEEDED", CLIENT_DEADLINE_PASSED)
        : new WinnowError("CANCELLED", "The client cancelled the call"),
    ),
  );
  return context;
}
