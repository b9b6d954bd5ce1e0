// Every setting of a worker: unit, default, and what it trades. Options (all optional) come in, settings (all
// present) go out. Defaults stand in this file and nowhere else.

import { hostname } from "node:os";

import type { AcceleratorKind } from "@winnow/accelerator";
import { parseAddress } from "@winnow/cluster";
import {
  PARTITION_BYTES,
  WinnowError,
  excerpt,
  hostPort,
  incarnation,
  memoryLimitBytes,
  rowMemoryBytes,
  workerId,
} from "@winnow/core";
import type { Incarnation, WorkerId } from "@winnow/core";
import type { CacheSettings } from "@winnow/model";

import type { DeviceSettings, ReaderSettings } from "./compute/compute-thread-data.ts";
import type { DrainSettings } from "./replicas/drain/drain-hold.ts";
import type { NamedModel, ReplacementSettings } from "./models/model-replacement.ts";
import type { ProgressWatchSettings } from "./progress-watch.ts";
import type { ReplicaSettings } from "./replicas/replica-control.ts";
import type { AnswerLimits } from "./queries/query-lanes.ts";
import type { VersionPolicy } from "./models/version-policy.ts";
import type { ModelLocation, WatchSettings } from "./models/version-watch.ts";

/** The options of a worker. Each that is left out has its default. */
export interface WorkerOptions {
  /** Stable name, which keeps partitions in place across restarts. Default: the advertised address. */
  readonly workerId?: string | undefined;
  /**
   * Number of this process's life, higher than that of earlier processes. The worker takes a higher number
   * when it learns that its own is not. Default: milliseconds since 1970.
   */
  readonly incarnation?: number | undefined;
  /** The release of Winnow to announce. Default: none. */
  readonly release?: string | undefined;
  /** Interface to listen on. Default 127.0.0.1: the port is for routers alone. */
  readonly host?: string | undefined;
  /** Port of the Shard service. Default 7600; 0 takes any free one. */
  readonly port?: number | undefined;
  /** host:port that routers connect to. Default: host (or the machine's name) and the port. */
  readonly advertisedAddress?: string | undefined;
  /** A directory in which every subdirectory is a model. No default. */
  readonly modelsPath?: string | undefined;
  /** Models by name and base path; the policy defaults to `versionPolicy`. */
  readonly models?: readonly NamedModel[] | undefined;
  /** Routers may replace `models` by models below this directory. Default: they may not. */
  readonly modelReloadRoot?: string | undefined;
  /** Where data read from object stores is cached, and up to how many bytes. Default: nowhere. */
  readonly modelCache?: CacheSettings | undefined;
  /** Which versions to hold. Default: the latest one (and the default version while that is another one). */
  readonly versionPolicy?: VersionPolicy | undefined;
  /**
   * Ms between two looks at the model directories; 0: look once. Default 1000 ms. Files that are still are
   * looked at in every fifth look, or after 5 s, so a version that is replaced in place is seen that much
   * later.
   */
  readonly pollIntervalMs?: number | undefined;
  /** Changed files are opened once they have not changed for this long. Default 300 ms. */
  readonly fileStillMs?: number | undefined;
  /** Files that change for this long are opened all the same, to report why. Default 60 000 ms. */
  readonly fileCopyMsMax?: number | undefined;
  /** Intended replicas of each partition, equal on all processes. Default 2. */
  readonly replication?: number | undefined;
  /** Replication of single models that differ from `replication`, by name. Default none. */
  readonly modelReplication?: ReadonlyMap<string, number> | undefined;
  /**
   * Replicas of each partition of a version and of the one that replaces it, while that goes on: fewer than
   * `replication` take less memory, and can less often do without a worker. Equal on all processes. Default: as many.
   */
  readonly swapReplicas?: number | undefined;
  /**
   * Most bytes of float32 values in a partition, equal on all workers: larger tables are cut, so
   * that several workers scan them. Default 67 108 864: what one worker scans in 1 to 3 ms.
   */
  readonly partitionBytes?: number | undefined;
  /**
   * Bytes of item tables that are not cut, which every router would hold: a version with more is refused. Default
   * 2 147 483 648, about what a dense part can have; 0: every table must be cut.
   */
  readonly uncutBytesMax?: number | undefined;
  /**
   * The part of `memoryBytesMax` that replicas beyond `replication` may occupy. Only tables that are not cut
   * have such replicas: with one on each worker, requests spread over all workers. Default 0.25; 0: none.
   */
  readonly extraMemoryRatio?: number | undefined;
  /** Device to hold and search rows on. Default cpu, which falls back to plain JavaScript. */
  readonly accelerator?: AcceleratorKind | undefined;
  /** Bytes that rows, ids and keys may occupy. Default: `rowMemoryBytes` of this process's memory limit. */
  readonly memoryBytesMax?: number | undefined;
  /** Threads of a scan on the CPU. Default: the processors this process may use. */
  readonly threads?: number | undefined;
  /**
   * Workers that name the same machine share its processors: a search asks as few of them as it can.
   * Default: none, the worker has processors of its own.
   */
  readonly machine?: string | undefined;
  /** Loading waits until the list of workers has not changed for this long. Default 300 ms. */
  readonly placementQuietMs?: number | undefined;
  /** Retries of a version that failed to load, while its files stay the same. Default 5. */
  readonly maxLoadRetries?: number | undefined;
  /** Between two such retries. Default 10 000 ms. */
  readonly loadRetryIntervalMs?: number | undefined;
  /**
   * Longest deadline of a request. Replicas and versions that are given up are kept for twice as long, for
   * requests under way. Default 10 000 ms.
   */
  readonly requestDeadlineMsMax?: number | undefined;
  /** Least time for which a version that is given up is kept, for quick rollbacks. Default 0 ms. */
  readonly rollbackWindowMs?: number | undefined;
  /**
   * Query vectors that may wait for the device; more are refused at once. Default 16 384: as many as sixteen
   * routers have under way, each with its `searchRowsMax`.
   */
  readonly queueRowsMax?: number | undefined;
  /** Query vectors of one scan. Higher makes each cheaper and lets it wait longer. Default 64. */
  readonly batchRowsMax?: number | undefined;
  /** Scans under way at once, beside one full batch sent ahead. Default 1, so that batches form. */
  readonly scansInFlightMax?: number | undefined;
  /**
   * Most ms that an idle device waits for queries that are likely to come, so that more share a scan
   * (`queries/batch-company.ts`); 0: it never waits. Default 5 ms.
   */
  readonly companyMsMax?: number | undefined;
  /** Gathers under way at once. Default 4. */
  readonly lookupsInFlightMax?: number | undefined;
  /** Query vectors of one query. Default 1024. */
  readonly queryRowsMax?: number | undefined;
  /** Candidates per query vector. Default 10 000. */
  readonly kMax?: number | undefined;
  /** Query vectors × k of one query. Default 1 048 576 (8 MiB of scores and rows). */
  readonly answerRowsMax?: number | undefined;
  /** Excluded ids of one query. Default 100 000. */
  readonly excludedIdsMax?: number | undefined;
  /** Keys of one lookup, and keys that may wait. Default 65 536. */
  readonly lookupKeysMax?: number | undefined;
  /** Memory of the id indexes that exclusions build. Default 268 435 456 bytes. */
  readonly exclusionBytesMax?: number | undefined;
  /** Memory of the filters of attributes that are kept for later queries. Default 67 108 864 bytes. */
  readonly filterBytesMax?: number | undefined;
  /**
   * Rows × dim × query vectors up to which the event loop runs a scan itself instead of waking the compute
   * thread, for each of up to four threads that share the scan. Default 33 554 432: one or two milliseconds, in which
   * no other frame is read; 0: none.
   */
  readonly inlineScanValuesMax?: number | undefined;
  /** Least ms between two announcements of changes. Default 50 ms. */
  readonly announceIntervalMs?: number | undefined;
  /** A worker whose work waits for this long without progress is stalled. Default 1000 ms. */
  readonly stallMs?: number | undefined;
  /**
   * A worker in drain leaves once others have covered its partitions for this long. Default
   * 5000 ms: a worker that was killed may stay announced for 4.6 s, and must not count.
   */
  readonly drainSettleMs?: number | undefined;
  /**
   * If all other workers that are there are in drain, a worker in drain waits this long for absent ones.
   * Default 30 000 ms: longer than a failover of a store takes.
   */
  readonly drainAbsentMs?: number | undefined;
  /**
   * Longest time for which a worker in drain waits for coverage: 15 s less than the termination grace period
   * of its pod. Default 285 000 ms.
   */
  readonly drainHoldMsMax?: number | undefined;
  /** Time for routers to end their streams in a drain. Default 10 000 ms. */
  readonly drainGraceMs?: number | undefined;
}

/** All settings of a worker, with defaults filled in. */
export interface WorkerSettings {
  readonly workerId: WorkerId;
  readonly release: string | undefined;
  /** What workers must agree on to place partitions alike, as text. */
  readonly placement: string;
  readonly machine: string | undefined;
  readonly incarnation: Incarnation;
  readonly host: string;
  readonly port: number;
  readonly advertisedAddress: string | undefined;
  readonly watch: WatchSettings;
  /** The worker's own models, by name. They count while no models order is in force. */
  readonly models: readonly NamedModel[];
  readonly replacement: ReplacementSettings;
  readonly replicas: ReplicaSettings;
  readonly answers: AnswerLimits;
  readonly progress: ProgressWatchSettings;
  readonly drain: DrainSettings & { readonly drainGraceMs: number };
  readonly device: DeviceSettings;
  readonly reader: ReaderSettings;
  readonly exclusionBytesMax: number;
  readonly filterBytesMax: number;
  readonly inlineScanValuesMax: number;
  readonly announceIntervalMs: number;
}

const PROGRESS_CHECK_INTERVAL_MS = 100;
/** Looks, and ms, after which files that are still are looked at again. */
const STILL_LOOK_POLLS = 5;
const STILL_LOOK_MS_MAX = 5000;

/** Fills in the defaults. @throws WinnowError INVALID_ARGUMENT for what cannot work */
export function resolveWorkerOptions(options: WorkerOptions): WorkerSettings {
  const port = options.port ?? 7600;
  const host = options.host ?? "127.0.0.1";
  const { advertisedAddress } = options;
  if (advertisedAddress !== undefined && parseAddress(advertisedAddress) === undefined) {
    const text = `Cannot announce "${excerpt(advertisedAddress)}": write host:port or [IPv6]:port`;
    throw new WinnowError("INVALID_ARGUMENT", text);
  }
  const id = workerId(options.workerId ?? advertisedAddressOf({ host, advertisedAddress }, port));
  const replicas = replicaSettings(options, id);
  const reader = readerSettings(options);
  return {
    workerId: id,
    release: options.release,
    placement: placementText(replicas, reader),
    machine: options.machine,
    incarnation: incarnation(options.incarnation ?? Date.now()),
    host,
    port,
    advertisedAddress,
    watch: watchSettings(options),
    models: ownModels(options),
    replacement: {
      reloadRoot: options.modelReloadRoot,
      isWholeDirectory: options.modelsPath !== undefined,
    },
    replicas,
    answers: answerLimits(options),
    progress: { stallMs: options.stallMs ?? 1000, checkIntervalMs: PROGRESS_CHECK_INTERVAL_MS },
    drain: drainSettings(options),
    device: {
      kind: options.accelerator ?? "cpu",
      capacityBytes: options.memoryBytesMax ?? rowMemoryBytes(memoryLimitBytes()),
      threads: options.threads,
    },
    reader,
    ...computeSettings(options),
    announceIntervalMs: options.announceIntervalMs ?? 50,
  };
}

/** Two loads of rows beyond it keep a device and a disk busy. */
const SMALL_LOADS_BYTES = 2 ** 20;

function replicaSettings(options: WorkerOptions, id: WorkerId): ReplicaSettings {
  const deadlineMs = options.requestDeadlineMsMax ?? 10_000;
  return {
    workerId: id,
    replication: atLeastOne("replication", options.replication ?? 2),
    modelReplication: options.modelReplication,
    swapReplicas: options.swapReplicas && atLeastOne("swapReplicas", options.swapReplicas),
    extraMemoryRatio: ratio("extraMemoryRatio", options.extraMemoryRatio ?? 0.25),
    smallLoadsBytes: SMALL_LOADS_BYTES,
    placementQuietMs: options.placementQuietMs ?? 300,
    maxLoadRetries: options.maxLoadRetries ?? 5,
    loadRetryIntervalMs: options.loadRetryIntervalMs ?? 10_000,
    replicaGraceMs: 2 * deadlineMs,
    versionGraceMs: Math.max(2 * deadlineMs, options.rollbackWindowMs ?? 0),
  };
}

function ratio(name: string, value: number): number {
  if (value >= 0 && value <= 1) return value;
  throw new WinnowError("INVALID_ARGUMENT", `${name} must be from 0 to 1`);
}

/** Settings of the compute side: limits of the caches of id indexes and filters, and of scans in the event loop. */
function computeSettings({
  exclusionBytesMax = 2 ** 28,
  filterBytesMax = 2 ** 26,
  inlineScanValuesMax = 2 ** 25,
}: WorkerOptions): Pick<
  WorkerSettings,
  "exclusionBytesMax" | "filterBytesMax" | "inlineScanValuesMax"
> {
  return { exclusionBytesMax, filterBytesMax, inlineScanValuesMax };
}

function readerSettings({
  partitionBytes = PARTITION_BYTES,
  uncutBytesMax = 2 ** 31,
  modelCache,
}: WorkerOptions): ReaderSettings {
  const atMost = atLeastOne("partitionBytes", partitionBytes);
  return { partitionBytes: atMost, uncutBytesMax, modelCache };
}

/** Compared by people and by `winnow doctor`: workers that differ in this text place partitions differently. */
function placementText(
  { replication, modelReplication, swapReplicas, extraMemoryRatio }: ReplicaSettings,
  { partitionBytes }: ReaderSettings,
): string {
  const models = Array.from(modelReplication ?? [], ([model, count]) => `${model}=${count}`);
  return [
    `replication ${replication}`,
    ...(models.length > 0 ? [`of models ${models.toSorted().join(",")}`] : []),
    ...(swapReplicas === undefined ? [] : [`${swapReplicas} during swaps`]),
    `partitions of ${partitionBytes} bytes`,
    `extra replicas in ${extraMemoryRatio} of the memory`,
  ].join(", ");
}

function drainSettings(options: WorkerOptions): WorkerSettings["drain"] {
  return {
    drainSettleMs: options.drainSettleMs ?? 5000,
    drainAbsentMs: options.drainAbsentMs ?? 30_000,
    drainHoldMsMax: options.drainHoldMsMax ?? 285_000,
    drainGraceMs: options.drainGraceMs ?? 10_000,
  };
}

/** host:port that others reach this worker at. An address for all interfaces becomes the machine's name. */
export function advertisedAddressOf(
  settings: Pick<WorkerSettings, "host" | "advertisedAddress">,
  port: number,
): string {
  if (settings.advertisedAddress !== undefined) return settings.advertisedAddress;
  const isWildcard = ["0.0.0.0", "::", "[::]"].includes(settings.host);
  const host = isWildcard ? hostname() : settings.host;
  return hostPort(host, port);
}

function answerLimits(options: WorkerOptions): AnswerLimits {
  return {
    queueRowsMax: atLeastOne("queueRowsMax", options.queueRowsMax ?? 16_384),
    batchRowsMax: atLeastOne("batchRowsMax", options.batchRowsMax ?? 64),
    scansInFlightMax: atLeastOne("scansInFlightMax", options.scansInFlightMax ?? 1),
    companyMsMax: options.companyMsMax ?? 5,
    lookupsInFlightMax: atLeastOne("lookupsInFlightMax", options.lookupsInFlightMax ?? 4),
    queryRowsMax: options.queryRowsMax ?? 1024,
    kMax: options.kMax ?? 10_000,
    answerRowsMax: options.answerRowsMax ?? 2 ** 20,
    excludedIdsMax: options.excludedIdsMax ?? 100_000,
    lookupKeysMax: options.lookupKeysMax ?? 65_536,
  };
}

function watchSettings(options: WorkerOptions): WatchSettings {
  const policy = options.versionPolicy ?? { kind: "latest", count: 1 };
  if (options.models === undefined && options.modelsPath === undefined) {
    throw new WinnowError("INVALID_ARGUMENT", "A worker needs a models directory or a model");
  }
  const models = modelLocations(options.models ?? [], policy);
  const pollIntervalMs = options.pollIntervalMs ?? 1000;
  const stillMs = options.fileStillMs ?? 300;
  const copyMsMax = options.fileCopyMsMax ?? 60_000;
  const stillLookMs = Math.min(STILL_LOOK_MS_MAX, STILL_LOOK_POLLS * pollIntervalMs);
  const { modelsPath } = options;
  return { models, modelsPath, policy, pollIntervalMs, stillLookMs, stillMs, copyMsMax };
}

const ownModels = ({ models }: WorkerOptions): readonly NamedModel[] => models ?? [];

/** Models, each with its own policy or with the default `policy`. */
export function modelLocations(
  models: readonly NamedModel[],
  policy: VersionPolicy,
): ModelLocation[] {
  return models.map((named) => ({
    model: named.model,
    basePath: named.basePath,
    policy: named.policy ?? policy,
  }));
}

function atLeastOne(name: string, value: number): number {
  if (Number.isInteger(value) && value >= 1) return value;
  throw new WinnowError(
    "INVALID_ARGUMENT",
    `${name} is a whole number of at least 1, not ${value}`,
  );
}
