// The flags that several commands share, declared once. A flag wins over its WINNOW_* variable,
// which wins over the default; `--help` shows all three.

import { type Command, InvalidArgumentError, Option } from "commander";
import { accessLoggedOf } from "./tracing/access-log.ts";

/** Default port of a router's REST API, as in TensorFlow Serving. */
export const REST_PORT = 8501;
/** Default gRPC port of `winnow serve`, as in TensorFlow Serving. */
export const GRPC_PORT = 8500;
/** Default port of a worker. */
export const WORKER_PORT = 7600;

/** Parses a whole number from `min` to `max`. */
export function wholeNumber(min: number, max: number): (text: string) => number {
  return (text) => {
    const value = Number(text);
    if (/^\d+$/.test(text) && value >= min && value <= max) return value;
    throw new InvalidArgumentError(`It must be a whole number from ${min} to ${max}.`);
  };
}

const PORT_MAX = 65_535;

/** An option that may also be set by a variable. */
export function option(flags: string, description: string, variable?: string): Option {
  const made = new Option(flags, description);
  return variable === undefined ? made : made.env(variable);
}

/**
 * An option that must not be empty, as it is where a script's variable is not set: it would protect nothing, without a
 * word. `remedy` says what it must be, and what leaving it out means.
 */
function filledOption(flags: string, remedy: string, about: readonly [string, string]): Option {
  return option(flags, ...about).argParser((text) => {
    if (text.trim() !== "") return text;
    throw new InvalidArgumentError(remedy);
  });
}

/** A port option. */
export function portOption(flags: string, description: string, variable?: string): Option {
  return option(flags, description, variable).argParser(wholeNumber(0, PORT_MAX));
}

/**
 * The address to listen on. It must not be empty, as it is where a script's variable is not set: an empty one means all
 * interfaces to Node.
 */
export function hostOption(fallback: string): Option {
  return option("--host <address>", "address to listen on", "WINNOW_HOST")
    .argParser((text) => {
      if (/^\S+$/.test(text)) return text;
      throw new InvalidArgumentError("It must be an address or a name; 0.0.0.0 is all interfaces.");
    })
    .default(fallback);
}

/** How much a process logs. */
export const logLevelOption = (): Option =>
  option("--log-level <level>", "how much is logged on stderr", "WINNOW_LOG_LEVEL")
    .choices(["debug", "info", "warn", "error", "silent"])
    .default("info");

/** How log lines look. */
export const logFormatOption = (): Option =>
  option(
    "--log-format <format>",
    "log lines for people or for machines (default: text on a terminal, else json)",
    "WINNOW_LOG_FORMAT",
  ).choices(["text", "json"]);

/** Which requests the router logs. */
export const accessLogOption = (): Option =>
  option(
    "--access-log <which>",
    "log a line for each request: off, errors, all, or errors and a share of the rest (0.01)",
    "WINNOW_ACCESS_LOG",
  )
    .argParser((text) => {
      const logged = accessLoggedOf(text);
      if (logged !== undefined) return logged;
      throw new InvalidArgumentError("It must be off, errors, all, or a number above 0, up to 1.");
    })
    .default("off");

/** Where traces go. */
export const otlpEndpointOption = (): Option =>
  option(
    "--otlp-endpoint <url>",
    "send traces to this OpenTelemetry collector, such as http://collector:4318 (default: OTEL_EXPORTER_OTLP_ENDPOINT, else none)",
    "WINNOW_OTLP_ENDPOINT",
  );

const INT32_MAX = 2 ** 31 - 1;

/** Where a router or `winnow up` speaks gRPC. */
export const grpcPortOption = (): Option =>
  portOption(
    "--grpc-port <port>",
    "port of TensorFlow Serving's gRPC services (default: off)",
    "WINNOW_GRPC_PORT",
  );

/** How many routers `winnow up` and `winnow serve` start. */
export const routersOption = (): Option =>
  option(
    "--routers <n>",
    "router processes, which share the ports; each uses one core",
    "WINNOW_ROUTERS",
  )
    .argParser(wholeNumber(1, 64))
    .default(1);

/** A socket for gRPC beside the port. */
export const grpcSocketOption = (): Option =>
  option(
    "--grpc_socket_path <file>",
    "a socket in the file system on which gRPC is served, too (default: none)",
    "WINNOW_GRPC_SOCKET",
  );

/** How long a request may take. */
export const requestTimeoutOption = (): Option =>
  option("--rest_api_timeout_in_ms <ms>", "longest time of a request", "WINNOW_REQUEST_TIMEOUT_MS")
    .argParser(wholeNumber(0, INT32_MAX))
    .default(30_000);

/** The file for settings that no flag and no variable sets. */
export const configOption = (): Option =>
  filledOption("--config <file>", "It must name a file of settings; leave it out to have none.", [
    "YAML file of settings by the names of their flags; flags and variables take precedence",
    "WINNOW_CONFIG",
  ]);

/** Whether pages of other origins may send requests. */
export const corsOption = (): Option =>
  option(
    "--rest_api_enable_cors_support [yes]",
    "answer CORS requests from any origin",
    "WINNOW_CORS",
  )
    .preset("true")
    .argParser(booleanValue)
    .default(false);

/** How many threads a worker scans with. */
export const threadsOption = (description: string): Option =>
  option("--threads <n>", description, "WINNOW_THREADS").argParser(wholeNumber(1, 1024));

/** Memory for a worker's rows. */
export const memoryBytesOption = (): Option =>
  option(
    "--memory-bytes <n>",
    "memory rows may use (default: 70 % of this process's limit; below 850 MiB all but 256 MiB, at least half)",
    "WINNOW_MEMORY_BYTES",
  ).argParser(wholeNumber(1, Number.MAX_SAFE_INTEGER));

/** Which device workers use. */
export const acceleratorOption = (): Option =>
  option("--accelerator <kind>", "device that holds the rows", "WINNOW_ACCELERATOR")
    .choices(["cpu", "gpu", "reference"])
    .default("cpu");

/** An empty path would be the directory in which the command happens to run. */
const FILLED_DIRECTORY =
  "It must name a directory or a URL; . is the directory in which the command runs.";

/** A directory as an argument of a command. */
export function directoryArgument(text: string): string {
  if (text.trim() !== "") return text;
  throw new InvalidArgumentError(FILLED_DIRECTORY);
}

/** The directory of models. */
export const modelsOption = (description: string): Option =>
  filledOption("--models <dir>", FILLED_DIRECTORY, [description, "WINNOW_MODELS"]);

/** Adds the flags for where models are, Winnow's own and TensorFlow Serving's. */
export function addModelOptions(command: Command): Command {
  return command
    .addOption(modelsOption("directory of models: <dir>/<name>/<version>/"))
    .addOption(option("--model_name <name>", "serve one model under this name (or MODEL_NAME)"))
    .addOption(
      option(
        "--model_base_path <dir>",
        "directory of that model's versions (default: MODEL_BASE_PATH/MODEL_NAME)",
      ),
    );
}

/** Adds the flags of TLS for clients. */
export function addTlsOptions(command: Command): Command {
  const plain = "It must name a file; leave it out to serve without TLS.";
  const anyone = "It must name a file; leave it out to ask no client for a certificate.";
  return command
    .addOption(
      filledOption("--tls-cert <file>", plain, [
        "certificate chain in PEM of a router's REST and gRPC, or of a worker's metrics; read again when it changes",
        "WINNOW_TLS_CERT",
      ]),
    )
    .addOption(
      filledOption("--tls-key <file>", plain, ["its private key in PEM", "WINNOW_TLS_KEY"]),
    )
    .addOption(
      filledOption("--tls-client-ca <file>", anyone, [
        "authorities in PEM: clients need a certificate of one of them, probes do not",
        "WINNOW_TLS_CLIENT_CA",
      ]),
    );
}

/** TensorFlow Serving's file of certificates. */
export const sslConfigOption = (): Option =>
  option(
    "--ssl_config_file <file>",
    "TensorFlow Serving's file of certificate, key and authorities for gRPC, instead of --tls-cert; read again when it changes",
    "WINNOW_SSL_CONFIG_FILE",
  );

/** The file of keys of the clients that are answered. */
export const apiKeysOption = (answered: string): Option =>
  filledOption(
    "--api-keys <file>",
    "It must name a file of keys; leave it out to answer everybody without a key.",
    [
      `file of keys, made by winnow keys create: ${answered}; read again when it changes`,
      "WINNOW_API_KEYS",
    ],
  );

/** Names by which browsers and proxies may ask a router. */
export const allowedHostsOption = (): Option =>
  filledOption(
    "--allowed-hosts <list>",
    "It must be names, or * for any; leave it out for the default.",
    [
      "names that the Host of a REST request may have besides addresses and private names: a.example.org,…; *: any (default: any, but none on loopback without TLS or keys)",
      "WINNOW_ALLOWED_HOSTS",
    ],
  );

/** Refuses to start with anything unprotected. */
export const requireSecurityOption = (): Option =>
  option(
    "--require-security [yes]",
    "on an address beyond loopback, start only if connections are encrypted and clients need a key or certificate",
    "WINNOW_REQUIRE_SECURITY",
  )
    .preset("true")
    .argParser(booleanValue)
    .default(false);

/** Adds the flags with which a command authenticates itself to a router, and verifies it. */
export function addClientOptions(command: Command): Command {
  return command
    .addOption(
      filledOption(
        "--ca <file>",
        "It must name a file; leave it out for the authorities of Node.",
        ["authorities in PEM that issued the router's certificate", "WINNOW_CA"],
      ),
    )
    .addOption(
      filledOption("--key-file <file>", "It must name a file; leave it out for WINNOW_API_KEY.", [
        "file with this command's key for the router, if it needs one; or WINNOW_API_KEY",
        "WINNOW_API_KEY_FILE",
      ]),
    );
}

/** Adds the flags of TLS between members. */
function addClusterTlsOptions(command: Command): Command {
  const plain = "It must name a file; leave all three out for no TLS between members.";
  return command
    .addOption(
      filledOption("--cluster-tls-cert <file>", plain, [
        "this member's certificate chain in PEM, for TLS between routers and workers",
        "WINNOW_CLUSTER_TLS_CERT",
      ]),
    )
    .addOption(
      filledOption("--cluster-tls-key <file>", plain, [
        "its private key in PEM",
        "WINNOW_CLUSTER_TLS_KEY",
      ]),
    )
    .addOption(
      filledOption("--cluster-tls-ca <file>", plain, [
        "authorities in PEM that issue the members' certificates",
        "WINNOW_CLUSTER_TLS_CA",
      ]),
    )
    .addOption(
      filledOption(
        "--cluster-tls-name <name>",
        "It must be a DNS name; leave it out for the default.",
        [
          "DNS name in every member's certificate (default: a worker's certificate has its host, a router's any name)",
          "WINNOW_CLUSTER_TLS_NAME",
        ],
      ),
    );
}

/**
 * Adds how Redis is reached and verified. The password has no flag, because every user of the machine can see
 * flags.
 */
export function addRedisOptions(command: Command, description: string): Command {
  const unknown = "It must name a file; leave it out to present no certificate.";
  return command
    .addOption(option("--redis <url>", description, "WINNOW_REDIS"))
    .addOption(
      option(
        "--redis-username <name>",
        "user of Redis (default: the URL's)",
        "WINNOW_REDIS_USERNAME",
      ),
    )
    .addOption(
      filledOption(
        "--redis-password-file <file>",
        "It must name a file; leave it out for the URL's password.",
        [
          "file with the password of Redis, or WINNOW_REDIS_PASSWORD (default: the URL's)",
          "WINNOW_REDIS_PASSWORD_FILE",
        ],
      ),
    )
    .addOption(
      filledOption(
        "--redis-ca <file>",
        "It must name a file; leave it out for the authorities of Node.",
        [
          "authorities in PEM that issued Redis' certificate, for rediss:// (default: Node's)",
          "WINNOW_REDIS_CA",
        ],
      ),
    )
    .addOption(
      filledOption("--redis-cert <file>", unknown, [
        "certificate chain in PEM to present to Redis",
        "WINNOW_REDIS_CERT",
      ]),
    )
    .addOption(
      filledOption("--redis-key <file>", unknown, ["its private key in PEM", "WINNOW_REDIS_KEY"]),
    );
}

/** Where the items that users have seen are. */
export const seenRedisOption = (): Option =>
  filledOption("--seen-redis <url>", "It must be a URL; leave it out for that of --redis.", [
    "Redis with the items that users have seen, for pipelines (default: that of --redis)",
    "WINNOW_SEEN_REDIS",
  ]);

/** Adds how cluster members find and verify each other. */
export function addMembershipOptions(command: Command): Command {
  return addClusterTlsOptions(addRedisOptions(command, "Redis that holds membership"))
    .addOption(
      option("--members <list>", "fixed list instead of Redis: id@host:port,…", "WINNOW_MEMBERS"),
    )
    .addOption(
      filledOption("--cluster <name>", "It must be a name; leave it out for the default.", [
        "name that separates clusters in one Redis",
        "WINNOW_CLUSTER",
      ]).default("default"),
    )
    .addOption(
      filledOption(
        "--cluster-secret-file <file>",
        "It must name a file; leave it out to accept unsigned records.",
        [
          "secrets that sign the cluster's records in Redis, one per line: the first signs, all are accepted",
          "WINNOW_CLUSTER_SECRET_FILE",
        ],
      ),
    )
    .addOption(
      option(
        "--accept-unsigned [yes]",
        "accept unsigned records too, while a secret is introduced",
        "WINNOW_ACCEPT_UNSIGNED",
      )
        .preset("true")
        .argParser(booleanValue)
        .default(false),
    )
    .addOption(
      filledOption("--worker-addresses <list>", "It must be addresses; leave it out for any.", [
        "addresses that workers may have: 10.0.0.0/8,shard-*.example.org:7600,… (default: any host and port)",
        "WINNOW_WORKER_ADDRESSES",
      ]),
    )
    .addOption(
      option(
        "--state-dir <dir>",
        "directory for state that should survive a restart (default: none)",
        "WINNOW_STATE_DIR",
      ),
    );
}

/** Parses the value of a boolean flag, in any case, as TensorFlow Serving does. */
export function booleanValue(text: string): boolean {
  if (["true", "1"].includes(text.toLowerCase())) return true;
  if (["false", "0"].includes(text.toLowerCase())) return false;
  throw new InvalidArgumentError("It must be true or false.");
}

const REPLICATION_MAX = 16;

/** Replicas of each partition. */
export const replicationOption = (): Option =>
  option("--replication <n>", "replicas of each partition", "WINNOW_REPLICATION")
    .argParser(wholeNumber(1, REPLICATION_MAX))
    .default(2);

/** Replicas of each partition of single models, by name. */
export const modelReplicationOption = (): Option =>
  option(
    "--model-replication <list>",
    "replicas of single models: movies=3,ads=1; equal on all processes",
    "WINNOW_MODEL_REPLICATION",
  ).argParser((text) => {
    const entries = text.split(",").map((entry) => /^([^=,]{1,256})=(\d+)$/.exec(entry.trim()));
    const counts = entries.map((match) => [match?.[1] ?? "", Number(match?.[2])] as const);
    if (!counts.every(([, count]) => count >= 1 && count <= REPLICATION_MAX)) {
      throw new InvalidArgumentError(`Write model=replicas,…, each from 1 to ${REPLICATION_MAX}.`);
    }
    const models = new Map(counts);
    if (models.size === counts.length) return models;
    throw new InvalidArgumentError("It names a model twice; write each once.");
  });

/** Replicas while one version replaces another. */
export const swapReplicasOption = (): Option =>
  option(
    "--swap-replicas <n>",
    "replicas of each partition of a version and of the one that replaces it, meanwhile: fewer take less memory; equal on all processes (default: all)",
    "WINNOW_SWAP_REPLICAS",
  ).argParser(wholeNumber(1, REPLICATION_MAX));

/** Whom a worker shares its processors with. */
export const machineOption = (): Option =>
  option(
    "--machine <name>",
    "workers that name the same machine share its processors: searches ask as few of them as they can (default: none)",
    "WINNOW_MACHINE",
  ).argParser((text) => {
    if (/^[A-Za-z0-9_.:-]{1,255}$/.test(text)) return text;
    throw new InvalidArgumentError("It must be a name of letters, digits and _ . : - alone.");
  });

/** How finely tables are cut. */
export const partitionBytesOption = (): Option =>
  option(
    "--partition-bytes <n>",
    "most bytes of values in a partition: larger tables are cut; equal on all workers (default: 64 MiB; several workers of up and serve: 1 GiB)",
    "WINNOW_PARTITION_BYTES",
  ).argParser(wholeNumber(1, Number.MAX_SAFE_INTEGER));

/** Memory for replicas beyond the intended ones. */
export const extraMemoryOption = (): Option =>
  option(
    "--extra-memory <ratio>",
    "share of a worker's memory for replicas of uncut tables beyond --replication (default: 0.25; several workers of up and serve: 0)",
    "WINNOW_EXTRA_MEMORY",
  ).argParser((text) => {
    const value = Number(text);
    if (/^[\d.]+$/.test(text) && value >= 0 && value <= 1) return value;
    throw new InvalidArgumentError("It must be a number from 0 to 1.");
  });
