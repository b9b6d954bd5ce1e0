// Why a gRPC server does not listen: grpc-js tells it within a sentence about resolved addresses.

import { WinnowError } from "@winnow/core";

/** UNAVAILABLE with the system's code, and with the flags that choose another address where there are any. */
export function listenFault(where: string, cause: Error, flags?: string): WinnowError {
  const [, code = cause.message] = /\blisten (E[A-Z]+)\b/.exec(cause.message) ?? [];
  const remedy = flags === undefined ? "" : `; choose another with ${flags}`;
  return new WinnowError("UNAVAILABLE", `Cannot listen on ${where} (${code})${remedy}`, { cause });
}
