// The subcommands and their flags. What each does is in `commands/`; here are only flags and their defaults.
// Large commands are imported when they run, so that help and predict answer at once.

import { WinnowError } from "@winnow/core";
import { Command } from "commander";
import {
  addMembershipOptions,
  directoryArgument,
  modelReplicationOption,
  option,
  partitionBytesOption,
  replicationOption,
  wholeNumber,
} from "../command-options.ts";
import { reportFailure } from "../process/failure-report.ts";
import { processVariables } from "../process/process-settings.ts";
import {
  type SettingPlaces,
  applySettings,
  readSettings,
  settingNameOf,
} from "../settings/settings-file.ts";
import { batchCommand } from "./batch-command.ts";
import { benchCommand } from "./bench-command.ts";
import { completionCommand } from "./completion-command.ts";
import { type CommandSupply, type PreparedCommand, configCommand } from "./config-command.ts";
import { doctorCommand } from "./doctor-command.ts";
import { addHelpCommands } from "./help-command.ts";
import { layOutHelp } from "./help-layout.ts";
import { k8sCommand } from "./k8s-command.ts";
import { idleVariables, tellIdle } from "./model-server-flags.ts";
import { predictCommand } from "./predict-command.ts";
import { servingCommands } from "./serving-commands.ts";
import { checkVariables, variablesOf } from "./setting-variables.ts";
import { statusCommand, topCommand } from "./status-command.ts";
import { verifyCommand } from "./verify-command.ts";
import { terminalText } from "../terminal-text.ts";
import type { DrainOptions } from "../commands/drain.ts";
import type { OrderOptions } from "../commands/order.ts";

const INT32_MAX = 2 ** 31 - 1;
const EXIT_CODES = `
Exit codes: 0 done, 1 failed, 2 not accepted as it was typed or set; status,
verify, batch and bench say more with theirs.`;

/** What a command line is made for. */
export interface CommandLineUse {
  /** TensorFlow Serving's flags that were given and have no meaning here; the log names them. */
  readonly idleFlags?: readonly string[];
  /**
   * The command that will run. One that serves is then made alone: to declare the flags of all others takes 10 ms, which
   * every worker of a machine would pay.
   */
  readonly command?: string | undefined;
}

/** The command line, ready to parse. */
export function createCommandLine(
  version: string,
  { idleFlags = [], command: only }: CommandLineUse = {},
): Command {
  const root = new Command("winnow")
    .description(
      "Serves TensorFlow Recommenders' SavedModels and PyTorch's ONNX exports on a cluster, exactly, over TensorFlow Serving's REST API",
    )
    .version(version)
    .enablePositionalOptions()
    .exitOverride()
    .showHelpAfterError("(add --help for the flags)")
    .hook("preAction", async (_root, command) => {
      const variables = command.name() === "serve" ? idleVariables(processVariables) : [];
      await tellIdle(command, { flags: idleFlags, variables });
    });
  const supply = Object.fromEntries(
    Object.entries(servingCommands).map(([name, make]) => [name, () => prepared(make(), version)]),
  );
  const isServing = only !== undefined && Object.hasOwn(supply, only);
  const commands = isServing ? [supply[only]!().command] : allCommands(supply);
  for (const command of commands) root.addCommand(command.exitOverride());
  root.addHelpText("after", EXIT_CODES);
  return layOutHelp(isServing ? root : addHelpCommands(root));
}

function allCommands(supply: CommandSupply): Command[] {
  return [
    ...Object.values(supply).map((make) => make().command),
    configCommand(supply),
    inspectCommand(),
    predictCommand(),
    batchCommand(),
    statusCommand(),
    topCommand(),
    demoCommand(),
    drainCommand(),
    orderCommand(),
    keysCommand(),
    doctorCommand(),
    verifyCommand(),
    benchCommand(),
    k8sCommand(),
    completionCommand(),
  ];
}

/** A command that refuses variables that nothing reads, and reads its settings file. */
function prepared(command: Command, version: string): PreparedCommand {
  let places: SettingPlaces = new Map();
  command.hook("preAction", () => {
    checkVariables(processVariables, () => variablesOf(createCommandLine(version)));
    const file: unknown = command.getOptionValue("config");
    if (typeof file !== "string") return;
    const known = Object.values(servingCommands).flatMap((make) =>
      make().options.flatMap((each) => settingNameOf(each) ?? []),
    );
    places = applySettings(command, readSettings(file), { file, known });
  });
  return { command, places: () => places };
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
    .argument("<dir>", "a version, a model, or a directory of models", directoryArgument)
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
      const reports = await inspect({ directory, ...options });
      const failed = reports.filter((report) => "error" in report);
      const isJson = options.json === true;
      if (failed.length > 0) process.exitCode = 1;
      if (!isJson && reports.length === 1 && failed.length === 1) {
        const [{ model, version, error }] = failed as [(typeof failed)[number]];
        const told = `${model}, version ${version}: ${error.message}`;
        return reportFailure(new WinnowError(error.code, told));
      }
      const text = isJson
        ? `${JSON.stringify(reports, undefined, 2)}\n`
        : terminalText(reports.map(reportText).join("\n"));
      process.stdout.write(text);
      if (failed.length === 0) return;
      const names = failed.map(({ model }) => model).join(", ");
      process.stderr.write(
        `${failed.length} of ${reports.length} models cannot be served: ${names}\n`,
      );
    });
}

function drainCommand(): Command {
  const command = new Command("drain")
    .description("make one worker hand over its partitions and end, and wait until it has left")
    .argument("<worker>", "its id, as `winnow status` lists it")
    .option("--timeout <s>", "seconds to wait for it to leave", wholeNumber(1, 86_400), 300)
    .option("--force", "even if no other worker is ready to take over");
  return addMembershipOptions(command).action(async (worker: string, options: DrainOptions) => {
    const { runDrain } = await import("../commands/drain.ts");
    process.stdout.write(`${terminalText(await runDrain(worker, options))}\n`);
  });
}

function orderCommand(): Command {
  const command = new Command("order")
    .description(
      "show the models order that was given over gRPC and which workers follow it, or withdraw it",
    )
    .option("--withdraw", "end it: processes go back to their own flags and files");
  return addMembershipOptions(command).action(async (options: OrderOptions) => {
    const { runOrder } = await import("../commands/order.ts");
    process.stdout.write(`${terminalText(await runOrder(options))}\n`);
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
    .description("make a key for a client, and print it with its line for the file of --api-keys")
    .requiredOption("--id <name>", "name of the client: letters a-z, digits and -")
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
    .description(
      "write models to try: movies (retrieval), movies-ranking, and two pipelines, home-feed and similar-movies",
    )
    .argument("<dir>", "where to write them", directoryArgument)
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
