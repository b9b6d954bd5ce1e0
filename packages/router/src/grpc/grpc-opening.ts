// The gRPC door as the command opens it. It is loaded when it is asked for: most routers speak REST alone,
// and reading TensorFlow Serving's messages takes protobufjs and their descriptors.

import type { Predictor } from "../predictor.ts";
import type { GrpcServer } from "./server/grpc-server.ts";
import type { GrpcOptions } from "./grpc-settings.ts";
import type { GrpcEnvironment } from "./server/serving-handlers.ts";

/** Loads what a server needs and makes one that answers from `predictor`; it does not listen yet. */
export async function openGrpcServer(
  predictor: Predictor,
  options: GrpcOptions,
  environment: GrpcEnvironment,
): Promise<GrpcServer> {
  const { createGrpcServer } = await import("./server/grpc-server.ts");
  return createGrpcServer(predictor, options, environment);
}
