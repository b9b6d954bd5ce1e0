// The flags of `winnow doctor`: those of the roles, as far as they can be checked before a role starts, and
// those of a client, for clusters that run.

import { Command } from "commander";
import {
  REST_PORT,
  WORKER_PORT,
  acceleratorOption,
  addClientOptions,
  addRedisOptions,
  hostOption,
  portOption,
} from "../command-options.ts";
import type { RedisFlags } from "../access/redis-access.ts";
import { terminalText } from "../terminal-text.ts";

interface DoctorOptions extends RedisFlags {
  readonly accelerator: "cpu" | "gpu" | "reference";
  readonly port: number;
  readonly workerPort: number;
  readonly host: string;
  readonly json?: true;
  readonly ca?: string;
  readonly keyFile?: string;
}

/** `winnow doctor`. */
export function doctorCommand(): Command {
  const command = new Command("doctor")
    .summary("check this machine for what Winnow needs, or a cluster for problems")
    .description(
      "check this machine for what Winnow needs, or a cluster for problems (exit code 1 if there are any)",
    )
    .argument(
      "[urls...]",
      "routers of a running cluster, best all of them, because they are compared; none: this machine",
    )
    .addOption(acceleratorOption())
    .addOption(portOption("--port <port>", "REST port", "WINNOW_PORT").default(REST_PORT))
    .addOption(
      portOption("--worker-port <port>", "gRPC port of a worker", "WINNOW_WORKER_PORT").default(
        WORKER_PORT,
      ),
    )
    .addOption(hostOption("127.0.0.1"))
    .option("--json", "machine-readable");
  addRedisOptions(command, "a Redis that must be reachable");
  addClientOptions(command);
  return command.action(async (urls: readonly string[], options: DoctorOptions) => {
    const { diagnose, diagnoseCluster, diagnosisText } = await import("../commands/doctor.ts");
    const required = {
      port: command.getOptionValueSource("port") !== "default",
      workerPort: command.getOptionValueSource("workerPort") !== "default",
    };
    const isCluster = urls.length > 0;
    const diagnosis = isCluster
      ? await diagnoseCluster(urls, options)
      : await diagnose({ ...options, required });
    const isJson = options.json === true;
    const verdict = isCluster ? "No problems found." : "Winnow can run here.";
    const text = isJson
      ? JSON.stringify(diagnosis, undefined, 2)
      : terminalText(diagnosisText(diagnosis, verdict));
    process.stdout.write(`${text}\n`);
    process.exitCode = diagnosis.isWell ? 0 : 1;
  });
}
