// What `winnow up` and `winnow serve` share: the flags of a cluster on one machine, and the arguments of its
// processes.

import { availableParallelism } from "node:os";
import type { AccessLogged } from "../tracing/access-log.ts";
import type { LocalClusterShape } from "./local-cluster.ts";
import {
  type LoadFlags,
  type ModelConfigFlags,
  type RequestFlags,
  argumentsOf,
} from "../model-config/config-flags.ts";
import type { ModelSource } from "../model-source/model-source.ts";
import type { LogFormat, LogLevel } from "../process/process-log.ts";
import type { TlsFlags } from "../process/process-tls.ts";
import type { RedisFlags } from "../access/redis-access.ts";
import { ROUTER_OWNERS, limitArguments } from "../settings/limit-flags.ts";

/** Flags of both commands. */
export interface LocalFlags
  extends ModelConfigFlags, LoadFlags, RequestFlags, TlsFlags, RedisFlags {
  readonly routers: number;
  readonly workers: number;
  readonly replication: number;
  readonly modelReplication?: ReadonlyMap<string, number>;
  readonly swapReplicas?: number;
  readonly partitionBytes?: number;
  readonly extraMemory?: number;
  readonly host: string;
  readonly accelerator: string;
  readonly logLevel: LogLevel;
  readonly logFormat?: LogFormat;
  readonly accessLog: AccessLogged;
  readonly rest_api_timeout_in_ms: number;
  readonly rest_api_enable_cors_support: boolean;
  readonly models?: string;
  readonly model_name?: string;
  readonly model_base_path?: string;
  readonly ssl_config_file?: string;
  readonly apiKeys?: string;
  readonly allowedHosts?: string;
  readonly otlpEndpoint?: string;
  readonly seenRedis?: string;
}

/** Where the models are, the script of a role (`bin/winnow.js`), and the routers' port. */
interface LocalPlace {
  readonly source: ModelSource;
  readonly script: string;
  readonly port: number;
}

/** The processes that the flags ask for: routers on `port`, and workers, whose addresses they are given. */
export function localClusterShape(
  options: LocalFlags,
  { source, script, port }: LocalPlace,
): LocalClusterShape {
  const replication = String(Math.min(options.replication, options.workers));
  const ofModels = Array.from(
    options.modelReplication ?? [],
    ([model, count]) => `${model}=${count}`,
  );
  const common = [
    "--replication",
    replication,
    ...(ofModels.length === 0 ? [] : ["--model-replication", ofModels.join(",")]),
    ...(options.swapReplicas === undefined
      ? []
      : ["--swap-replicas", String(options.swapReplicas)]),
    "--log-level",
    options.logLevel,
    ...redisArgs(options),
    ...(isGiven(options.otlpEndpoint) ? ["--otlp-endpoint", options.otlpEndpoint] : []),
    ...(options.logFormat === undefined ? [] : ["--log-format", options.logFormat]),
  ];
  const models =
    source.kind === "directory"
      ? ["--models", source.directory]
      : ["--model_name", source.model, "--model_base_path", source.basePath];
  return {
    routers: options.routers,
    workers: options.workers,
    host: options.host,
    port,
    redis: options.redis,
    seenRedis: options.seenRedis,
    isSecure: isGiven(options.tlsCert),
    keyFile: undefined,
    routerArgs: [
      ...common,
      "--access-log",
      String(options.accessLog),
      `--rest_api_timeout_in_ms=${options.rest_api_timeout_in_ms}`,
      `--rest_api_enable_cors_support=${options.rest_api_enable_cors_support}`,
      ...limitArguments(options, ROUTER_OWNERS),
      ...tlsArgs(options),
      ...(isGiven(options.apiKeys) ? ["--api-keys", options.apiKeys] : []),
      ...(isGiven(options.allowedHosts) ? ["--allowed-hosts", options.allowedHosts] : []),
      ...argumentsOf(options, ROUTER_FLAGS),
    ],
    workerArgs: [
      ...common,
      ...models,
      "--accelerator",
      options.accelerator,
      ...sharingArgs(options),
      ...cacheArgs(options),
      ...limitArguments(options, ["worker"]),
      ...argumentsOf(options, WORKER_FLAGS),
    ],
    script,
  };
}

/** Flags for reaching Redis; its URL is in a variable. */
function redisArgs(options: LocalFlags): readonly string[] {
  const args = {
    "--redis-username": options.redisUsername,
    "--redis-password-file": options.redisPasswordFile,
    "--redis-ca": options.redisCa,
    "--redis-cert": options.redisCert,
    "--redis-key": options.redisKey,
  };
  return Object.entries(args).flatMap(([flag, text]) => (isGiven(text) ? [flag, text] : []));
}

function tlsArgs({ tlsCert, tlsKey, tlsClientCa }: LocalFlags): readonly string[] {
  const args = { "--tls-cert": tlsCert, "--tls-key": tlsKey, "--tls-client-ca": tlsClientCa };
  return Object.entries(args).flatMap(([flag, file]) => (isGiven(file) ? [flag, file] : []));
}

/** An empty option, as from a variable, counts as absent. */
export function isGiven(text: string | undefined): text is string {
  return text !== undefined && text !== "";
}

/** Bytes of values up to which a table is not cut where its workers share a machine. */
const SHARED_PARTITION_BYTES = 2 ** 30;

/**
 * How the workers share this machine. Two of them scan its memory no faster than one, but a search that asks two
 * wakes twice as many threads: so each has threads for all cores, few tables are cut, and a search asks one worker
 * where one holds the table. More replicas than asked for would spread nothing.
 */
function sharingArgs(options: LocalFlags): readonly string[] {
  const isShared = options.workers > 1 && options.accelerator === "cpu";
  const partitionBytes = options.partitionBytes ?? (isShared ? SHARED_PARTITION_BYTES : undefined);
  const extraMemory = options.extraMemory ?? (isShared ? 0 : undefined);
  const threads = isShared
    ? availableParallelism()
    : Math.max(1, Math.floor(availableParallelism() / options.workers));
  return [
    "--threads",
    String(threads),
    ...(isShared ? ["--machine", "local"] : []),
    ...(partitionBytes === undefined ? [] : ["--partition-bytes", String(partitionBytes)]),
    ...(extraMemory === undefined ? [] : ["--extra-memory", String(extraMemory)]),
  ];
}

function cacheArgs({ modelCacheDir, modelCacheBytes }: LocalFlags): readonly string[] {
  if (!isGiven(modelCacheDir)) return [];
  return ["--model-cache-dir", modelCacheDir, "--model-cache-bytes", String(modelCacheBytes)];
}

/** Flags that are passed on unchanged: to both roles, to workers, to the router. */
const CONFIG_FLAGS = [
  "model_config_file",
  "model_config_file_poll_wait_seconds",
  "enable_model_warmup",
] as const;
const WORKER_FLAGS = [
  ...CONFIG_FLAGS,
  "file_system_poll_wait_seconds",
  "max_num_load_retries",
  "load_retry_interval_micros",
  "model_reload_root",
] as const;
const ROUTER_FLAGS = [
  ...CONFIG_FLAGS,
  "monitoring_config_file",
  "allow_version_labels_for_unavailable_models",
] as const;
