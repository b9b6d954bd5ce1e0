// The one place of the gRPC side that reads the wall clock: grpc-js gives a call's deadline as a
// point of it.

/** Milliseconds left until a deadline of grpc-js; `Infinity` without one. */
export function remainingMs(deadline: Date | number): number {
  return Number(deadline) - Date.now();
}
