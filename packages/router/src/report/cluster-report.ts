// From what a router knows to its report of workers and models. Pure functions, so that a test can give them
// any state of a cluster. Text from workers and clients (names, messages) is cut; lists are bounded in the
// finished document (`bounded`).

import { excerpt } from "@winnow/core";
import type { ArmTarget, Experiment, Fingerprint, VersionKey, WorkerId } from "@winnow/core";
import { isSameVersion, isServable, newestIncarnations, replicationOf } from "@winnow/cluster";
import type {
  Announcement,
  Replication,
  RoutedModel,
  RoutedVersion,
  RoutingTable,
  ScanCounts,
  VersionHolding,
} from "@winnow/cluster";
import type { VersionStatus } from "../predictor.ts";
import { compareWorkerIds } from "../workers/worker-order.ts";
import type { PartitionCounts } from "../workers/cluster-status.ts";
import type { LatencyPercentiles } from "../workers/latency-window.ts";
import type {
  ArmReport,
  ClusterReport,
  ModelReport,
  RolloutReport,
  TableReport,
  VersionReport,
  WorkerCondition,
  WorkerReport,
} from "./report-document.ts";

/** A worker as this router knows it. */
interface ObservedWorker {
  readonly id: WorkerId;
  readonly address: string;
  /** Whether a stream is open on which questions can be sent. */
  readonly isAskable: boolean;
  readonly isTrusted: boolean;
  /** The worker's last announcement, on its stream or in the store. */
  readonly announcement: Announcement | undefined;
  readonly heardAtMs: number | undefined;
  readonly questions: number;
  readonly queueRows: number;
  /** Of the last 10 s. */
  readonly scans: ScanCounts | undefined;
  readonly latency: LatencyPercentiles | undefined;
}

/** The cluster as a router knows it at one moment. */
export interface ObservedCluster {
  readonly nowMs: number;
  readonly table: RoutingTable;
  /** Ascending by id. */
  readonly workers: readonly ObservedWorker[];
  /** Announcements in the store, of workers connected or not. */
  readonly members: readonly Announcement[];
  readonly replication: Replication;
  /** Versions of a model, with those that have ended. */
  readonly statusOf: (model: string) => readonly VersionStatus[];
  /** What a content says where it is an experiment. */
  readonly experimentOf?: ((fingerprint: Fingerprint) => Experiment | undefined) | undefined;
  readonly labelsOf: (model: string) => {
    readonly used: ReadonlyMap<string, number>;
    readonly waiting: ReadonlyMap<string, number>;
  };
}

const WORKERS_MAX = 512;
const MODELS_MAX = 256;
const VERSIONS_PER_MODEL_MAX = 16;
const TABLES_PER_VERSION_MAX = 16;
const TEXTS_MAX = 8;
const LABELS_MAX = 32;
/** Partitions of all tables up to which the document names the workers of each partition. */
const REPLICA_LISTS_MAX = 16_384;
/** Characters of a version's error, which may list many faults; the status endpoint has the whole text. */
const MESSAGE_CHARACTERS_MAX = 1000;

/**
 * A worker holds requests up if its usual answer takes this many times as long as the others', and at least
 * so much longer.
 */
const STRAGGLER_FACTOR = 3;
const STRAGGLER_MS_MIN = 5;

/** The report of each worker, ascending by id. */
export function workerReports({ workers, nowMs }: ObservedCluster): WorkerReport[] {
  const usual = workers
    .flatMap(({ isAskable, latency }) => (isAskable ? (latency?.p50Ms ?? []) : []))
    .toSorted((a, b) => a - b);
  // Of two workers the quicker one: a slow worker is not compared with itself.
  const medianMs = usual[Math.floor((usual.length - 1) / 2)];
  return workers.map((worker) => workerReport(worker, medianMs, nowMs));
}

function workerReport(
  worker: ObservedWorker,
  medianMs: number | undefined,
  nowMs: number,
): WorkerReport {
  const { announcement: said, isAskable, latency, heardAtMs } = worker;
  return {
    id: excerpt(worker.id),
    address: excerpt(worker.address),
    condition: conditionOf(worker),
    ...(heardAtMs !== undefined && { heardAgoMs: Math.round(nowMs - heardAtMs) }),
    ...wordsOf(said),
    replicas: isAskable ? replicasOf(said) : 0,
    questions: worker.questions,
    queueRows: worker.queueRows,
    ...(worker.scans !== undefined && { scans: worker.scans }),
    ...(latency !== undefined && { latency }),
    isStraggler: isAskable && isStraggler(latency, medianMs),
  };
}

/** What a worker says of itself; nothing before it was heard. */
function wordsOf(
  said: Announcement | undefined,
): Pick<
  WorkerReport,
  | "incarnation"
  | "release"
  | "placement"
  | "accelerator"
  | "device"
  | "memoryUsedBytes"
  | "memoryCapacityBytes"
> {
  if (said === undefined) {
    return { accelerator: "", device: "", memoryUsedBytes: 0, memoryCapacityBytes: 0 };
  }
  const { incarnation, memoryUsedBytes, memoryCapacityBytes, release, placement } = said;
  const [accelerator, device] = [excerpt(said.accelerator), excerpt(said.device)];
  return {
    incarnation,
    ...(release !== undefined && { release: excerpt(release) }),
    ...(placement !== undefined && { placement: excerpt(placement) }),
    accelerator,
    device,
    memoryUsedBytes,
    memoryCapacityBytes,
  };
}

function conditionOf({ isAskable, isTrusted, announcement }: ObservedWorker): WorkerCondition {
  if (announcement?.state === "draining") return "draining";
  if (!isAskable) return "unreachable";
  if (!isTrusted) return "suspect";
  return announcement?.state === "starting" ? "starting" : "ready";
}

function replicasOf(said: Announcement | undefined): number {
  const tables = (said?.versions ?? []).flatMap((version) => version.tables);
  return tables.reduce((sum, { held }) => sum + held.length, 0);
}

/** Compared with the median of all, so that one slow worker does not change the others' judgement. */
function isStraggler(
  latency: LatencyPercentiles | undefined,
  medianMs: number | undefined,
): boolean {
  if (latency === undefined || medianMs === undefined) return false;
  const { p50Ms } = latency;
  return p50Ms > STRAGGLER_FACTOR * medianMs && p50Ms - medianMs > STRAGGLER_MS_MIN;
}

/** The report of each model, ascending by name. */
export function modelReports(observed: ObservedCluster): ModelReport[] {
  const { table, workers, members } = observed;
  const connected = workers.flatMap(({ isAskable, announcement }) =>
    isAskable ? (announcement ?? []) : [],
  );
  const announced = newestIncarnations([...connected, ...members]).toSorted((a, b) =>
    compareWorkerIds(a.workerId, b.workerId),
  );
  const positions = new Map(workers.map(({ id }, position) => [id, position]));
  const holdings = new Map([...announced, ...connected].map((said) => [said, holdingsOf(said)]));
  const facts = { observed, announced, connected, positions, holdings };
  return [...table.models.values()].flatMap((model) => modelReport(model, facts));
}

/** Empty for a model of which only the name is known. */
function modelReport(model: RoutedModel, facts: VersionFacts): ModelReport[] {
  const versions = versionReports(model, facts);
  if (versions.length === 0 && model.serving === undefined) return [];
  const { used, waiting } = facts.observed.labelsOf(model.name);
  const serving = defaultOf(model);
  const report = {
    name: excerpt(model.name),
    answers: model.versions.some(isServable),
    ...(serving !== undefined && { defaultVersion: serving.key.version }),
    labels: Object.fromEntries([...used].slice(0, LABELS_MAX)),
    waitingLabels: Object.fromEntries([...waiting].slice(0, LABELS_MAX)),
    versions,
  };
  return [report];
}

/** The version that answers by default or, if none answers, the one that should. */
function defaultOf({ serving, versions }: RoutedModel): RoutedVersion | undefined {
  const chosen = serving && versions.find(({ key }) => isSameVersion(key, serving));
  return isServable(chosen) ? chosen : (versions.find(isServable) ?? chosen);
}

type HoldingsByVersion = ReadonlyMap<string, readonly VersionHolding[]>;

interface VersionFacts {
  readonly observed: ObservedCluster;
  /** Announcements of live workers, connected or not; announcements of connected workers. */
  readonly announced: readonly Announcement[];
  readonly connected: readonly Announcement[];
  /** Position of each worker in the document. */
  readonly positions: ReadonlyMap<string, number>;
  /** What each worker announces, by model and version. */
  readonly holdings: ReadonlyMap<Announcement, HoldingsByVersion>;
}

function versionReports(model: RoutedModel, facts: VersionFacts): VersionReport[] {
  const statuses = facts.observed.statusOf(model.name);
  return statuses.map((status) => versionReport(model, status, facts));
}

function versionReport(
  model: RoutedModel,
  status: VersionStatus,
  facts: VersionFacts,
): VersionReport {
  const routed = model.versions.find(({ key }) => key.version === status.version);
  const error = errorOf(status, routed, facts);
  const base = {
    version: status.version,
    state: status.state,
    isDefault: routed !== undefined && routed === defaultOf(model),
    ...(error !== undefined && { error }),
  };
  if (routed === undefined) return { ...base, ...OVER };
  const intended = intendedReplicas(model.name, facts);
  const extraFailure = extraFailureOf(routed.key, facts);
  const experiment = facts.observed.experimentOf?.(routed.key.fingerprint);
  return {
    ...base,
    ...(experiment !== undefined && { arms: armReports(experiment) }),
    ...(extraFailure !== undefined && { extraFailure }),
    isOver: false,
    coverage: routed.coverage,
    partitions: partitionCounts(routed, intended),
    replicasIntended: intended,
    missing: cut(routed.missing ?? ""),
    conflicts: routed.conflicts.slice(0, TEXTS_MAX).map(cut),
    rollout: rolloutReport(routed.key, intended, facts),
    tables: routed.tables.slice(0, TABLES_PER_VERSION_MAX).map(({ spec, replicas }) => ({
      name: excerpt(spec.name),
      kind: spec.kind,
      rows: spec.rows,
      dim: spec.dim,
      partitions: spec.partitions,
      replicas: replicas.map((ids) => ids.flatMap((id) => facts.positions.get(id) ?? [])),
    })),
  };
}

/** Arms as parts of all keys, and the shadow as a part of the requests. */
function armReports({ arms, shadow }: Experiment): ArmReport[] {
  const whole = arms.reduce((sum, { weight }) => sum + weight, 0);
  const shares = arms.map(({ name, weight, ...target }): ArmReport => {
    const share = whole === 0 ? 0 : weight / whole;
    return { name: excerpt(name), isShadow: false, ...targetReport(target), share };
  });
  if (shadow === undefined) return shares;
  const { share } = shadow;
  return [...shares, { name: "shadow", isShadow: true, ...targetReport(shadow), share }];
}

function targetReport({ model, version, label }: ArmTarget): Pick<ArmReport, "model"> {
  return {
    model: excerpt(model),
    ...(version !== undefined && { version }),
    ...(label !== undefined && { label: excerpt(label) }),
  };
}

const OVER: Omit<VersionReport, "version" | "state" | "isDefault"> = {
  isOver: true,
  coverage: 0,
  partitions: { covered: 0, underreplicated: 0, lost: 0 },
  replicasIntended: 0,
  missing: "",
  conflicts: [],
  rollout: { progress: 0, ready: 0, waitingFor: [], failedOn: [] },
  tables: [],
};

/** What is told of a version. That partitions have no replica is in the report already: why a worker cannot load them says more. */
function errorOf(
  { errorCode, errorMessage }: VersionStatus,
  routed: RoutedVersion | undefined,
  facts: VersionFacts,
): VersionReport["error"] {
  const told = errorMessage === "" ? undefined : { code: errorCode, message: cut(errorMessage) };
  const failure = routed && failureOf(routed.key, facts);
  return told?.code === "UNAVAILABLE" ? (failure ?? told) : (told ?? failure);
}

/**
 * Why a worker failed that announces so and is not connected, as the status knows connected workers alone; or why
 * one cannot load a part of a version that it holds otherwise.
 */
function failureOf(
  key: VersionKey,
  facts: VersionFacts,
): { code: string; message: string } | undefined {
  let partial: { code: string; message: string } | undefined;
  for (const worker of facts.announced) {
    const { state, error } = holdingOf(worker, key, facts) ?? {};
    if (error === undefined || worker.state === "draining") continue;
    const failure = { code: error.code, message: cut(`${worker.workerId}: ${error.message}`) };
    if (state === "failed") return failure;
    if (state === "loading") partial ??= failure;
  }
  return partial;
}

/** Why a worker that holds all that it should cannot load a replica more: its copy of the files may be damaged. */
function extraFailureOf(key: VersionKey, facts: VersionFacts): string | undefined {
  for (const worker of facts.announced) {
    const { state, error } = holdingOf(worker, key, facts) ?? {};
    if (error !== undefined && state === "ready")
      return cut(`${worker.workerId}: ${error.message}`);
  }
  return undefined;
}

/** A partition cannot have more replicas than there are workers, including those that are away. */
function intendedReplicas(model: string, { observed }: VersionFacts): number {
  const { workers, replication } = observed;
  return Math.min(replicationOf(model, replication), Math.max(1, workers.length));
}

function partitionCounts({ tables }: RoutedVersion, intended: number): PartitionCounts {
  const counts = { covered: 0, underreplicated: 0, lost: 0 };
  for (const { length } of tables.flatMap(({ replicas }) => replicas)) {
    if (length === 0) counts.lost += 1;
    else if (length < intended) counts.underreplicated += 1;
    else counts.covered += 1;
  }
  return counts;
}

/** How far the workers are with loading a version, without those in drain, which load nothing. */
function rolloutReport(key: VersionKey, intended: number, facts: VersionFacts): RolloutReport {
  const lasting = facts.announced.filter(({ state }) => state !== "draining");
  const states = lasting.map(
    (worker) => [worker.workerId, holdingOf(worker, key, facts)?.state] as const,
  );
  const isReady = ([, state]: (typeof states)[number]): boolean => state === "ready";
  const isFailed = ([, state]: (typeof states)[number]): boolean => state === "failed";
  const failed = states.filter(isFailed);
  const waiting = states.filter((each) => !isReady(each) && !isFailed(each));
  const ready = states.filter(isReady).length;
  return {
    progress: progressOf(key, intended, facts) ?? ready / Math.max(1, lasting.length),
    ready,
    waitingFor: waiting.slice(0, TEXTS_MAX).map(([id]) => excerpt(id)),
    failedOn: failed.slice(0, TEXTS_MAX).map(([id]) => excerpt(id)),
  };
}

/** Replicas held ÷ replicas intended; `undefined` for a version without tables, or with unknown tables. */
function progressOf(key: VersionKey, intended: number, facts: VersionFacts): number | undefined {
  const held = new Map<number, Uint16Array>();
  for (const worker of facts.connected) {
    for (const { table, partitions, held: here } of holdingOf(worker, key, facts)?.tables ?? []) {
      const counts = held.get(table) ?? new Uint16Array(partitions);
      held.set(table, counts);
      for (const { partition } of here) if (partition < counts.length) counts[partition]! += 1;
    }
  }
  const counts = [...held.values()].flatMap((each) => Array.from(each));
  if (counts.length === 0) return undefined;
  const there = counts.reduce((sum, count) => sum + Math.min(count, intended), 0);
  return there / (counts.length * intended);
}

function holdingsOf({ versions }: Announcement): HoldingsByVersion {
  const holdings = new Map<string, VersionHolding[]>();
  for (const holding of versions) {
    const name = `${holding.version}/${holding.model}`;
    const known = holdings.get(name);
    if (known === undefined) holdings.set(name, [holding]);
    else known.push(holding);
  }
  return holdings;
}

/** What a worker holds of a content. A directory that the worker could not read counts for every content. */
function holdingOf(
  worker: Announcement,
  { model, version, fingerprint: print }: VersionKey,
  { holdings }: VersionFacts,
): VersionHolding | undefined {
  const ofNumber = holdings.get(worker)?.get(`${version}/${model}`) ?? [];
  const own = ofNumber.find(({ fingerprint }) => (fingerprint ?? "") === print);
  return own ?? ofNumber.find((each) => each.fingerprint === undefined && each.state === "failed");
}

function cut(text: string): string {
  const max = MESSAGE_CHARACTERS_MAX;
  return text.length <= max ? text : `${text.slice(0, max)}…`;
}

/** The document within its bounds, with the number of entries that were left out. */
export function bounded(report: Omit<ClusterReport, "leftOut">): ClusterReport {
  const { workers, models } = report;
  const kept = models.slice(0, MODELS_MAX);
  const left = { lists: REPLICA_LISTS_MAX, versions: 0 };
  const shown = kept.map((model) => withinBounds(model, left));
  return {
    ...report,
    workers: workers.slice(0, WORKERS_MAX),
    models: shown,
    leftOut: {
      workers: Math.max(0, workers.length - WORKERS_MAX),
      models: models.length - kept.length,
      versions: left.versions,
    },
  };
}

function withinBounds(model: ModelReport, left: { lists: number; versions: number }): ModelReport {
  left.versions += Math.max(0, model.versions.length - VERSIONS_PER_MODEL_MAX);
  const kept = keptVersions(model);
  return { ...model, versions: kept.map((version) => withLists(version, left)) };
}

function withLists(version: VersionReport, left: { lists: number }): VersionReport {
  return { ...version, tables: version.tables.map((table) => withinLists(table, left)) };
}

/** The newest versions, and always the default one. */
function keptVersions({ versions }: ModelReport): readonly VersionReport[] {
  if (versions.length <= VERSIONS_PER_MODEL_MAX) return versions;
  const newest = new Set(versions.slice(0, VERSIONS_PER_MODEL_MAX - 1));
  return versions.filter((version) => version.isDefault || newest.has(version));
}

function withinLists(table: TableReport, left: { lists: number }): TableReport {
  const { replicas, ...counted } = table;
  if (replicas === undefined || replicas.length > left.lists) return counted;
  left.lists -= replicas.length;
  return { ...counted, replicas: replicas.map((at) => at.filter((each) => each < WORKERS_MAX)) };
}
