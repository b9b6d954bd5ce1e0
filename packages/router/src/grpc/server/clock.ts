// The only place of the gRPC side that reads the wall clock: grpc-js gives the deadline of a call as a time
// of day.

/** Milliseconds left until a deadline of grpc-js; `Infinity` without one. */
export function remainingMs(deadline: Date | number): number {
  return Number(deadline) - Date.now();
}
