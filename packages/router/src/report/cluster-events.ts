// What has happened to the cluster: the difference between two views of it, as sentences. Whole views are
// compared, so a view that is missed loses a detail and never leaves a wrong state behind. The newest events
// are kept.

import type { Clock } from "@winnow/core";
import { reasonOf } from "./health.ts";
import type {
  ClusterEvent,
  EventReport,
  ModelReport,
  Severity,
  VersionReport,
  WorkerReport,
} from "./report-document.ts";

/** The part of a cluster's state that is compared. */
export interface ClusterView {
  readonly workers: readonly WorkerReport[];
  readonly models: readonly ModelReport[];
}

/** What happened between two views. */
export function eventsBetween(before: ClusterView, now: ClusterView): ClusterEvent[] {
  return [
    ...workerEvents(before.workers, now.workers),
    ...(before.models === now.models ? [] : modelEvents(before.models, now.models)),
  ];
}

function workerEvents(
  before: readonly WorkerReport[],
  now: readonly WorkerReport[],
): ClusterEvent[] {
  const were = new Map(before.map((worker) => [worker.id, worker]));
  const are = new Set(now.map(({ id }) => id));
  const changed = now.flatMap((worker) => changeOf(were.get(worker.id), worker));
  const gone = before.filter(({ id }) => !are.has(id));
  return [...changed, ...gone.map(({ id }) => event("degraded", `Worker ${id} has left`))];
}

const CONDITIONS: Readonly<Record<WorkerReport["condition"], readonly [Severity, string]>> = {
  ready: ["ok", "is ready"],
  starting: ["ok", "starts"],
  suspect: ["degraded", "is suspected: it does not answer as it should"],
  draining: ["ok", "drains"],
  unreachable: ["degraded", "cannot be reached"],
};

function changeOf(
  before: WorkerReport | undefined,
  { id, condition, incarnation, heardAgoMs }: WorkerReport,
): ClusterEvent[] {
  const [severity, says] = CONDITIONS[condition];
  if (before === undefined) {
    if (heardAgoMs === undefined) return [event("ok", `Worker ${id} is known and not met yet`)];
    return [event(severity, `Worker ${id} has joined and ${says}`)];
  }
  const isRestart = before.incarnation !== undefined && incarnation !== before.incarnation;
  if (isRestart && condition !== "unreachable") {
    return [event(severity, `Worker ${id} was started again and ${says}`)];
  }
  return condition === before.condition ? [] : [event(severity, `Worker ${id} ${says}`)];
}

function modelEvents(before: readonly ModelReport[], now: readonly ModelReport[]): ClusterEvent[] {
  const were = new Map(before.map((model) => [model.name, model]));
  const are = new Set(now.map(({ name }) => name));
  return [
    ...now.flatMap((model) => [
      ...versionEvents(were.get(model.name), model),
      ...answerEvents(were.get(model.name), model),
    ]),
    ...before
      .filter(({ name }) => !are.has(name))
      .map(({ name }) => event("ok", `Model ${name} is gone`)),
  ];
}

function answerEvents(before: ModelReport | undefined, now: ModelReport): ClusterEvent[] {
  const { name, answers, defaultVersion: version } = now;
  if (answers && version !== undefined && version !== before?.defaultVersion) {
    const from =
      before?.defaultVersion === undefined ? "" : `, after version ${before.defaultVersion}`;
    return [event("ok", `${name}/${version} answers by default${from}`)];
  }
  if (before === undefined || before.answers === answers) return [];
  return [
    answers ? event("ok", `${name} answers`) : event("down", `${name} does not answer any more`),
  ];
}

function versionEvents(
  before: ModelReport | undefined,
  { name, versions }: ModelReport,
): ClusterEvent[] {
  const were = new Map((before?.versions ?? []).map((version) => [version.version, version]));
  return versions.flatMap((version) => versionChange(name, were.get(version.version), version));
}

const STATES: Readonly<Record<VersionReport["state"], string>> = {
  START: "is found",
  LOADING: "is being loaded",
  AVAILABLE: "is available",
  UNLOADING: "is being unloaded",
  END: "",
};

function versionChange(
  name: string,
  before: VersionReport | undefined,
  now: VersionReport,
): ClusterEvent[] {
  const named = `${name}/${now.version}`;
  if (now.isOver) {
    return before === undefined || before.isOver ? [] : [event("ok", `${named} is unloaded`)];
  }
  const failure = failureOf(now);
  if (failure !== "" && (before === undefined || failureOf(before) !== failure)) {
    const { failedOn } = now.rollout;
    const where = failedOn.length === 0 ? "" : ` on ${failedOn.join(", ")}`;
    return [event("degraded", `${named} failed${where}: ${failure}`)];
  }
  const isSame = before?.state === now.state && !before.isOver;
  return isSame || STATES[now.state] === "" ? [] : [event("ok", `${named} ${STATES[now.state]}`)];
}

function failureOf({ rollout, state, error }: VersionReport): string {
  const isFailed = rollout.failedOn.length > 0 || state === "END";
  return isFailed ? reasonOf(error?.message ?? "", rollout.failedOn) : "";
}

function event(severity: Severity, text: string): ClusterEvent {
  return { severity, text };
}

const EVENTS_MAX = 200;

/** The newest events. */
export class EventLog {
  readonly #clock: Clock;
  #events: readonly (ClusterEvent & { readonly atMs: number })[] = [];

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /** Adds events. */
  add(events: readonly ClusterEvent[]): void {
    if (events.length === 0) return;
    const atMs = this.#clock.nowMs();
    this.#events = [...this.#events, ...events.map((each) => ({ ...each, atMs }))].slice(
      -EVENTS_MAX,
    );
  }

  /** The events, newest first. */
  report(): EventReport[] {
    const nowMs = this.#clock.nowMs();
    return this.#events
      .map(({ atMs, ...told }) => ({ ...told, agoMs: Math.round(nowMs - atMs) }))
      .toReversed();
  }
}
