// Which port speaks what, for scripts written for either server.

import { expect, test } from "vitest";
import { routerPorts } from "./router.ts";

test.each([
  ["nothing typed: REST alone", {}, false, { rest: 8501, grpc: undefined }],
  ["--port alone is REST", { port: 9000 }, true, { rest: 9000, grpc: undefined }],
  ["--grpc-port adds gRPC", { grpcPort: 8500 }, false, { rest: 8501, grpc: 8500 }],
  ["--grpc-port 0 is off", { grpcPort: 0 }, false, { rest: 8501, grpc: undefined }],
  [
    "TensorFlow Serving's pair names gRPC first",
    { port: 8500, rest_api_port: 8501 },
    true,
    { rest: 8501, grpc: 8500 },
  ],
  [
    "--rest_api_port wins over a port from the environment, which is no gRPC port",
    { port: 9000, rest_api_port: 8501 },
    false,
    { rest: 8501, grpc: undefined },
  ],
  [
    "--grpc-port wins over TensorFlow Serving's --port",
    { port: 8500, rest_api_port: 8501, grpcPort: 9000 },
    true,
    { rest: 8501, grpc: 9000 },
  ],
  [
    "--rest_api_port 0 is off",
    { port: 8500, rest_api_port: 0 },
    true,
    { rest: undefined, grpc: 8500 },
  ],
])("%s", (...[, flags, isPortTyped, ports]) => {
  expect(routerPorts({ port: 8501, ...flags }, isPortTyped)).toEqual(ports);
});
