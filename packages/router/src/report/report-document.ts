// The answer to `GET /v1/cluster`: the cluster as one router sees it, for a person who wants to know whether
// it is healthy and, if not, why. `winnow status`, `winnow top` and the console read the same document. Every
// list has a bound, and entries beyond it are counted. Times are ages in ms, because no process of the
// cluster needs the time of day.

import type { PartitionCounts } from "../workers/cluster-status.ts";
import type { ServingState } from "../predictor.ts";

/**
 * `ok`: everything answers, with as many replicas as intended. `degraded`: requests are answered, but not all
 * of them, or the next fault may fail some. `down`: no model answers.
 */
export type Severity = "ok" | "degraded" | "down";

/** One thing that a person should know, and what to do about it. */
export interface Finding {
  readonly severity: Severity;
  readonly text: string;
  /** "" if there is nothing to do. */
  readonly remedy: string;
}

/** The state of the cluster. */
export interface Health {
  readonly severity: Severity;
  /** The worst finding as one sentence, or that all is well. */
  readonly sentence: string;
  readonly remedy: string;
  /** The worst first; findings of severity `ok` are news. */
  readonly findings: readonly Finding[];
}

/**
 * `ready` and `starting`: as the worker says itself. `suspect`: it does not answer, or failed too often, and
 * is asked last. `draining`: it finishes its work. `unreachable`: there is no stream to it.
 */
export type WorkerCondition = "ready" | "starting" | "suspect" | "draining" | "unreachable";

/** One worker. */
export interface WorkerReport {
  readonly id: string;
  readonly address: string;
  readonly condition: WorkerCondition;
  /** Grows with each restart; absent for a worker that was never met. */
  readonly incarnation?: number;
  /** Ms since the last message from it; absent: never. */
  readonly heardAgoMs?: number;
  /** Its release of Winnow; absent: it did not say. */
  readonly release?: string;
  /** The settings that all workers must agree on, as text; absent: it did not say. */
  readonly placement?: string;
  /** Its kind of accelerator, as it last said: `cpu`, `gpu`. */
  readonly accelerator: string;
  readonly device: string;
  readonly memoryUsedBytes: number;
  readonly memoryCapacityBytes: number;
  /** Replicas that it holds, of all versions. */
  readonly replicas: number;
  /** Unanswered questions of this router. */
  readonly questions: number;
  /** Query vectors in its queue, from all routers. */
  readonly queueRows: number;
  /** Scans of the last 10 s, for all routers: batches, query vectors in them; absent: none, or it does not tell. */
  readonly scans?: { readonly batches: number; readonly queries: number };
  /** Times of its answers in the last 10 s; absent: there were none. */
  readonly latency?: { readonly p50Ms: number; readonly p95Ms: number; readonly p99Ms: number };
  /** Whether the worker takes much longer to answer than the others. */
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
   * The workers that answer for each partition, as positions in `workers`; absent if all tables together have
   * more partitions than the document has room for.
   */
  readonly replicas?: readonly (readonly number[])[];
}

/** How far the workers have loaded a version. */
export interface RolloutReport {
  /** Replicas held ÷ replicas intended, 0…1. */
  readonly progress: number;
  /** Workers that hold their whole assignment. */
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
  /** Why the version does not answer, or not as it should. */
  readonly error?: { readonly code: string; readonly message: string };
  /** Why a worker cannot load a replica beyond the intended ones, which nobody misses; begins with its name. */
  readonly extraFailure?: string;
  /** Whether the version has been unloaded. */
  readonly isOver: boolean;
  /** Partitions with a replica ÷ partitions. */
  readonly coverage: number;
  readonly partitions: PartitionCounts;
  /** Replicas that each partition should have. */
  readonly replicasIntended: number;
  /** Names the partitions without a replica; "" if there are none. */
  readonly missing: string;
  /** Replicas that are not used because their content differs. */
  readonly conflicts: readonly string[];
  readonly rollout: RolloutReport;
  readonly tables: readonly TableReport[];
  /** Of an experiment: its arms in the file's order, and its shadow behind them. */
  readonly arms?: readonly ArmReport[];
}

/** One arm of an experiment, or its shadow. */
export interface ArmReport {
  readonly name: string;
  readonly isShadow: boolean;
  readonly model: string;
  readonly version?: number;
  readonly label?: string;
  /** The part of the keys that fall into the arm, or of the requests that the shadow is asked, 0…1. */
  readonly share: number;
}

/** One model. */
export interface ModelReport {
  readonly name: string;
  /** Whether requests that name no version are answered, for all partitions. */
  readonly answers: boolean;
  readonly defaultVersion?: number;
  readonly labels: Readonly<Record<string, number>>;
  /** Labels that wait for a version that is not available, with that version. */
  readonly waitingLabels: Readonly<Record<string, number>>;
  /** Descending by number. */
  readonly versions: readonly VersionReport[];
}

/** Predict requests of the recent past, over HTTP and gRPC. */
export interface TrafficReport {
  /** In the last 10 s. */
  readonly requestsPerSecond: number;
  /** Of the last 10 s; absent: there were no requests. */
  readonly latency?: { readonly p50Ms: number; readonly p99Ms: number };
  /** Means of the requests of the last 10 s: instances, and ms by stage; absent: there were no requests. */
  readonly recent?: {
    readonly instances: number;
    readonly stages: Readonly<Record<string, number>>;
  };
  /** Requests in each of the last 60 whole seconds, the oldest first. */
  readonly perSecond: readonly number[];
  /** In the last minute. */
  readonly requests: number;
  /** Failed requests of the last minute, by code. */
  readonly failures: Readonly<Record<string, number>>;
  /** Refused requests of the last minute, by reason. */
  readonly refusals: Readonly<Record<string, number>>;
}

/** This router. */
export interface RouterReport {
  /** Winnow's version. */
  readonly version: string;
  /** Its name among the routers that share its ports; absent: it shares none. */
  readonly name?: string;
  readonly uptimeMs: number;
  /** Whether requests may be sent here, as `/readyz` says. */
  readonly isReady: boolean;
  readonly routingGeneration: number;
  /** Ms since the membership store last gave a complete answer; absent: never. */
  readonly membershipAgeMs?: number;
  /** Requests under way. */
  readonly requests: number;
  readonly questions: number;
  readonly waitingSlices: number;
  readonly traffic: TrafficReport;
  readonly memory: { readonly residentBytes: number };
  /** Limits and times in effect, by name. */
  readonly settings: Readonly<Record<string, SettingValue>>;
  /** Names of the settings that differ from their defaults. */
  readonly changedSettings: readonly string[];
}

/** The value of a setting. */
export type SettingValue = string | number | boolean | Readonly<Record<string, unknown>>;

/** Something that happened to the cluster. */
export interface ClusterEvent {
  readonly severity: Severity;
  readonly text: string;
}

/** An event with its age. */
export interface EventReport extends ClusterEvent {
  readonly agoMs: number;
}

/** One of the slowest requests of the last minutes. */
export interface SlowRequestReport {
  readonly agoMs: number;
  readonly elapsedMs: number;
  readonly model: string;
  readonly version?: string;
  /** Canonical gRPC code name. */
  readonly code: string;
  readonly instances: number;
  /** Over HTTP: the request's id in the access log and in the response. */
  readonly requestId?: string;
  /** Ms by stage; the times of steps that ran at the same time are added up. */
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
  /** Newest first. */
  readonly events: readonly EventReport[];
  /** Of the last five minutes, the slowest first. */
  readonly slowRequests: readonly SlowRequestReport[];
  /** Number of entries that the bounds of the document have left out. */
  readonly leftOut: {
    readonly workers: number;
    readonly models: number;
    readonly versions: number;
  };
}
