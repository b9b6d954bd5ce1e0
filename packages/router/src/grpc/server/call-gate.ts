// An interceptor of every call that the door (`cluster/src/grpc-door`) has let in, health checks and watches
// included: it counts the call as open until its end, cancels it when the server must end, and shortens the
// text of its status.

import { ServerInterceptingCall, ServerListenerBuilder, status } from "@grpc/grpc-js";
import type { ServerInterceptor } from "@grpc/grpc-js";
import { Outstanding } from "@winnow/core";
import { cutDetails } from "./status-details.ts";

type Intercepted = Parameters<ServerInterceptor>[1];
type Method = Parameters<ServerInterceptor>[0];

/** Counts open calls, and can cancel them. */
export class CallGate {
  readonly #idle: (() => void)[] = [];
  readonly #calls = new Outstanding<Intercepted>();
  #unaryCalls = 0;

  /** Whether no call is open, apart from streams, which end when their clients want. */
  get isIdle(): boolean {
    return this.#unaryCalls === 0;
  }

  /** Resolves when `isIdle` is true. */
  idle(): Promise<void> {
    if (this.isIdle) return Promise.resolve();
    return new Promise((resolve) => this.#idle.push(resolve));
  }

  /** Ends every open call with the reason, before the connection is cut. */
  cut(): void {
    for (const call of this.#calls) {
      call.sendStatus({ code: status.UNAVAILABLE, details: "The server is closing" });
    }
  }

  /** To be passed with the server's options. */
  readonly interceptor: ServerInterceptor = (method, call) =>
    new ServerInterceptingCall(call, {
      start: (next) => next(this.#listener(method, call)),
      sendStatus: (status, next) =>
        next(
          status.details === undefined || status.details === null
            ? status
            : { ...status, details: cutDetails(status.details) },
        ),
    });

  #listener(method: Method, call: Intercepted): ReturnType<ServerListenerBuilder["build"]> {
    const unary = method.responseStream ? 0 : 1;
    let id = 0;
    return new ServerListenerBuilder()
      .withOnReceiveMetadata((metadata, next) => {
        id = this.#calls.add(call);
        this.#unaryCalls += unary;
        next(metadata);
      })
      .withOnCancel(() => {
        if (!this.#calls.delete(id)) return;
        this.#unaryCalls -= unary;
        if (!this.isIdle) return;
        for (const resolve of this.#idle.splice(0)) resolve();
      })
      .build();
  }
}
