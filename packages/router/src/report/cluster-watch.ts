// Looks at the cluster once a second, notes what has changed, and keeps the document for its readers. A
// thousand readers cost one document a second; without readers there is only the look: at the workers each
// time, at the models only when the routing table has changed.

import type { Clock, Timer } from "@winnow/core";
import type { GrpcObserver } from "../grpc/grpc-observer.ts";
import type { HttpObserver } from "../http/http-observer.ts";
import type { RouterObserver } from "../router-observer.ts";
import { PREDICTION_APIS } from "../metrics/prediction-apis.ts";
import { bounded, modelReports, workerReports } from "./cluster-report.ts";
import type { ObservedCluster } from "./cluster-report.ts";
import { EventLog, eventsBetween } from "./cluster-events.ts";
import type { ClusterView } from "./cluster-events.ts";
import { healthOf } from "./health.ts";
import type { ClusterReport, RouterReport, SettingValue } from "./report-document.ts";
import { TrafficWindow } from "./traffic-window.ts";

/** The part of a router that a watch reads. */
export interface ReportedRouter {
  readonly ready: boolean;
  readonly counters: {
    readonly requests: number;
    readonly questions: number;
    readonly waiting: number;
  };
  models(): readonly string[];
  observe(): ObservedCluster;
  clusterStatus(): { readonly generation: number; readonly membershipAgeMs: number | undefined };
}

/** What a watch needs. */
export interface ClusterWatchParts {
  readonly clock: Clock;
  /** Winnow's version. */
  readonly version: string;
  /** The router's name among those that share its ports. */
  readonly name?: string | undefined;
  /** Gives the bytes that this process occupies. */
  readonly residentBytes: () => number;
  /** The settings in effect, and the defaults; without secrets. */
  readonly settings: Readonly<Record<string, unknown>>;
  readonly defaults: Readonly<Record<string, unknown>>;
}

const LOOK_MS = 1000;
/** Labels and reasons may change while the table stays the same. */
const MODELS_MS_MAX = 5000;

/** The document of one router, and the state that it is made from. */
export class ClusterWatch {
  readonly #parts: ClusterWatchParts;
  readonly #startMs: number;
  readonly #traffic: TrafficWindow;
  readonly #events: EventLog;
  readonly #settings: Pick<RouterReport, "settings" | "changedSettings">;
  #router: ReportedRouter | undefined;
  #timer: Timer | undefined;
  #view: (ClusterView & { readonly table: unknown; readonly modelsAtMs: number }) | undefined;
  #report:
    | { readonly report: ClusterReport; readonly json: Buffer; readonly atMs: number }
    | undefined;

  constructor(parts: ClusterWatchParts) {
    this.#parts = parts;
    this.#startMs = parts.clock.nowMs();
    this.#traffic = new TrafficWindow(parts.clock);
    this.#events = new EventLog(parts.clock);
    this.#settings = settingsReport(parts.settings, parts.defaults);
  }

  /** Watches this router from now on, until `close`. */
  watch(router: ReportedRouter): void {
    this.#router = router;
    this.#look(router);
  }

  /** An observer of HTTP requests that also calls the given one. */
  http(observer: HttpObserver): HttpObserver {
    return {
      ...observer,
      answered: (request) => {
        observer.answered(request);
        if (PREDICTION_APIS.has(request.api)) this.#note(request);
      },
    };
  }

  /** An observer of gRPC calls that also calls the given one. */
  grpc(observer: GrpcObserver): GrpcObserver {
    return {
      ...observer,
      answered: (call) => {
        observer.answered(call);
        if (PREDICTION_APIS.has(call.api)) this.#note(call);
      },
    };
  }

  /** An observer of refused requests that also calls the given one. */
  refusals(observer: RouterObserver): RouterObserver {
    return {
      ...observer,
      refused: (reason) => {
        observer.refused?.(reason);
        this.#traffic.refused(reason);
      },
    };
  }

  /** The document, at most a second old. @throws RangeError before a router is watched */
  report(): ClusterReport {
    return this.#made().report;
  }

  /** The report as JSON. */
  json(): Buffer {
    return this.#made().json;
  }

  /** Stops watching. */
  close(): void {
    if (this.#timer !== undefined) this.#parts.clock.clearTimer(this.#timer);
    this.#timer = undefined;
    this.#router = undefined;
  }

  #note(
    request: Parameters<HttpObserver["answered"]>[0] | Parameters<GrpcObserver["answered"]>[0],
  ): void {
    const { model, code, instances, elapsedMs, stages } = request;
    const isKnown = model !== undefined && this.#router?.models().includes(model) === true;
    this.#traffic.note({
      model: isKnown ? model : "(unknown)",
      code,
      instances,
      elapsedMs,
      stages,
      requestId: request.requestId,
      ...("version" in request && { version: request.version }),
    });
  }

  #look(router: ReportedRouter): void {
    if (this.#router !== router) return;
    this.#see(router);
    this.#timer = this.#parts.clock.setTimer(LOOK_MS, () => this.#look(router));
  }

  #see(router: ReportedRouter): ClusterView {
    const observed = router.observe();
    const before = this.#view;
    const isKnown =
      before !== undefined &&
      before.table === observed.table &&
      observed.nowMs - before.modelsAtMs < MODELS_MS_MAX;
    const view = {
      workers: workerReports(observed),
      models: isKnown ? before.models : modelReports(observed),
      table: observed.table,
      modelsAtMs: isKnown ? before.modelsAtMs : observed.nowMs,
    };
    if (before !== undefined) this.#events.add(eventsBetween(before, view));
    this.#view = view;
    return view;
  }

  #made(): { readonly report: ClusterReport; readonly json: Buffer } {
    const router = this.#router;
    if (router === undefined) throw new RangeError("a report without a router");
    const nowMs = this.#parts.clock.nowMs();
    if (this.#report !== undefined && nowMs - this.#report.atMs < LOOK_MS) return this.#report;
    const report = this.#make(router);
    this.#report = { report, json: Buffer.from(`${JSON.stringify(report)}\n`), atMs: nowMs };
    return this.#report;
  }

  #make(router: ReportedRouter): ClusterReport {
    const { workers, models } = this.#see(router);
    const { version, name, clock, residentBytes } = this.#parts;
    const { requests, questions, waiting } = router.counters;
    const { generation, membershipAgeMs } = router.clusterStatus();
    const told: RouterReport = {
      version,
      ...(name !== undefined && { name }),
      uptimeMs: Math.round(clock.nowMs() - this.#startMs),
      isReady: router.ready,
      routingGeneration: generation,
      ...(membershipAgeMs !== undefined && { membershipAgeMs: Math.round(membershipAgeMs) }),
      requests,
      questions,
      waitingSlices: waiting,
      traffic: this.#traffic.report(),
      memory: { residentBytes: residentBytes() },
      ...this.#settings,
    };
    return bounded({
      health: healthOf({ workers, models, router: told }),
      router: told,
      workers,
      models,
      events: this.#events.report(),
      slowRequests: this.#traffic.slowest(),
    });
  }
}

const SETTING_TEXT_MAX = 1000;

/** Settings as JSON values, ascending by name; those without a value are left out. */
function settingsReport(
  settings: ClusterWatchParts["settings"],
  defaults: ClusterWatchParts["defaults"],
): Pick<RouterReport, "settings" | "changedSettings"> {
  const told = Object.entries(settings)
    .filter(([, value]) => value !== undefined)
    .map(([name, value]) => [name, settingValue(value)] as const)
    .toSorted(([a], [b]) => (a < b ? -1 : 1));
  const changed = told.filter(
    ([name, value]) =>
      JSON.stringify(value) !== JSON.stringify(settingValue(defaults[name] ?? null)),
  );
  return {
    settings: Object.fromEntries(told),
    changedSettings: changed.map(([name]) => name),
  };
}

function settingValue(value: unknown): SettingValue {
  const plain = value instanceof Map ? Object.fromEntries(value as Map<string, unknown>) : value;
  const text = JSON.stringify(plain, (_, each: unknown) =>
    each instanceof Map ? Object.fromEntries(each as Map<string, unknown>) : each,
  );
  return text.length > SETTING_TEXT_MAX
    ? `${text.slice(0, SETTING_TEXT_MAX)}…`
    : (JSON.parse(text) as SettingValue);
}
