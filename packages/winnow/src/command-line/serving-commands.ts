// The commands that serve: `up`, `serve`, `router` and `worker`, with the flags of each. Each is made anew
// for every parse, so that `winnow config print` can ask what flags, variables and a file make of one.

import { fileURLToPath } from "node:url";
import { Command } from "commander";
import {
  GRPC_PORT,
  REST_PORT,
  WORKER_PORT,
  acceleratorOption,
  accessLogOption,
  addClientOptions,
  addMembershipOptions,
  addModelOptions,
  addRedisOptions,
  addTlsOptions,
  allowedHostsOption,
  apiKeysOption,
  configOption,
  corsOption,
  extraMemoryOption,
  grpcPortOption,
  grpcSocketOption,
  hostOption,
  logFormatOption,
  logLevelOption,
  machineOption,
  memoryBytesOption,
  modelReplicationOption,
  swapReplicasOption,
  option,
  otlpEndpointOption,
  partitionBytesOption,
  portOption,
  replicationOption,
  requestTimeoutOption,
  seenRedisOption,
  requireSecurityOption,
  routersOption,
  sslConfigOption,
  threadsOption,
  wholeNumber,
} from "../command-options.ts";
import {
  addLoadOptions,
  addModelConfigOptions,
  addRequestOptions,
} from "../model-config/config-flags.ts";
import { addLimitOptions, ROUTER_OWNERS } from "../settings/limit-flags.ts";
import type { RouterRoleOptions } from "../commands/router.ts";
import type { ServeOptions } from "../commands/serve.ts";
import type { UpOptions } from "../commands/up.ts";
import type { WorkerRoleOptions } from "../commands/worker.ts";

const METRICS_PORT = 9100;
const INT32_MAX = 2 ** 31 - 1;

/** A command that serves, by name. */
export const servingCommands: Readonly<Record<string, () => Command>> = {
  up,
  serve,
  router,
  worker,
};

function up(): Command {
  const command = new Command("up")
    .description("start a cluster on this machine: one router and several workers")
    .addOption(routersOption())
    .addOption(
      option("--workers <n>", "worker processes", "WINNOW_WORKERS")
        .argParser(wholeNumber(1, 64))
        .default(3),
    )
    .addOption(replicationOption())
    .addOption(modelReplicationOption())
    .addOption(swapReplicasOption())
    .addOption(partitionBytesOption())
    .addOption(extraMemoryOption())
    .addOption(portOption("--port <port>", "REST port", "WINNOW_PORT").default(REST_PORT))
    .addOption(portOption("--rest_api_port <port>", "the same, TensorFlow Serving's name"))
    .addOption(grpcPortOption())
    .addOption(hostOption("127.0.0.1"))
    .addOption(acceleratorOption())
    .addOption(logLevelOption().default("warn"))
    .addOption(logFormatOption())
    .addOption(accessLogOption());
  addRedisOptions(command, "membership through Redis");
  command.addOption(requestTimeoutOption()).addOption(corsOption());
  addRequestOptions(addLoadOptions(addModelConfigOptions(addModelOptions(command))));
  addTlsOptions(command).addOption(sslConfigOption());
  command
    .addOption(apiKeysOption("REST and gRPC requests need one, probes do not"))
    .addOption(allowedHostsOption());
  addClientOptions(command);
  command.addOption(configOption()).addOption(otlpEndpointOption()).addOption(seenRedisOption());
  addLimitOptions(command, [...ROUTER_OWNERS, "worker"]);
  return command.action(async (options: UpOptions) => {
    const { runUp } = await import("../commands/up.ts");
    await runUp(options, winnowScript);
  });
}

function serve(): Command {
  const command = new Command("serve")
    .description(
      "replace one TensorFlow Serving container, with its flags and ports: a router and its worker on this machine",
    )
    .addOption(
      portOption("--port <port>", "gRPC port; 0: none", "WINNOW_GRPC_PORT").default(GRPC_PORT),
    )
    .addOption(grpcSocketOption())
    .addOption(
      portOption("--rest_api_port <port>", "REST port; 0: none", "WINNOW_PORT").default(REST_PORT),
    )
    .addOption(hostOption("0.0.0.0"))
    .addOption(routersOption())
    .addOption(
      option("--workers <n>", "worker processes; one uses all cores", "WINNOW_WORKERS")
        .argParser(wholeNumber(1, 64))
        .default(1),
    )
    .addOption(replicationOption())
    .addOption(modelReplicationOption())
    .addOption(swapReplicasOption())
    .addOption(partitionBytesOption())
    .addOption(extraMemoryOption())
    .addOption(requestTimeoutOption())
    .addOption(corsOption())
    .addOption(acceleratorOption())
    .addOption(threadsOption("threads that scan, of each worker (default: all cores)"))
    .addOption(memoryBytesOption())
    .addOption(logLevelOption())
    .addOption(logFormatOption())
    .addOption(accessLogOption());
  addRequestOptions(addLoadOptions(addModelConfigOptions(addModelOptions(command))));
  addTlsOptions(command).addOption(sslConfigOption());
  command
    .addOption(apiKeysOption("REST and gRPC requests need one, probes do not"))
    .addOption(allowedHostsOption());
  command
    .addOption(requireSecurityOption())
    .addOption(configOption())
    .addOption(otlpEndpointOption())
    .addOption(seenRedisOption());
  addLimitOptions(command, [...ROUTER_OWNERS, "worker"]);
  return command.action(async (options: ServeOptions) => {
    const { runServe } = await import("../commands/serve.ts");
    await runServe(options, winnowScript);
  });
}

function router(): Command {
  const command = new Command("router")
    .description("run a router: the REST API, gRPC, scatter and gather")
    .addOption(
      portOption(
        "--port <port>",
        "REST port; with --rest_api_port the gRPC port, as in TensorFlow Serving",
        "WINNOW_PORT",
      ).default(REST_PORT),
    )
    .addOption(
      portOption("--rest_api_port <port>", "REST port, TensorFlow Serving's name; 0: none"),
    )
    .addOption(grpcPortOption())
    .addOption(grpcSocketOption())
    .addOption(
      option("--sharing <n>", "number among the routers of winnow up and serve, which set it")
        .argParser(wholeNumber(0, 63))
        .hideHelp(),
    )
    .addOption(option("--listen-when-ready", "listen when it can answer, or after 30 s").hideHelp())
    .addOption(hostOption("127.0.0.1"))
    .addOption(replicationOption())
    .addOption(modelReplicationOption())
    .addOption(swapReplicasOption())
    .addOption(requestTimeoutOption())
    .addOption(
      option(
        "--router-table-bytes <n>",
        "keyed tables up to this many bytes are looked up in the router",
        "WINNOW_ROUTER_TABLE_BYTES",
      )
        .argParser(wholeNumber(0, INT32_MAX))
        .default(4 * 2 ** 20),
    )
    .addOption(corsOption())
    .addOption(logLevelOption())
    .addOption(logFormatOption())
    .addOption(accessLogOption());
  addRequestOptions(addModelConfigOptions(addTlsOptions(command)));
  command.addOption(sslConfigOption());
  command
    .addOption(apiKeysOption("REST and gRPC requests need one, probes do not"))
    .addOption(allowedHostsOption());
  command
    .addOption(requireSecurityOption())
    .addOption(configOption())
    .addOption(otlpEndpointOption())
    .addOption(seenRedisOption());
  addLimitOptions(command, ROUTER_OWNERS);
  return addMembershipOptions(command).action(async (options: RouterRoleOptions) => {
    const { runRouter } = await import("../commands/router.ts");
    const source = command.getOptionValueSource("port");
    await runRouter(options, source === "cli" || source === "config");
  });
}

function worker(): Command {
  const command = new Command("worker")
    .description("run a worker, which holds partitions on its accelerator and answers routers")
    .addOption(
      option(
        "--id <name>",
        "worker's name, the same after restarts (default: the address)",
        "WINNOW_WORKER_ID",
      ),
    )
    .addOption(portOption("--port <port>", "gRPC port", "WINNOW_WORKER_PORT").default(WORKER_PORT))
    .addOption(
      portOption(
        "--metrics-port <port>",
        "HTTP or, with --tls-cert, HTTPS port of metrics and probes; 0: none",
        "WINNOW_METRICS_PORT",
      ).default(METRICS_PORT, `${METRICS_PORT}, or none if it is taken`),
    )
    .addOption(hostOption("127.0.0.1"))
    .addOption(
      option(
        "--advertise <host:port>",
        "address at which others reach this worker",
        "WINNOW_ADVERTISE",
      ),
    )
    .addOption(replicationOption())
    .addOption(modelReplicationOption())
    .addOption(swapReplicasOption())
    .addOption(partitionBytesOption())
    .addOption(extraMemoryOption())
    .addOption(acceleratorOption())
    .addOption(threadsOption("threads that scan (default: all cores)"))
    .addOption(machineOption())
    .addOption(memoryBytesOption())
    .addOption(logLevelOption())
    .addOption(logFormatOption());
  addLoadOptions(addModelConfigOptions(addModelOptions(command)));
  addTlsOptions(command);
  command.addOption(apiKeysOption("metrics need one"));
  command
    .addOption(requireSecurityOption())
    .addOption(configOption())
    .addOption(otlpEndpointOption());
  addLimitOptions(command, ["worker"]);
  return addMembershipOptions(command).action(async (options: WorkerRoleOptions) => {
    const { runWorker } = await import("../commands/worker.ts");
    await runWorker(options, command.getOptionValueSource("metricsPort") !== "default");
  });
}

/** The script that starts this command: what `winnow up` starts its processes with. */
const winnowScript: string = fileURLToPath(new URL("../../bin/winnow.js", import.meta.url));
