// The cluster side of a router: links to workers, programs, the routing table, and requests that run
// on them. Start reading here to follow one request down:
//
//   pin() ── pins ── version-resolution ── program-store (pinned)
//   predict() ── predictions ── request-check ── admission ── request-run ── program-execution ── core/runProgram
//                  ├─ lookup-query ───────────┐
//                  ├─ dense engine            ├── table-query ── scatter ── worker-peer ──▶
//                  └─ top-k-query ── limiter ─┘        └─ gather

import type { Environment, Fingerprint } from "@winnow/core";
import { WinnowError } from "@winnow/core";
import type { DenseEngine } from "@winnow/accelerator";
import { OrderBook, RefusedRecords, noSecret } from "@winnow/cluster";
import type { MembershipStore, RoutingTable, SeenItems, WorkerConnector } from "@winnow/cluster";
import { HedgeProbes } from "./scatter/hedging/hedge-probes.ts";
import { RetryBudget } from "./scatter/hedging/retry-budget.ts";
import { clusterStatus, workerStatuses } from "./workers/cluster-status.ts";
import type { ClusterStatus, WorkerStatus } from "./workers/cluster-status.ts";
import type { ObservedCluster } from "./report/cluster-report.ts";
import { isSettled, KnownModels } from "./versions/known-models.ts";
import { ModelOrders } from "./versions/model-orders.ts";
import type {
  ModelTarget,
  PinnedModel,
  Prediction,
  PredictRequest,
  Predictor,
  VersionStatus,
} from "./predictor.ts";
import { ProgramStore } from "./versions/program-store.ts";
import type { RequestLimits } from "./limits/request-limits.ts";
import type { RouterObserver } from "./router-observer.ts";
import type { RouterOptions, RouterSettings, VersionLabels } from "./router-settings.ts";
import { resolveRouterOptions } from "./router-settings.ts";
import { PlanRotation } from "./scatter/plan-rotation.ts";
import { Routing } from "./versions/routing.ts";
import type { TableQueryParts } from "./scatter/table-query.ts";
import type { Traffic } from "./admission/traffic.ts";
import { SliceSizes } from "./admission/slice-sizes.ts";
import { createTraffic } from "./admission/traffic.ts";
import { ShadowTraffic } from "./experiments/shadow-traffic.ts";
import { waitingExperiments } from "./experiments/waiting-experiments.ts";
import { waitingPipelines } from "./pipeline/waiting-pipelines.ts";
import { WarmUp } from "./versions/warm-up.ts";
import { WorkerLinks } from "./workers/worker-links.ts";
import { byWorkerId } from "./workers/worker-order.ts";
import type { SavedWorkers } from "./workers/worker-links.ts";
import { Pins } from "./pins.ts";
import { Predictions } from "./predictions.ts";
import { TextThreads } from "./program/text-threads.ts";

/** What a router needs. The process closes these; the router does not. */
export interface RouterDependencies {
  readonly environment: Environment;
  readonly connector: WorkerConnector;
  readonly membership: MembershipStore;
  readonly denseEngine: DenseEngine;
  /** The models order. Default: one that is kept in memory alone. */
  readonly orders?: OrderBook | undefined;
  /** Where the addresses of workers are kept across restarts. Default: nowhere. */
  readonly savedWorkers?: SavedWorkers | undefined;
  /** What users have seen, for pipelines that exclude it. Without it such pipelines wait. */
  readonly seenItems?: SeenItems | undefined;
  readonly observer?: RouterObserver;
  /**
   * Runs a function at the end of the current turn of the event loop. Default `setImmediate`; the simulator
   * passes its own.
   */
  readonly defer?: (run: () => void) => void;
}

/** Work that is under way; all numbers are 0 after `close` (R5). */
export interface RouterCounters {
  readonly pins: number;
  readonly requests: number;
  /** Unanswered questions to workers. */
  readonly questions: number;
  /** Query vectors of admitted requests that are not answered yet. */
  readonly rows: number;
  /** Slices that wait in the concurrency limiter. */
  readonly waiting: number;
}

/** Answers predictions by asking workers. */
export interface Router extends Predictor {
  readonly settings: RouterSettings;
  readonly counters: RouterCounters;
  /** Every known worker, by id. */
  workers(): readonly WorkerStatus[];
  /** The cluster in numbers, as this router sees it. */
  clusterStatus(): ClusterStatus;
  /** The state that a report of the cluster is made from. */
  observe(): ObservedCluster;
  /** Gives models orders, and passes them on between workers. */
  readonly orders: ModelOrders;
  /**
   * Replaces the labels of the configuration. Each label is set once its version is available (see
   * `LabelBook`). While a models order is in force, its labels are used instead.
   */
  setLabels(labels: VersionLabels): void;
  /** Stops being ready, and resolves when nothing is pinned and nothing runs. */
  drain(): Promise<void>;
  /** Ends all streams; requests still running fail. */
  close(): void;
}

/** Starts a router. It connects to the workers that membership names, and is ready when one model can answer. */
export function createRouter(options: RouterOptions, dependencies: RouterDependencies): Router {
  return new ClusterRouter(resolveRouterOptions(options), dependencies);
}

/**
 * Connects the parts. `#links` has the workers and what they announce, `#programs` the programs of their versions;
 * `#routing` makes a routing table of both, and `#known` resolves models, versions and labels by it. Every change
 * calls `invalidate`; `#routing` then makes the next table, and `onTable` passes it on.
 */
class ClusterRouter implements Router {
  readonly settings: RouterSettings;
  readonly orders: ModelOrders;
  readonly #environment: Environment;
  readonly #membership: MembershipStore;
  readonly #seenItems: SeenItems | undefined;
  readonly #links: WorkerLinks;
  readonly #programs: ProgramStore;
  readonly #routing: Routing;
  readonly #known: KnownModels;
  #ownLabels: VersionLabels;
  readonly #endFollow: () => void;
  readonly #warmUp: WarmUp;
  readonly #traffic: Traffic;
  readonly #shadows: ShadowTraffic;
  /** A drain waits until nothing is pinned and nothing runs. */
  readonly #pins: Pins;
  readonly #predictions: Predictions;
  readonly #texts: TextThreads;
  #idle: (() => void)[] = [];
  /** Whether some table was settled (`isSettled`): the router is ready from then on, once it knows what labels mean. */
  #seenComplete = false;
  #draining = false;
  #closed = false;

  constructor(settings: RouterSettings, dependencies: RouterDependencies) {
    const { environment, connector, membership, denseEngine, defer } = dependencies;
    const { savedWorkers: saved } = dependencies;
    this.settings = settings;
    this.#environment = environment;
    this.#membership = membership;
    this.#seenItems = dependencies.seenItems;
    const invalidate = (): void => this.#routing?.invalidate();
    this.#links = new WorkerLinks(
      { environment, connector, membership, settings, defer, saved },
      invalidate,
    );
    const { peers } = this.#links;
    this.#programs = new ProgramStore(
      { environment, settings, connector, denseEngine, peers },
      invalidate,
    );
    this.#warmUp = new WarmUp({
      clock: environment.clock,
      log: environment.log,
      warmUpMsMax: settings.warmUpMsMax,
      programs: () => this.#programs.ready(),
      replay: (run) => this.#predictions.replay(run),
      onChange: invalidate,
    });
    this.#routing = new Routing({
      environment,
      settings,
      announcements: () => this.#links.announcements(),
      members: () => this.#links.members(),
      tables: () => this.#programs.tables(),
      warming: () => this.#warmUp.warming(),
      unrunnable: () => this.#programs.unrunnable(),
      waiting: [
        (table) => this.#waitingPipelines(table, "models"),
        (table) => this.#waitingPipelines(table, "pipelines"),
        (table, previous) =>
          waitingExperiments(
            { table, previous, resolve: (arm) => this.#known.resolve(arm, table) },
            this.#programs.ready(),
          ),
      ],
      onTable: (table) => {
        this.#programs.follow(table);
        this.#warmUp.follow(table);
        this.#noteLabels(this.#known.follow(table));
        this.#seenComplete ||= isSettled(table);
        if (!this.orders.isKnown) this.orders.pass();
      },
    });
    this.#known = new KnownModels({
      log: environment.log,
      settings,
      table: () => this.#routing.table,
      unreachable: () => this.#links.unreachable(),
      knowsOrder: () => this.orders.isKnown,
      programErrorOf: (fingerprint) => this.#programs.errorOf(fingerprint),
      programNoticeOf: (fingerprint) => this.#programs.noticeOf(fingerprint),
    });
    this.#ownLabels = settings.labels;
    const orders = dependencies.orders ?? memoryBook(environment);
    this.orders = new ModelOrders({
      environment,
      connector,
      orders,
      settings,
      workers: () => this.workers(),
    });
    this.#endFollow = orders.follow(() => this.#useLabels());
    this.#useLabels();
    void orders.open(); // Never rejects.
    const { observer = {} } = dependencies;
    this.#traffic = createTraffic(environment.clock, settings, observer);
    const { limiter } = this.#traffic;
    this.#shadows = shadowTraffic(environment, settings, { limiter, observer });
    const onEnd = (): void => this.#tellIfIdle();
    this.#pins = new Pins({ known: this.#known, programs: this.#programs, onRelease: onEnd });
    this.#texts = new TextThreads(environment.clock, settings);
    this.#predictions = new Predictions({
      settings,
      pins: this.#pins,
      programs: this.#programs,
      routing: this.#routing,
      traffic: this.#traffic,
      shadows: this.#shadows,
      seenItems: dependencies.seenItems,
      query: {
        ...queryMemory(environment, settings),
        peers,
        observer,
        tables: this.#routing,
        limiter,
        texts: this.#texts,
      },
      onEnd,
    });
  }

  get limits(): RequestLimits {
    return this.settings;
  }

  get ready(): boolean {
    return this.#seenComplete && this.orders.isKnown && !this.#draining && !this.#closed;
  }

  get counters(): RouterCounters {
    const peers = [...this.#links.peers.values()];
    return {
      pins: this.#pins.size,
      requests: this.#predictions.running,
      questions: peers.reduce((sum, peer) => sum + peer.pending, 0),
      rows: this.#traffic.admission.rows,
      waiting: this.#traffic.limiter.waiting,
    };
  }

  workers(): readonly WorkerStatus[] {
    return workerStatuses(this.#links.peers.values(), this.#links.members());
  }

  clusterStatus(): ClusterStatus {
    const readAtMs = this.#membership.readAtMs();
    return clusterStatus({
      table: this.#routing.table,
      replication: this.settings,
      workers: this.#links.peers.size,
      membershipAgeMs:
        readAtMs === undefined ? undefined : this.#environment.clock.nowMs() - readAtMs,
    });
  }

  observe(): ObservedCluster {
    const announced = new Map(this.#links.members().map((member) => [member.workerId, member]));
    const workers = Array.from(this.#links.peers.values(), (peer) => ({
      id: peer.id,
      address: peer.address ?? "",
      isAskable: peer.askable,
      isTrusted: peer.trusted,
      announcement: peer.askable
        ? peer.announcement
        : (announced.get(peer.id) ?? peer.announcement),
      heardAtMs: peer.heardAtMs,
      questions: peer.pending,
      queueRows: peer.queueRows,
      scans: peer.scans.recent(),
      latency: peer.latency.percentiles(),
    }));
    const experiments = new Map(
      this.#programs.ready().map(([print, { program }]) => [print, program.experiment] as const),
    );
    return {
      nowMs: this.#environment.clock.nowMs(),
      table: this.#routing.table,
      workers: workers.toSorted(byWorkerId),
      members: this.#links.members(),
      replication: this.settings,
      statusOf: (model) => this.#known.status(model) ?? [],
      labelsOf: (model) => this.#known.labelsOf(model),
      experimentOf: (print) => experiments.get(print),
    };
  }

  models(): readonly string[] {
    return this.#known.names();
  }

  setLabels(labels: VersionLabels): void {
    this.#ownLabels = labels;
    this.#useLabels();
  }

  #useLabels(): void {
    const ordered = this.orders.newest?.models;
    const labels =
      ordered === undefined
        ? this.#ownLabels
        : new Map(ordered.map(({ model, labels: of }) => [model, of]));
    this.#noteLabels(this.#known.setLabels(labels));
  }

  /** If a label moved, experiments that wait may have what they need. */
  #noteLabels(isMoved: boolean): void {
    const experiments = this.#programs.ready().some(([, { program }]) => program.experiment);
    if (isMoved && experiments) this.#routing.invalidate();
  }

  status(model: string): readonly VersionStatus[] | undefined {
    return this.#known.status(model);
  }

  async pin(target: ModelTarget): Promise<PinnedModel> {
    return this.#pins.pin(target);
  }

  predict(pinned: PinnedModel, request: PredictRequest): Promise<Prediction> {
    return this.#predictions.predict(this.#pins.heldBy(pinned), request);
  }

  #waitingPipelines(
    table: RoutingTable,
    askedFor: "models" | "pipelines",
  ): ReadonlyMap<Fingerprint, WinnowError> {
    const knowsSeenItems = this.#seenItems !== undefined;
    return waitingPipelines(table, this.#programs.ready(), { knowsSeenItems, askedFor });
  }

  drain(): Promise<void> {
    this.#draining = true;
    this.#shadows.close();
    return new Promise((resolve) => {
      this.#idle.push(resolve);
      this.#tellIfIdle();
    });
  }

  #tellIfIdle(): void {
    if (this.#pins.size > 0 || this.#predictions.running > 0) return;
    const idle = this.#idle;
    this.#idle = [];
    for (const resolve of idle) resolve();
  }

  close(): void {
    if (this.#closed) return;
    this.#closed = true;
    this.#shadows.close();
    this.#pins.close();
    this.#predictions.abort(() => new WinnowError("UNAVAILABLE", "The router is closing"));
    this.#endFollow();
    this.orders.close();
    this.#warmUp.close();
    void this.#texts.close();
    this.#routing.close();
    this.#programs.close();
    this.#links.close();
  }
}

/** What queries leave behind for the next ones, and where they run. */
function queryMemory(environment: Environment, settings: RouterSettings) {
  return {
    environment,
    settings,
    budget: new RetryBudget(environment.clock, settings),
    probes: new HedgeProbes(),
    rotation: new PlanRotation(),
    sliceSizes: new SliceSizes(environment.clock),
  };
}

function memoryBook(environment: Environment): OrderBook {
  const refused = new RefusedRecords(environment.log);
  return new OrderBook({ environment, cluster: "default", secret: noSecret(), refused });
}

/** Requests to shadows, which wait while anybody else does. */
function shadowTraffic(
  { clock, random }: Environment,
  settings: RouterSettings,
  { limiter, observer }: Pick<TableQueryParts, "limiter" | "observer">,
): ShadowTraffic {
  return new ShadowTraffic({
    clock,
    random,
    isBusy: () => limiter.waiting > 0 || limiter.rows > settings.searchRowsMax / 2,
    onShadow: (record) => observer.shadow?.(record),
    limits: settings,
  });
}
