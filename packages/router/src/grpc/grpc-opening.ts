// Opens the gRPC port. Its code is loaded only when the command asks for the port: most routers speak REST
// alone, and reading TensorFlow Serving's messages takes protobufjs and their descriptors.

import type { Predictor } from "../predictor.ts";
import type { GrpcServer } from "./server/grpc-server.ts";
import type { GrpcOptions } from "./grpc-settings.ts";
import type { GrpcEnvironment } from "./server/serving-handlers.ts";

/** Loads the code of the server and makes one that answers from `predictor`; it does not listen yet. */
export async function openGrpcServer(
  predictor: Predictor,
  options: GrpcOptions,
  environment: GrpcEnvironment,
): Promise<GrpcServer> {
  const { createGrpcServer } = await import("./server/grpc-server.ts");
  return createGrpcServer(predictor, options, environment);
}
