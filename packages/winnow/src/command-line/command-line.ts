// The subcommands and their flags. What each does lies in `commands/`; here is only what a person
// types and what it defaults to. Large commands are imported when they run, so that help and
// predict answer at once.

import { fileURLToPath } from "node:url";
import { WinnowError } from "@winnow/core";
import { Command } from "commander";
import {
  GRPC_PORT,
  REST_PORT,
  WORKER_PORT,
  accessLogOption,
  apiKeysOption,
  acceleratorOption,
  addClientOptions,
  addMembershipOptions,
  addRedisOptions,
  addModelOptions,
  addTlsOptions,
  logFormatOption,
  logLevelOption,
  option,
  portOption,
  extraMemoryOption,
  modelReplicationOption,
  partitionBytesOption,
  replicationOption,
  memoryBytesOption,
  requestTimeoutOption,
  requireSecurityOption,
  threadsOption,
  wholeNumber,
} from "../command-options.ts";
import {
  addLoadOptions,
  addModelConfigOptions,
  addRequestOptions,
} from "../model-config/config-flags.ts";
import { completionCommand } from "./completion-command.ts";
import { doctorCommand } from "./doctor-command.ts";
import { processVariables } from "../process/process-settings.ts";
import { statusCommand, topCommand } from "./status-command.ts";
import { checkVariables, variablesOf } from "./setting-variables.ts";
import { benchCommand } from "./bench-command.ts";
import { verifyCommand } from "./verify-command.ts";
import { curlLine, predict, predictionTable } from "../commands/predict.ts";
import type { OrderOptions } from "../commands/order.ts";
import type { RouterRoleOptions } from "../commands/router.ts";
import type { ServeOptions } from "../commands/serve.ts";
import type { UpOptions } from "../commands/up.ts";
import type { WorkerRoleOptions } from "../commands/worker.ts";

const METRICS_PORT = 9100;
const INT32_MAX = 2 ** 31 - 1;

/** The whole command line, ready to parse. */
export function createCommandLine(version: string): Command {
  const root = new Command("winnow")
    .description(
      "Serves TensorFlow Recommenders' SavedModels and PyTorch's ONNX exports on a cluster, exactly, over TensorFlow Serving's REST API",
    )
    .version(version)
    .exitOverride()
    .showHelpAfterError("(add --help for the flags)");
  const serving = [up(), serve(), router(), worker()];
  for (const command of serving) {
    command.hook("preAction", () => checkVariables(processVariables, variablesOf(root)));
  }
  for (const command of [
    ...serving,
    inspectCommand(),
    predictCommand(),
    statusCommand(),
    topCommand(),
    demoCommand(),
    orderCommand(),
    keysCommand(),
    doctorCommand(),
    verifyCommand(),
    benchCommand(),
    completionCommand(),
  ]) {
    root.addCommand(command.exitOverride());
  }
  return root;
}

function up(): Command {
  const command = new Command("up")
    .description("start a cluster on this machine: one router and several workers")
    .addOption(
      option("--workers <n>", "worker processes", "WINNOW_WORKERS")
        .argParser(wholeNumber(1, 64))
        .default(3),
    )
    .addOption(replicationOption())
    .addOption(modelReplicationOption())
    .addOption(partitionBytesOption())
    .addOption(extraMemoryOption())
    .addOption(portOption("--port <port>", "REST port", "WINNOW_PORT").default(REST_PORT))
    .addOption(portOption("--rest_api_port <port>", "the same, TensorFlow Serving's name"))
    .addOption(
      option("--host <address>", "address to listen on", "WINNOW_HOST").default("127.0.0.1"),
    )
    .addOption(acceleratorOption())
    .addOption(logLevelOption().default("warn"))
    .addOption(logFormatOption())
    .addOption(accessLogOption());
  addRedisOptions(command, "membership through Redis");
  addRequestOptions(addLoadOptions(addModelConfigOptions(addModelOptions(command))));
  addTlsOptions(command, "REST");
  command.addOption(apiKeysOption("REST answers nobody else, but for probes"));
  addClientOptions(command);
  return command.action(async (options: UpOptions) => {
    const { runUp } = await import("../commands/up.ts");
    await runUp(options, winnowScript);
  });
}

function serve(): Command {
  const command = new Command("serve")
    .description(
      "serve as one TensorFlow Serving container does, with its flags and ports: a router and its worker on this machine",
    )
    .addOption(
      portOption("--port <port>", "gRPC port; 0: none", "WINNOW_GRPC_PORT").default(GRPC_PORT),
    )
    .addOption(
      option("--rest_api_port <port>", "REST port", "WINNOW_PORT")
        .argParser(wholeNumber(1, 65_535))
        .default(REST_PORT),
    )
    .addOption(option("--host <address>", "address to listen on", "WINNOW_HOST").default("0.0.0.0"))
    .addOption(
      option("--workers <n>", "worker processes; one uses all cores", "WINNOW_WORKERS")
        .argParser(wholeNumber(1, 64))
        .default(1),
    )
    .addOption(replicationOption())
    .addOption(modelReplicationOption())
    .addOption(partitionBytesOption())
    .addOption(extraMemoryOption())
    .addOption(requestTimeoutOption())
    .option("--rest_api_enable_cors_support", "answer CORS requests from any origin")
    .addOption(acceleratorOption())
    .addOption(threadsOption("threads that scan, of each worker (default: the cores, shared)"))
    .addOption(memoryBytesOption())
    .addOption(logLevelOption())
    .addOption(logFormatOption())
    .addOption(accessLogOption());
  addRequestOptions(addLoadOptions(addModelConfigOptions(addModelOptions(command))));
  addTlsOptions(command, "REST and gRPC");
  command.addOption(apiKeysOption("REST and gRPC answer nobody else, but for probes"));
  command.addOption(requireSecurityOption());
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
        "REST port; beside --rest_api_port the gRPC port, as in TensorFlow Serving",
        "WINNOW_PORT",
      ).default(REST_PORT),
    )
    .addOption(portOption("--rest_api_port <port>", "REST port, TensorFlow Serving's name"))
    .addOption(
      portOption(
        "--grpc-port <port>",
        "port of TensorFlow Serving's gRPC services (default: off)",
        "WINNOW_GRPC_PORT",
      ),
    )
    .addOption(
      option("--host <address>", "address to listen on", "WINNOW_HOST").default("127.0.0.1"),
    )
    .addOption(replicationOption())
    .addOption(modelReplicationOption())
    .addOption(requestTimeoutOption())
    .addOption(
      option(
        "--router-table-bytes <n>",
        "keyed tables up to this size are looked up in the router",
        "WINNOW_ROUTER_TABLE_BYTES",
      )
        .argParser(wholeNumber(0, INT32_MAX))
        .default(4 * 2 ** 20),
    )
    .option("--rest_api_enable_cors_support", "answer CORS requests from any origin")
    .addOption(logLevelOption())
    .addOption(logFormatOption())
    .addOption(accessLogOption());
  addRequestOptions(addModelConfigOptions(addTlsOptions(command, "REST and gRPC")));
  command.addOption(apiKeysOption("REST and gRPC answer nobody else, but for probes"));
  command.addOption(requireSecurityOption());
  return addMembershipOptions(command).action(async (options: RouterRoleOptions) => {
    const { runRouter } = await import("../commands/router.ts");
    await runRouter(options, command.getOptionValueSource("port") === "cli");
  });
}

function worker(): Command {
  const command = new Command("worker")
    .description("run a worker: holds partitions on its accelerator and answers routers")
    .addOption(
      option(
        "--id <name>",
        "name that stays across restarts (default: the address)",
        "WINNOW_WORKER_ID",
      ),
    )
    .addOption(portOption("--port <port>", "gRPC port", "WINNOW_WORKER_PORT").default(WORKER_PORT))
    .addOption(
      portOption(
        "--metrics-port <port>",
        "HTTP port of metrics and probes; 0: none",
        "WINNOW_METRICS_PORT",
      ).default(METRICS_PORT, `${METRICS_PORT}, or none where it is taken`),
    )
    .addOption(
      option("--host <address>", "address to listen on", "WINNOW_HOST").default("127.0.0.1"),
    )
    .addOption(option("--advertise <host:port>", "address others reach it at", "WINNOW_ADVERTISE"))
    .addOption(replicationOption())
    .addOption(modelReplicationOption())
    .addOption(partitionBytesOption())
    .addOption(extraMemoryOption())
    .addOption(acceleratorOption())
    .addOption(threadsOption("threads that scan (default: all cores)"))
    .addOption(memoryBytesOption())
    .addOption(logLevelOption())
    .addOption(logFormatOption());
  addLoadOptions(addModelConfigOptions(addModelOptions(command)));
  command.addOption(apiKeysOption("metrics are shown to nobody else"));
  command.addOption(requireSecurityOption());
  return addMembershipOptions(command).action(async (options: WorkerRoleOptions) => {
    const { runWorker } = await import("../commands/worker.ts");
    await runWorker(options, command.getOptionValueSource("metricsPort") !== "default");
  });
}

interface InspectOptions {
  readonly workers: number;
  readonly replication: number;
  readonly modelReplication?: ReadonlyMap<string, number>;
  readonly partitionBytes?: number;
  readonly json?: true;
}

function inspectCommand(): Command {
  return new Command("inspect")
    .description("show what a model directory holds and what each of N workers would hold")
    .argument("<dir>", "a version, a model, or a directory of models")
    .addOption(
      option("--workers <n>", "workers", "WINNOW_WORKERS")
        .argParser(wholeNumber(1, 1024))
        .default(3),
    )
    .addOption(replicationOption())
    .addOption(modelReplicationOption())
    .addOption(partitionBytesOption())
    .option("--json", "machine-readable")
    .action(async (directory: string, options: InspectOptions) => {
      const { inspect, reportText } = await import("../commands/inspect.ts");
      const reports = inspect({ directory, ...options });
      const text =
        options.json === true
          ? `${JSON.stringify(reports, undefined, 2)}\n`
          : reports.map(reportText).join("\n");
      process.stdout.write(text);
      const failed = reports.filter((report) => "error" in report).map(({ model }) => model);
      if (failed.length === 0) return;
      process.stderr.write(
        `${failed.length} of ${reports.length} models cannot be served: ${failed.join(", ")}\n`,
      );
      process.exitCode = 1;
    });
}

interface PredictOptions {
  readonly url: string;
  readonly ca?: string;
  readonly keyFile?: string;
  readonly modelVersion?: number;
  readonly signature?: string;
  readonly k?: number;
  readonly exclude?: string;
  readonly include?: string;
  readonly filter?: string;
  readonly return?: readonly string[];
  readonly json?: true;
  readonly verbose?: true;
}

function predictCommand(): Command {
  return addClientOptions(new Command("predict"))
    .description("ask a running router")
    .argument("<model>", "model name")
    .argument("<instances>", `JSON, such as '["42"]'`)
    .addOption(
      option("--url <url>", "the router", "WINNOW_URL").default(`http://127.0.0.1:${REST_PORT}`),
    )
    .option(
      "--model-version <n>",
      "this version, not the default",
      wholeNumber(0, Number.MAX_SAFE_INTEGER),
    )
    .option("--signature <name>", "this signature, not serving_default")
    .option("-k <n>", "items wanted per instance", wholeNumber(1, INT32_MAX))
    .option("--exclude <json>", `item ids never to be answered, such as '["7","9"]'`)
    .option("--include <json>", "the only item ids that may be answered")
    .option("--filter <json>", `which items, by their attributes, such as '{"year":{"$gte":1990}}'`)
    .option("--return <names...>", "attributes to give with each item")
    .option("--json", "the answer as it came")
    .option("-v, --verbose", "also print the version and the same request for curl, on stderr")
    .action(async (model: string, json: string, options: PredictOptions) => {
      const command = { ...options, version: options.modelVersion, model, json };
      const answer = await predict(command);
      if (options.verbose === true) {
        process.stderr.write(`version ${answer.version ?? "unknown"}\n${curlLine(command)}\n`);
      }
      const isForPeople = options.json !== true && process.stdout.isTTY;
      process.stdout.write(isForPeople ? predictionTable(answer.text) : `${answer.text}\n`);
    });
}

function orderCommand(): Command {
  const command = new Command("order")
    .description("show the models order that was given over gRPC, who follows it, or withdraw it")
    .option("--withdraw", "end it: processes go back to their own flags and files");
  return addMembershipOptions(command).action(async (options: OrderOptions) => {
    const { runOrder } = await import("../commands/order.ts");
    process.stdout.write(`${await runOrder(options)}\n`);
  });
}

interface KeyOptions {
  readonly id: string;
  readonly roles: string;
  readonly rate?: number;
  readonly concurrency?: number;
  readonly json?: true;
}

function keysCommand(): Command {
  const create = new Command("create")
    .description("make a key for a client, and print it with the line that lets it in")
    .requiredOption("--id <name>", "who it is for: letters a-z, digits and -")
    .option("--roles <list>", "what it may do: predict, status, administer", "predict")
    .option("--rate <n>", "requests a second", wholeNumber(1, 9_999_999))
    .option("--concurrency <n>", "requests worked on at the same time", wholeNumber(1, 9_999_999))
    .option("--json", "machine-readable")
    .exitOverride()
    .action(async ({ json, roles, ...wanted }: KeyOptions) => {
      const { createKey } = await import("@winnow/cluster");
      const made = createKey({ ...wanted, roles: roles.split(",") });
      process.stdout.write(
        json === true
          ? `${JSON.stringify(made)}\n`
          : `${made.key}\n\nHand that to the client; it is not kept. Add this to the file of --api-keys:\n\n${made.line}\n`,
      );
    });
  return new Command("keys").description("make keys for a router's clients").addCommand(create);
}

interface DemoOptions {
  readonly items: number;
  readonly dim: number;
  readonly users: number;
  readonly k: number;
  readonly seed: number;
}

function demoCommand(): Command {
  return new Command("demo")
    .description("write models to try: movies (retrieval) and movies-ranking")
    .argument("<dir>", "where to write them")
    .option("--items <n>", "movies", wholeNumber(1, INT32_MAX), 10_000)
    .option("--dim <n>", "values per embedding", wholeNumber(1, 4096), 32)
    .option("--users <n>", "users", wholeNumber(1, INT32_MAX), 1000)
    .option("-k <n>", "movies per answer", wholeNumber(1, 10_000), 10)
    .option("--seed <n>", "same seed, same models", wholeNumber(0, INT32_MAX), 1)
    .action(async (directory: string, options: DemoOptions) => {
      if (options.k > options.items) {
        throw new WinnowError(
          "INVALID_ARGUMENT",
          `-k ${options.k} asks for more than --items ${options.items}`,
        );
      }
      const { demo } = await import("../commands/demo.ts");
      const written = await demo({ directory, ...options });
      process.stdout.write(`${written}\n`);
      process.stderr.write(`Serve them with: winnow up --models ${written}\n`);
    });
}

/** The script that starts this command: what `winnow up` starts its processes with. */
const winnowScript: string = fileURLToPath(new URL("../../bin/winnow.js", import.meta.url));
