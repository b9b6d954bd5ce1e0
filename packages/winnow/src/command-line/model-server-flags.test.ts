// The command line of TensorFlow's model server, flag by flag.

import { expect, test } from "vitest";
import { servingCommands } from "./serving-commands.ts";
import { idleVariables, takeArguments } from "./model-server-flags.ts";

/** All flags of `tensorflow_model_server --help`, as of July 2026, each with a value that its parser takes. */
const ALL_FLAGS = [
  "--port=8500",
  "--grpc_socket_path=/tmp/serving.sock",
  "--rest_api_port=8501",
  "--rest_api_num_threads=16",
  "--rest_api_timeout_in_ms=30000",
  "--rest_api_enable_cors_support=True",
  "--enable_batching",
  "--allow_version_labels_for_unavailable_models=TRUE",
  "--batching_parameters_file=/etc/batching.txt",
  "--enable_per_model_batching_parameters=true",
  "--model_config_file=",
  "--model_config_file_poll_wait_seconds=0",
  "--model_name=movies",
  "--model_base_path=/models/movies",
  "--num_load_threads=0",
  "--num_unload_threads=0",
  "--max_num_load_retries=5",
  "--load_retry_interval_micros=-1",
  "--file_system_poll_wait_seconds=1",
  "--flush_filesystem_caches=true",
  "--tensorflow_session_parallelism=0",
  "--tensorflow_session_config_file=",
  "--tensorflow_intra_op_parallelism=0",
  "--tensorflow_inter_op_parallelism=0",
  "--use_alts_credentials=False",
  "--ssl_config_file=",
  "--platform_config_file=",
  "--per_process_gpu_memory_fraction=0.5",
  "--saved_model_tags=serve",
  "--grpc_channel_arguments=grpc.max_connection_age_ms=2000",
  "--grpc_max_threads=8",
  "--enable_model_warmup=true",
  "--num_request_iterations_for_warmup=1",
  "--version=false",
  "--monitoring_config_file=",
  "--remove_unused_fields_from_bundle_metagraph=true",
  "--prefer_tflite_model=false",
  "--num_tflite_pools=2",
  "--num_tflite_interpreters_per_pool=1",
  "--enable_signature_method_name_check=false",
  "--xla_cpu_compilation_enabled=false",
  "--xla_gpu_compilation_enabled=false",
  "--enable_profiler=true",
  "--thread_pool_factory_config_file=",
  "--mixed_precision=",
  "--skip_initialize_tpu=false",
  "--enable_grpc_healthcheck_service=true",
  "--enable_serialization_as_tensor_content=false",
];
const SCRIPT = ["node", "winnow.js"];

test("winnow serve takes every flag of the model server, and names those without a meaning once", () => {
  const { args, idle } = takeArguments([...SCRIPT, "serve", ...ALL_FLAGS, "--enable_batching=1"]);

  const serve = servingCommands["serve"]!().exitOverride();
  const { operands, unknown } = serve.parseOptions(args.slice(SCRIPT.length + 1));
  expect([operands, unknown]).toEqual([[], []]);
  expect(serve.opts()).toMatchObject({
    port: 8500,
    model_name: "movies",
    rest_api_enable_cors_support: true,
    allow_version_labels_for_unavailable_models: true,
    load_retry_interval_micros: 0,
  });
  expect(idle.filter((flag) => flag === "--enable_batching")).toHaveLength(1);
  expect(idle).not.toContain("--enable_grpc_healthcheck_service");
});

test.each([
  [["--model_config_file=/models/models.config"]],
  [["--enable_batching", "--model_name=movies"]],
])(
  "the flags %j alone are those of serve, as a container of TensorFlow Serving takes them",
  (flags) => {
    const alone = takeArguments([...SCRIPT, ...flags]);

    expect(alone).toEqual(takeArguments([...SCRIPT, "serve", ...flags]));
  },
);

test.each(["--help", "--version", "status"])("%s alone stays what it is", (word) => {
  expect(takeArguments([...SCRIPT, word]).args).toEqual([...SCRIPT, word]);
});

test("--version behind a command asks for the version, unless it is false", () => {
  const asked = takeArguments([...SCRIPT, "serve", "--port=8500", "--version"]);
  const denied = takeArguments([...SCRIPT, "serve", "--version=false"]);

  expect(asked).toEqual({ args: [...SCRIPT, "--version"], idle: [] });
  expect(denied).toEqual({ args: [...SCRIPT, "serve"], idle: [] });
});

test.each(["--use_alts_credentials", "--use_alts_credentials=true"])(
  "%s is refused: what it asks for is not there",
  (flag) => {
    expect(() => takeArguments([...SCRIPT, "serve", flag])).toThrow("there is no ALTS here");
  },
);

test("TensorFlow's variables are found among those of the process", () => {
  const variables = {
    TF_CPP_MIN_LOG_LEVEL: "1",
    TENSORFLOW_INTRA_OP_PARALLELISM: "2",
    TF_VAR_zone: "a",
  };

  expect(idleVariables(variables)).toEqual([
    "TF_CPP_MIN_LOG_LEVEL",
    "TENSORFLOW_INTRA_OP_PARALLELISM",
  ]);
});
