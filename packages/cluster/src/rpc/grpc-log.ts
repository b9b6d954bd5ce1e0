// What grpc-js has to say goes to the log of the process: by itself it writes bare lines to the standard error, which
// whoever reads a log as JSON cannot read.

import { setLogger } from "@grpc/grpc-js";
import type { Logger } from "@winnow/core";

/** Sends what grpc-js says, which GRPC_VERBOSITY chooses, to a log. */
export function logGrpcFaults(log: Logger): void {
  const at =
    (level: "debug" | "info" | "warn") =>
    (...words: readonly unknown[]): void =>
      log[level]("grpc-js", { message: words.join(" ") });
  // Its errors are warnings here: what fails by them tells so itself.
  setLogger({ debug: at("debug"), info: at("info"), error: at("warn") });
}
