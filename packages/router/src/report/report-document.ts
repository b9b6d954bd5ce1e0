// What `GET /v1/cluster` tells: the cluster as one router sees it, for a person who wants to know whether it is
// well, and why not. `winnow status`, `winnow top` and the console read the same document. Every list has a
// bound; what is left out is counted. Times are told as ages in ms, because no process of the cluster needs
// the time of day.

import type { PartitionCounts } from "../workers/cluster-status.ts";
import type { ServingState } from "../predictor.ts";

/**
 * `ok`: everything answers, as often replicated as intended. `degraded`: requests are answered, but not all of
 * them, or the next fault may cost some. `down`: no model answers.
 */
export type Severity = "ok" | "degraded" | "down";

/** One thing that a person should know, and what to do about it. */
export interface Finding {
  readonly severity: Severity;
  readonly text: string;
  /** "" where there is nothing to do. */
  readonly remedy: string;
}

/** How the cluster is. */
export interface Health {
  readonly severity: Severity;
  /** The worst finding as one sentence; that all is well, where there is none. */
  readonly sentence: string;
  readonly remedy: string;
  /** The worst first; those of severity `ok` are news. */
  readonly findings: readonly Finding[];
}

/**
 * What a worker is good for: `ready` and `starting` as it says itself; `suspect`: it does not answer, or failed
 * too often, and is asked last; `draining`: it finishes what it has; `unreachable`: there is no stream to it.
 */
export type WorkerCondition = "ready" | "starting" | "suspect" | "draining" | "unreachable";

/** One worker. */
export interface WorkerReport {
  readonly id: string;
  readonly address: string;
  readonly condition: WorkerCondition;
  /** Grows with each restart; absent before the worker was met. */
  readonly incarnation?: number;
  /** Since anything was heard of it; absent: never. */
  readonly heardAgoMs?: number;
  /** Of Winnow, as it last said; absent: it did not. */
  readonly release?: string;
  /** The settings that all workers must agree on, in words; absent: it did not say. */
  readonly placement?: string;
  /** As it last said: `cpu`, `gpu`. */
  readonly accelerator: string;
  readonly device: string;
  readonly memoryUsedBytes: number;
  readonly memoryCapacityBytes: number;
  /** Replicas that it holds, of all versions. */
  readonly replicas: number;
  /** Questions of this router that it has not answered. */
  readonly questions: number;
  /** Query vectors in its queue, of all routers. */
  readonly queueRows: number;
  /** Its answers of the last 10 s; absent: none. */
  readonly latency?: { readonly p50Ms: number; readonly p95Ms: number; readonly p99Ms: number };
  /** Whether the worker takes far longer to answer than the others. */
  readonly isStraggler: boolean;
}

/** One table of a version. */
export interface TableReport {
  readonly name: string;
  /** `candidate`: searched; `keyed`: looked up. */
  readonly kind: "candidate" | "keyed";
  readonly rows: number;
  readonly dim: number;
  readonly partitions: number;
  /**
   * Who answers for each partition, as positions in `workers`; absent where all tables together have more
   * partitions than the document has room for.
   */
  readonly replicas?: readonly (readonly number[])[];
}

/** How far the workers are with a version. */
export interface RolloutReport {
  /** Replicas held ÷ replicas intended, 0…1. */
  readonly progress: number;
  /** Workers that hold all of their share. */
  readonly ready: number;
  /** Workers that do not yet. */
  readonly waitingFor: readonly string[];
  readonly failedOn: readonly string[];
}

/** One version of a model. */
export interface VersionReport {
  readonly version: number;
  readonly state: ServingState;
  readonly isDefault: boolean;
  /** Why it does not answer, or not as it should. */
  readonly error?: { readonly code: string; readonly message: string };
  /** Whether the version has been unloaded: only its end is known. */
  readonly isOver: boolean;
  /** Partitions with a replica ÷ partitions. */
  readonly coverage: number;
  readonly partitions: PartitionCounts;
  /** Replicas that each partition should have. */
  readonly replicasIntended: number;
  /** Names the partitions without a replica; "" where there are none. */
  readonly missing: string;
  /** Replicas that are not used because their content differs. */
  readonly conflicts: readonly string[];
  readonly rollout: RolloutReport;
  readonly tables: readonly TableReport[];
}

/** One model. */
export interface ModelReport {
  readonly name: string;
  /** Whether requests that name no version are answered, all partitions considered. */
  readonly answers: boolean;
  readonly defaultVersion?: number;
  readonly labels: Readonly<Record<string, number>>;
  /** Labels that wait for a version that is not available, and which. */
  readonly waitingLabels: Readonly<Record<string, number>>;
  /** Descending. */
  readonly versions: readonly VersionReport[];
}

/** Predict requests of the recent past, over HTTP and gRPC. */
export interface TrafficReport {
  /** Of the last 10 s. */
  readonly requestsPerSecond: number;
  /** Of the last 10 s; absent: there was no request. */
  readonly latency?: { readonly p50Ms: number; readonly p99Ms: number };
  /** Requests of each of the last 60 whole seconds, the oldest first. */
  readonly perSecond: readonly number[];
  /** Of the last minute. */
  readonly requests: number;
  /** Those of them that failed, by code. */
  readonly failures: Readonly<Record<string, number>>;
  /** Those of them that were not taken on, by reason. */
  readonly refusals: Readonly<Record<string, number>>;
}

/** This router. */
export interface RouterReport {
  /** Of Winnow. */
  readonly version: string;
  readonly uptimeMs: number;
  /** Whether requests may be sent here, as `/readyz` says. */
  readonly isReady: boolean;
  readonly routingGeneration: number;
  /** Since the membership store last answered completely; absent: never. */
  readonly membershipAgeMs?: number;
  /** What is under way. */
  readonly requests: number;
  readonly questions: number;
  readonly waitingSlices: number;
  readonly traffic: TrafficReport;
  readonly memory: { readonly residentBytes: number };
  /** Limits and waits in effect, by name. */
  readonly settings: Readonly<Record<string, SettingValue>>;
  /** Names of those that an operator has set. */
  readonly changedSettings: readonly string[];
}

/** The value of a setting. */
export type SettingValue = string | number | boolean | Readonly<Record<string, unknown>>;

/** Something that happened to the cluster. */
export interface ClusterEvent {
  readonly severity: Severity;
  readonly text: string;
}

/** The same, with its time. */
export interface EventReport extends ClusterEvent {
  readonly agoMs: number;
}

/** One of the requests that took longest lately. */
export interface SlowRequestReport {
  readonly agoMs: number;
  readonly elapsedMs: number;
  readonly model: string;
  readonly version?: string;
  /** Canonical gRPC code name. */
  readonly code: string;
  readonly instances: number;
  /** Over HTTP: the id in the access log and in the client's answer. */
  readonly requestId?: string;
  /** Ms by stage; steps that ran side by side are added up. */
  readonly stages: Readonly<Record<string, number>>;
}

/** The document. */
export interface ClusterReport {
  readonly health: Health;
  readonly router: RouterReport;
  /** Ascending by id. */
  readonly workers: readonly WorkerReport[];
  /** Ascending by name. */
  readonly models: readonly ModelReport[];
  /** The newest first. */
  readonly events: readonly EventReport[];
  /** Of the last five minutes; the slowest first. */
  readonly slowRequests: readonly SlowRequestReport[];
  /** What the bounds of the document have left out. */
  readonly leftOut: {
    readonly workers: number;
    readonly models: number;
    readonly versions: number;
  };
}
