// Every setting of a worker: unit, default, what it trades. Options come in (all optional),
// settings come out (all present); defaults live here and nowhere else.

import { hostname, totalmem } from "node:os";

import type { AcceleratorKind } from "@winnow/accelerator";
import { parseAddress } from "@winnow/cluster";
import { PARTITION_BYTES, WinnowError, excerpt, incarnation, workerId } from "@winnow/core";
import type { Incarnation, WorkerId } from "@winnow/core";
import type { CacheSettings } from "@winnow/model";

import type { DeviceSettings, ReaderSettings } from "./compute/compute-thread-data.ts";
import type { DrainSettings } from "./replicas/drain/drain-hold.ts";
import type { NamedModel, ReplacementSettings } from "./models/model-replacement.ts";
import type { ProgressWatchSettings } from "./progress-watch.ts";
import type { ReplicaSettings } from "./replicas/replica-control.ts";
import type { AnswerLimits } from "./queries/query-answer.ts";
import type { VersionPolicy } from "./models/version-policy.ts";
import type { ModelLocation, WatchSettings } from "./models/version-watch.ts";

/** What a caller may say; everything else has a default. */
export interface WorkerOptions {
  /** Stable name: keeps partitions in place across restarts. Default: the advertised address. */
  readonly workerId?: string | undefined;
  /**
   * Number of this process's life, above those of earlier processes; the worker takes a higher one
   * when it learns that it is not. Default: milliseconds since 1970.
   */
  readonly incarnation?: number | undefined;
  /** Of Winnow, to be announced. Default: none is. */
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
  /** Where to keep what was read from object stores, and how much of it. Default: nowhere. */
  readonly modelCache?: CacheSettings | undefined;
  /** Which versions to hold. Default: the latest one (and the serving one while it is another). */
  readonly versionPolicy?: VersionPolicy | undefined;
  /**
   * Between two looks at the model directories; 0: look once. Default 1000 ms. Files that were still are
   * looked at in every fifth look, or after 5 s: a version that is replaced in place is seen as late.
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
   * Most bytes of float32 values in a partition, equal on all workers: larger tables are cut, so
   * that several workers scan them. Default 67 108 864: what one worker scans in 1 to 3 ms.
   */
  readonly partitionBytes?: number | undefined;
  /**
   * The part of `memoryBytesMax` that replicas beyond `replication` may occupy. Only tables that
   * are not cut have such replicas: with one on each worker, requests spread over all workers.
   * Default 0.25; 0: none.
   */
  readonly extraMemoryRatio?: number | undefined;
  /** Device to hold and search rows on. Default cpu, which falls back to plain JavaScript. */
  readonly accelerator?: AcceleratorKind | undefined;
  /** Bytes that rows, ids and keys may occupy. Default: 70 % of this process's memory limit. */
  readonly memoryBytesMax?: number | undefined;
  /** Threads of a scan on the CPU. Default: the processors this process may use. */
  readonly threads?: number | undefined;
  /** Loading waits until the list of workers has not changed for this long. Default 300 ms. */
  readonly placementQuietMs?: number | undefined;
  /** Retries of a version that failed to load, while its files stay the same. Default 5. */
  readonly maxLoadRetries?: number | undefined;
  /** Between two such retries. Default 10 000 ms. */
  readonly loadRetryIntervalMs?: number | undefined;
  /**
   * Longest deadline of a request. Replicas and versions that are given up are kept for twice as
   * long, for requests under way. Default 10 000 ms.
   */
  readonly requestDeadlineMsMax?: number | undefined;
  /** Least time for which a version that is given up is kept, for quick rollbacks. Default 0 ms. */
  readonly rollbackWindowMs?: number | undefined;
  /**
   * Query vectors that may wait for the device; more are refused at once. Default 16 384: the most
   * that sixteen routers have under way, each its `searchRowsMax`.
   */
  readonly queueRowsMax?: number | undefined;
  /** Query vectors of one scan: with more, each costs less and waits longer. Default 64. */
  readonly batchRowsMax?: number | undefined;
  /** Scans under way at once, beside one full batch sent ahead. Default 1, so that batches form. */
  readonly scansInFlightMax?: number | undefined;
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
   * Rows × dim × query vectors of a scan that the event loop runs itself, instead of waking the compute thread.
   * Default 33 554 432, some hundred microseconds. More holds up the frames of others for longer; 0: none.
   */
  readonly inlineScanValuesMax?: number | undefined;
  /** Between two announcements of changes. Default 50 ms. */
  readonly announceIntervalMs?: number | undefined;
  /** Work that waits for this long without progress makes the worker stalled. Default 1000 ms. */
  readonly stallMs?: number | undefined;
  /**
   * A worker in drain leaves once others have covered its partitions for this long. Default
   * 5000 ms: a worker that was killed may stay announced for 4.6 s, and must not count.
   */
  readonly drainSettleMs?: number | undefined;
  /**
   * A worker in drain waits so long for absent workers, where all that are there are in drain.
   * Default 30 000 ms: longer than a store takes to fail over.
   */
  readonly drainAbsentMs?: number | undefined;
  /**
   * Longest wait of a worker in drain for coverage: 15 s less than the termination grace period of
   * its pod. Default 285 000 ms.
   */
  readonly drainHoldMsMax?: number | undefined;
  /** Time for routers to end their streams in a drain. Default 10 000 ms. */
  readonly drainGraceMs?: number | undefined;
}

/** All settings of a worker, with defaults filled in. */
export interface WorkerSettings {
  readonly workerId: WorkerId;
  readonly release: string | undefined;
  /** What workers must agree on to place alike, in words. */
  readonly placement: string;
  readonly incarnation: Incarnation;
  readonly host: string;
  readonly port: number;
  readonly advertisedAddress: string | undefined;
  readonly watch: WatchSettings;
  /** The worker's own models, by name: in force while no models order is. */
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
/** Looks, and ms, after which the files of a version that are still are looked at again. */
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
      capacityBytes: options.memoryBytesMax ?? defaultMemoryBytes(),
      threads: options.threads,
    },
    reader,
    ...computeSettings(options),
    announceIntervalMs: options.announceIntervalMs ?? 50,
  };
}

/** Leaves room for the heap, frames in flight and the next version's table of contents. */
function defaultMemoryBytes(): number {
  const limitBytes = process.constrainedMemory();
  const memoryBytes = limitBytes > 0 && limitBytes < totalmem() ? limitBytes : totalmem();
  return Math.floor(0.7 * memoryBytes);
}

function replicaSettings(options: WorkerOptions, id: WorkerId): ReplicaSettings {
  const deadlineMs = options.requestDeadlineMsMax ?? 10_000;
  return {
    workerId: id,
    replication: atLeastOne("replication", options.replication ?? 2),
    modelReplication: options.modelReplication,
    extraMemoryRatio: ratio("extraMemoryRatio", options.extraMemoryRatio ?? 0.25),
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

/** Limits of the compute side: caches of indexes of ids and of filters, and what it need not be asked for. */
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
  modelCache,
}: WorkerOptions): ReaderSettings {
  return { partitionBytes: atLeastOne("partitionBytes", partitionBytes), modelCache };
}

/** Compared by people and by `winnow doctor`: where workers differ in it, they place differently. */
function placementText(
  { replication, modelReplication, extraMemoryRatio }: ReplicaSettings,
  { partitionBytes }: ReaderSettings,
): string {
  const models = Array.from(modelReplication ?? [], ([model, count]) => `${model}=${count}`);
  return [
    `replication ${replication}`,
    ...(models.length > 0 ? [`of models ${models.toSorted().join(",")}`] : []),
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

/** host:port that others reach this worker at; an address for all interfaces becomes a name. */
export function advertisedAddressOf(
  settings: Pick<WorkerSettings, "host" | "advertisedAddress">,
  port: number,
): string {
  if (settings.advertisedAddress !== undefined) return settings.advertisedAddress;
  const isWildcard = ["0.0.0.0", "::", "[::]"].includes(settings.host);
  const host = isWildcard ? hostname() : settings.host;
  return host.includes(":") ? `[${host}]:${port}` : `${host}:${port}`;
}

function answerLimits(options: WorkerOptions): AnswerLimits {
  return {
    queueRowsMax: atLeastOne("queueRowsMax", options.queueRowsMax ?? 16_384),
    batchRowsMax: atLeastOne("batchRowsMax", options.batchRowsMax ?? 64),
    scansInFlightMax: atLeastOne("scansInFlightMax", options.scansInFlightMax ?? 1),
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

/** Models, each with its own policy or the default `policy`. */
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
