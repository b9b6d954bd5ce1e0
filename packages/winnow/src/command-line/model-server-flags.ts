// TensorFlow Serving's flags and variables that no command declares: they have no meaning in Winnow. Scripts may
// set them all the same, so they are taken, and named once in the log. The list is that of `tensorflow_model_server`,
// those of earlier releases included.

import { WinnowError } from "@winnow/core";
import type { Command } from "commander";
import { booleanValue } from "../command-options.ts";
import type { LogFormat, LogLevel } from "../process/process-log.ts";

const IDLE_FLAGS: ReadonlySet<string> = new Set([
  "--enable_batching",
  "--batching_parameters_file",
  "--tensorflow_session_parallelism",
  "--tensorflow_intra_op_parallelism",
  "--tensorflow_inter_op_parallelism",
  "--num_load_threads",
  "--num_unload_threads",
  "--per_process_gpu_memory_fraction",
  "--grpc_channel_arguments",
  "--flush_filesystem_caches",
  "--saved_model_tags",
  "--enable_per_model_batching_parameters",
  "--enable_profiler",
  "--enable_serialization_as_tensor_content",
  "--enable_signature_method_name_check",
  "--enforce_session_run_timeout",
  "--grpc_max_threads",
  "--mixed_precision",
  "--num_request_iterations_for_warmup",
  "--num_tflite_interpreters_per_pool",
  "--num_tflite_pools",
  "--platform_config_file",
  "--prefer_tflite_model",
  "--remove_unused_fields_from_bundle_metagraph",
  "--rest_api_num_threads",
  "--skip_initialize_tpu",
  "--tensorflow_session_config_file",
  "--thread_pool_factory_config_file",
  "--use_alts_credentials",
  "--use_saved_model",
  "--use_tflite_model",
  "--xla_cpu_compilation_enabled",
  "--xla_gpu_compilation_enabled",
]);

const ALTS = "--use_alts_credentials";
/** The health service is there whatever this flag says, so nothing is lost and nothing is logged. */
const HEALTH = "--enable_grpc_healthcheck_service";
const VERSION = "--version";

/** Variables that TensorFlow reads, in whatever process it runs. Terraform's begin with TF_, too. */
const IDLE_VARIABLE =
  /^(?:TENSORFLOW|TF_(?:CPP|CUDNN|DISABLE|ENABLE|FORCE|FP16|GPU|NUM|TENSORRT|XLA))_/;

/** A command line as Winnow's commands take it. */
export interface TakenArguments {
  readonly args: readonly string[];
  /** Flags that were left out, because they have no meaning here. */
  readonly idle: readonly string[];
}

/**
 * Takes TensorFlow Serving's flags without a meaning here, which are written `--flag=value`, from the arguments of a
 * process. `--version` after a command asks for the version, as it does there. Flags without a command are those of
 * `serve`: a container is started with nothing but its server's flags.
 * @throws WinnowError INVALID_ARGUMENT for encryption that is asked for and not there
 */
export function takeArguments(argv: readonly string[]): TakenArguments {
  const idle = new Set<string>();
  let asksVersion = false;
  const given = hasFlagsAlone(argv)
    ? [...argv.slice(0, COMMAND_INDEX), SERVE, ...argv.slice(COMMAND_INDEX)]
    : argv;
  const args = given.filter((arg, index) => {
    const [flag = "", value] = arg.split("=");
    if (flag === ALTS && (value === undefined || booleanOf(value) !== false)) {
      const text = `${ALTS}: there is no ALTS here; use --ssl_config_file, or --tls-cert and --tls-key`;
      throw new WinnowError("INVALID_ARGUMENT", text);
    }
    if (flag === VERSION && index > COMMAND_INDEX) {
      asksVersion = value === undefined || booleanOf(value) === true;
      return false;
    }
    if (IDLE_FLAGS.has(flag)) idle.add(flag);
    return flag !== HEALTH && !IDLE_FLAGS.has(flag);
  });
  if (asksVersion) return { args: [...args.slice(0, COMMAND_INDEX), VERSION], idle: [] };
  return { args, idle: [...idle] };
}

/** Where the command stands: behind Node and the script. */
const COMMAND_INDEX = 2;
const SERVE = "serve";

function hasFlagsAlone(argv: readonly string[]): boolean {
  const first = argv[COMMAND_INDEX] ?? "";
  return first.startsWith("--") && !["--", VERSION, "--help"].includes(first);
}

function booleanOf(text: string): boolean | undefined {
  try {
    return booleanValue(text);
  } catch {
    return undefined;
  }
}

/** TensorFlow's variables among those of the process. */
export function idleVariables(variables: Readonly<Record<string, string | undefined>>): string[] {
  return Object.keys(variables).filter((name) => IDLE_VARIABLE.test(name));
}

/** Names what has no meaning, once: in the log of a command that has one, else on stderr. */
export async function tellIdle(
  command: Command,
  {
    flags,
    variables,
  }: { readonly flags: readonly string[]; readonly variables: readonly string[] },
): Promise<void> {
  const told = {
    ...(flags.length > 0 && { flags: flags.join(" ") }),
    ...(variables.length > 0 && { variables: variables.join(" ") }),
  };
  if (Object.keys(told).length === 0) return;
  const { logLevel: level, logFormat: format } = command.opts<{
    readonly logLevel?: LogLevel;
    readonly logFormat?: LogFormat;
  }>();
  if (level === undefined) {
    process.stderr.write(`${IDLE_EVENT}: ${[...flags, ...variables].join(", ")}\n`);
    return;
  }
  const { processLog } = await import("../process/process-log.ts");
  processLog({ level, process: command.name(), format }).warn(IDLE_EVENT, told);
}

const IDLE_EVENT = "settings of TensorFlow Serving that have no meaning here";
