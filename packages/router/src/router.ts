// The cluster side of a router: links to workers, programs, the routing table, and requests that run
// on them. Start reading here to follow one request down:
//
//   pin() ── version-resolution ── program-store (pinned)
//   predict() ── request-check ── admission ── request-run ── program-execution ── core/runProgram
//                  ├─ lookup-query ─────────────┐
//                  ├─ dense engine              ├── table-query ── scatter ── worker-peer ──▶
//                  └─ top-k-query ── limiter ─┘        └─ gather

import type {
  ArmTarget,
  Environment,
  Experiment,
  Fingerprint,
  ModelProgram,
  Pipeline,
  VersionKey,
} from "@winnow/core";
import {
  fallbackPipelineOf,
  keyLookupsOf,
  modelsOf,
  Outstanding,
  signatureOf,
  targetText,
  toWinnowError,
  WinnowError,
} from "@winnow/core";
import type { DenseEngine } from "@winnow/accelerator";
import { OrderBook, RefusedRecords, isSameVersion, noSecret } from "@winnow/cluster";
import type {
  MembershipStore,
  RoutedVersion,
  RoutingTable,
  SeenItems,
  WorkerConnector,
} from "@winnow/cluster";
import type { Admitted } from "./admission/admission.ts";
import { RetryBudget } from "./scatter/hedging/retry-budget.ts";
import { clusterStatus, workerStatuses } from "./workers/cluster-status.ts";
import type { ClusterStatus, WorkerStatus } from "./workers/cluster-status.ts";
import type { ObservedCluster } from "./report/cluster-report.ts";
import { isSettled, KnownModels } from "./versions/known-models.ts";
import type { LoadedProgram } from "./versions/loaded-program.ts";
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
import { checkPipelineRequest, checkRequest } from "./admission/request-check.ts";
import type { CheckedRequest } from "./admission/request-check.ts";
import { NO_CONDITIONS } from "./admission/search-cost.ts";
import type { RequestContext } from "./request-context.ts";
import type { RequestLimits } from "./limits/request-limits.ts";
import type { RouterObserver } from "./router-observer.ts";
import type { RouterOptions, RouterSettings, VersionLabels } from "./router-settings.ts";
import { resolveRouterOptions } from "./router-settings.ts";
import { PlanRotation } from "./scatter/plan-rotation.ts";
import { Routing } from "./versions/routing.ts";
import type { TableQueryParts } from "./scatter/table-query.ts";
import type { Traffic } from "./admission/traffic.ts";
import { createTraffic } from "./admission/traffic.ts";
import { commonSignatures, isSameSignature } from "./experiments/arm-signatures.ts";
import { runExperiment } from "./experiments/experiment-run.ts";
import type { ArmPin } from "./experiments/experiment-run.ts";
import { ShadowTraffic } from "./experiments/shadow-traffic.ts";
import { waitingExperiments } from "./experiments/waiting-experiments.ts";
import { askingVectors, withVectors } from "./program/item-vectors.ts";
import { runOnMembers, runPipeline } from "./pipeline/pipeline-run.ts";
import { waitingPipelines } from "./pipeline/waiting-pipelines.ts";
import type { KnownQuestion } from "./pipeline/member-access.ts";
import { knownKeys } from "./program/known-keys.ts";
import type { KnownKeys } from "./program/known-keys.ts";
import { runRequest } from "./program/program-execution.ts";
import { RequestRun } from "./program/request-run.ts";
import type { RunTerms } from "./program/request-run.ts";
import type { Replay } from "./versions/warm-up.ts";
import { WarmUp } from "./versions/warm-up.ts";
import { WorkerLinks } from "./workers/worker-links.ts";
import type { SavedWorkers } from "./workers/worker-links.ts";

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

interface Pin extends PinnedModel {
  readonly target: ModelTarget;
  readonly loaded: LoadedProgram;
  readonly routed: RoutedVersion;
  /** Of an experiment: the models of its arms, which are released together with it. */
  readonly arms: readonly ArmPin<Pin>[] | undefined;
  /** To be called when the pin is released: each gives back the candidates that a request of this pin holds. */
  readonly held: (() => void)[];
  /** Number of this pin among the pins of this router. */
  id: number;
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
  readonly #parts: TableQueryParts;
  readonly #traffic: Traffic;
  readonly #shadows: ShadowTraffic;
  /** Pins that are not released, and requests that run: a drain waits for both. */
  readonly #pins = new Outstanding<Pin>();
  readonly #running = new Outstanding<RequestContext>();
  #idle: (() => void)[] = [];
  /** Whether some table was settled (`isSettled`): the router is ready from then on. */
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
      replay: (run) => this.#replay(run),
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
        (table) =>
          waitingExperiments(table, this.#programs.ready(), (arm) =>
            this.#known.resolve(arm, table),
          ),
      ],
      onTable: (table) => {
        this.#programs.follow(table);
        this.#warmUp.follow(table);
        this.#noteLabels(this.#known.follow(table));
        this.#seenComplete ||= isSettled(table);
      },
    });
    this.#known = new KnownModels({
      log: environment.log,
      settings,
      table: () => this.#routing.table,
      unreachable: () => this.#links.unreachable(),
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
    const budget = new RetryBudget(environment.clock, settings);
    const { observer = {} } = dependencies;
    this.#traffic = createTraffic(environment.clock, settings, observer);
    const { limiter } = this.#traffic;
    this.#shadows = new ShadowTraffic({
      clock: environment.clock,
      random: environment.random,
      isBusy: () => limiter.waiting > 0 || limiter.rows > settings.searchRowsMax / 2,
      onShadow: (record) => observer.shadow?.(record),
      limits: settings,
    });
    this.#parts = {
      environment,
      settings,
      peers,
      budget,
      rotation: new PlanRotation(),
      observer,
      tables: this.#routing,
      limiter,
    };
  }

  get limits(): RequestLimits {
    return this.settings;
  }

  get ready(): boolean {
    return this.#seenComplete && !this.#draining && !this.#closed;
  }

  get counters(): RouterCounters {
    const peers = [...this.#links.peers.values()];
    return {
      pins: this.#pins.size,
      requests: this.#running.size,
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
      workers: workers.toSorted((a, b) => (a.id < b.id ? -1 : 1)),
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

  pin(target: ModelTarget): Promise<PinnedModel> {
    return this.#pin(target);
  }

  async #pin(target: ModelTarget): Promise<Pin> {
    return this.#pinVersion(target);
  }

  #pinVersion(target: ModelTarget, isArm = false): Pin {
    if (this.#closed) throw new WinnowError("UNAVAILABLE", "The router is closed");
    const routed = this.#known.resolve(target);
    const { model, version, fingerprint } = routed.key;
    const loaded = this.#programs.pin(fingerprint);
    if (loaded === undefined) {
      const cause = this.#programs.errorOf(fingerprint);
      const message = `Model ${model} version ${version} is being loaded by this router; try again`;
      throw new WinnowError("UNAVAILABLE", message, { cause });
    }
    const arms = isArm ? undefined : this.#pinArms(loaded.program.experiment);
    const error = arms === undefined ? undefined : faultOfAll(arms);
    if (error !== undefined) {
      this.#programs.release(fingerprint);
      throw error;
    }
    const pin: Pin = {
      target,
      model,
      version,
      program: arms === undefined ? loaded.program : withArms(loaded.program, arms),
      loaded,
      routed,
      arms,
      held: [],
      id: 0,
      release: () => {
        if (!this.#pins.delete(pin.id)) throw new RangeError(`${model}/${version} released twice`);
        for (const giveBack of pin.held) giveBack();
        for (const arm of arms ?? []) if ("pinned" in arm) arm.pinned.release();
        this.#programs.release(fingerprint);
        this.#tellIfIdle();
      },
    };
    pin.id = this.#pins.add(pin);
    return pin;
  }

  #waitingPipelines(
    table: RoutingTable,
    askedFor: "models" | "pipelines",
  ): ReadonlyMap<Fingerprint, WinnowError> {
    const knowsSeenItems = this.#seenItems !== undefined;
    return waitingPipelines(table, this.#programs.ready(), { knowsSeenItems, askedFor });
  }

  /** The models of an experiment's arms, or the reason why an arm cannot answer. */
  #pinArms(experiment: Experiment | undefined): readonly ArmPin<Pin>[] | undefined {
    return experiment?.arms.map((arm) => {
      try {
        const pinned = this.#pinVersion(arm, true);
        if (pinned.program.experiment === undefined) {
          return { pinned, isWhole: pinned.routed.coverage === 1 };
        }
        pinned.release();
        const text = `Model ${arm.model} is an experiment; name the models that it asks`;
        throw new WinnowError("FAILED_PRECONDITION", text);
      } catch (error) {
        return { error: toWinnowError(error) };
      }
    });
  }

  async predict(pinned: PinnedModel, request: PredictRequest): Promise<Prediction> {
    const pin = pinned as Pin;
    if (this.#pins.get(pin.id) !== pin)
      throw new RangeError("predict() without a pin of this router");
    if (request.vectors !== true) return await this.#predictPinned(pin, request);
    const prediction = await this.#predictPinned(pin, askingVectors(request));
    return await withVectors(prediction, request);
  }

  async #predictPinned(pin: Pin, request: PredictRequest): Promise<Prediction> {
    if (pin.arms !== undefined) return await this.#predictByArms(pin, pin.arms, request);
    if (pin.program.pipeline !== undefined) return await this.#predictByStages(pin, request);
    if (request.explain === true) {
      const text = `Cannot apply "explain": model ${pin.model} is no pipeline`;
      throw new WinnowError("INVALID_ARGUMENT", text);
    }
    return await this.#predictAdmitted(pin, request, { mayMove: true });
  }

  async #predictByArms(
    { program, routed }: Pin,
    arms: readonly ArmPin<Pin>[],
    request: PredictRequest,
  ): Promise<Prediction> {
    const { experiment } = program;
    if (experiment === undefined) throw new RangeError("no experiment");
    const { observer } = this.#parts;
    const prediction = await runExperiment<Pin>({
      experiment,
      version: routed.key,
      request,
      arms,
      ask: (pinned, asked) => this.#predictPinned(pinned, asked),
      clock: this.#environment.clock,
      limits: this.settings,
      onArm: (record) => observer.arm?.(record),
    });
    const { shadow } = experiment;
    if (shadow !== undefined) {
      const ask = (asked: PredictRequest): Promise<Prediction> => this.#askShadow(shadow, asked);
      this.#shadows.offer({ model: routed.key.model, shadow, request, given: prediction, ask });
    }
    return prediction;
  }

  async #askShadow(shadow: ArmTarget, request: PredictRequest): Promise<Prediction> {
    const pin = this.#pinVersion(shadow, true);
    try {
      const signature = pin.program.signatures.find((each) =>
        isSameSignature(each, request.signature),
      );
      if (signature !== undefined) return await this.#predictPinned(pin, { ...request, signature });
      const text = `${targetText(shadow)} has no signature with the same inputs and outputs`;
      throw new WinnowError("FAILED_PRECONDITION", text);
    } finally {
      pin.release();
    }
  }

  /** `mayMove`: whether a version that took the place of a lost one may answer instead. */
  async #predictAdmitted(
    pin: Pin,
    request: PredictRequest,
    { mayMove }: { readonly mayMove: boolean },
  ): Promise<Prediction> {
    const checked = checkRequest(pin.program, request, this.settings);
    const { deadlineMs } = request.context;
    // Held until the pin is released, when the answer is written.
    pin.held.push(this.#traffic.candidates.take(checked.candidates));
    const admitted = this.#traffic.admission.admit({ rows: checked.rows, deadlineMs });
    try {
      return await this.#predictOn(pin, request, { checked, admitted });
    } catch (error) {
      if (!mayMove || !(error instanceof WinnowError) || error.code !== "UNAVAILABLE") throw error;
      return await this.#predictOnSuccessor(pin, request, { admitted, error });
    } finally {
      admitted.release();
      this.#tellIfIdle();
    }
  }

  /** Runs a pipeline on one version of each of its models, which stay pinned until the request is answered. */
  async #predictByStages(pin: Pin, request: PredictRequest): Promise<Prediction> {
    const { pipeline } = pin.program;
    if (pipeline === undefined) throw new RangeError("no pipeline");
    return await this.#runStages(pipeline, pin.routed.key, request);
  }

  async #runStages(
    pipeline: Pipeline,
    version: VersionKey,
    request: PredictRequest,
  ): Promise<Prediction> {
    checkPipelineRequest(pipeline, request, this.settings);
    return await runOnMembers<Pin, Prediction>({
      pin: () => this.#pinMembers(pipeline),
      isSame: (before, now) => isSameVersion(before.routed.key, now.routed.key),
      run: async (pinned, outlives) => {
        const answer = await runPipeline({
          pipeline,
          request,
          pinned,
          clock: this.#environment.clock,
          ask: (member, asked) => this.#predictAdmitted(member as Pin, asked, { mayMove: false }),
          instancesMax: this.settings.instancesMax,
          describedValuesMax: this.settings.describedValuesMax,
          limits: this.settings,
          seenItems: this.#seenItems,
          check: (other, asked) => checkPipelineRequest(other, asked, this.settings),
          knows: (member, asked) => this.#knows(member as Pin, asked),
          outlives,
        });
        const members = Array.from(pinned.values(), ({ routed }) => routed.key);
        return { version, ...answer, members };
      },
    });
  }

  /** Which values of an input a pinned model knows. It is due at once, and costs about nothing. */
  async #knows(
    { program, loaded, routed }: Pin,
    { signature, input, values, context }: KnownQuestion,
  ): Promise<KnownKeys> {
    const lookups = keyLookupsOf(program, signature, input);
    const asked = { signature: lookups.part, inputs: new Map([[input, values]]), context };
    const admitted = { dueMs: this.#environment.clock.nowMs(), answered: () => undefined };
    const terms = { conditions: NO_CONDITIONS, admitted };
    const { table } = this.#routing;
    const run = new RequestRun({ loaded, version: routed.key, table }, asked, terms);
    const id = this.#running.add(run.context);
    try {
      return await knownKeys(this.#parts, run, lookups);
    } finally {
      this.#running.delete(id);
    }
  }

  /** Pins all models of a pipeline, or none; with the pipeline that answers unknown users and its models. By name ascending. */
  async #pinMembers(pipeline: Pipeline): Promise<ReadonlyMap<string, Pin>> {
    const pinned = new Map<string, Pin>();
    const fallback = fallbackPipelineOf(pipeline);
    const pinAll = async (models: readonly string[]): Promise<void> => {
      for (const model of models) {
        if (!pinned.has(model)) pinned.set(model, await this.#pinMember(model));
      }
    };
    try {
      await pinAll(modelsOf(pipeline));
      if (fallback === undefined) return pinned;
      const other = await this.#pinMember(fallback, true);
      pinned.set(fallback, other);
      if (other.program.pipeline !== undefined) await pinAll(modelsOf(other.program.pipeline));
      return new Map([...pinned].toSorted(([a], [b]) => (a < b ? -1 : 1)));
    } catch (error) {
      for (const member of pinned.values()) member.release();
      throw error;
    }
  }

  /**
   * Pins a model of a pipeline. @throws WinnowError UNAVAILABLE where no worker serves it;
   * FAILED_PRECONDITION for an experiment, or a pipeline where none may stand
   */
  async #pinMember(model: string, mayBePipeline = false): Promise<Pin> {
    const member = await this.#pin({ model }).catch((cause: unknown) => {
      const text = `The pipeline needs model ${model}, which cannot answer`;
      throw new WinnowError("UNAVAILABLE", `${text}: ${toWinnowError(cause).message}`, { cause });
    });
    const { pipeline, experiment } = member.program;
    const isTaken = mayBePipeline || pipeline === undefined;
    if (isTaken && experiment === undefined) return member;
    member.release();
    const kind = experiment === undefined ? "a pipeline" : "an experiment";
    const text = `The pipeline names ${model}, which is ${kind}; name the models that it asks`;
    throw new WinnowError("FAILED_PRECONDITION", text);
  }

  #predictOn(
    { loaded, routed }: Pin,
    request: PredictRequest,
    { checked, admitted }: { readonly checked: CheckedRequest; readonly admitted: Admitted },
  ): Promise<Prediction> {
    const { k, conditions } = checked;
    return this.#run({ loaded, version: routed.key }, request, { k, conditions, admitted });
  }

  /**
   * Answers a request whose pinned content was lost with the version that its target means now, as if it had
   * arrived a moment later.
   * @throws the `error` that it ended with, if that is the same content or has other inputs; WinnowError
   * NOT_FOUND where the version that it names has been unloaded
   */
  async #predictOnSuccessor(
    pinned: Pin,
    request: PredictRequest,
    { admitted, error }: { readonly admitted: Admitted; readonly error: WinnowError },
  ): Promise<Prediction> {
    const successor = await this.#pin(pinned.target).catch((thrown: unknown) => {
      const isGone = thrown instanceof WinnowError && thrown.code === "NOT_FOUND";
      throw isGone && pinned.target.version !== undefined ? thrown : error;
    });
    try {
      const signature = successor.program.signatures.find((each) =>
        isSameSignature(each, request.signature),
      );
      const isSame = isSameVersion(successor.routed.key, pinned.routed.key);
      if (isSame || signature === undefined) throw error;
      const again = { ...request, signature };
      const { pipeline, experiment } = successor.program;
      if (pipeline !== undefined || experiment !== undefined) {
        return await this.#predictPinned(successor, again);
      }
      const checked = checkRequest(successor.program, again, this.settings);
      return await this.#predictOn(successor, again, { checked, admitted });
    } finally {
      successor.release();
    }
  }

  async #replay({ version, request, context }: Replay): Promise<void> {
    const { key } = version;
    const loaded = this.#programs.pin(key.fingerprint);
    if (loaded === undefined) return;
    try {
      const { pipeline, signatures } = loaded.program;
      const signature = signatureOf(request, signatures);
      if (signature === undefined) return;
      const asked = { signature, inputs: request.inputs, context };
      if (pipeline !== undefined) {
        await this.#runStages(pipeline, key, asked);
        return;
      }
      // A warm-up request is due at once, and is not counted as admitted.
      const admitted = { dueMs: this.#environment.clock.nowMs(), answered: () => undefined };
      await this.#run({ loaded, version: key }, asked, { conditions: NO_CONDITIONS, admitted });
    } finally {
      this.#programs.release(key.fingerprint);
      this.#tellIfIdle();
    }
  }

  async #run(
    { loaded, version }: Pick<RequestRun, "loaded" | "version">,
    request: PredictRequest,
    terms: RunTerms,
  ): Promise<Prediction> {
    const { table } = this.#routing;
    const run = new RequestRun({ loaded, version, table }, request, terms);
    const id = this.#running.add(run.context);
    try {
      return await runRequest(this.#parts, run);
    } finally {
      this.#running.delete(id);
    }
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
    if (this.#pins.size > 0 || this.#running.size > 0) return;
    const idle = this.#idle;
    this.#idle = [];
    for (const resolve of idle) resolve();
  }

  close(): void {
    if (this.#closed) return;
    this.#closed = true;
    this.#shadows.close();
    for (const context of this.#running) {
      context.abort(() => new WinnowError("UNAVAILABLE", "The router is closing"));
    }
    this.#endFollow();
    this.orders.close();
    this.#warmUp.close();
    this.#routing.close();
    this.#programs.close();
    this.#links.close();
  }
}

function memoryBook(environment: Environment): OrderBook {
  const refused = new RefusedRecords(environment.log);
  return new OrderBook({ environment, cluster: "default", secret: noSecret(), refused });
}

/** The program of an experiment, reduced to the signatures of those arms that can answer. */
function withArms(program: ModelProgram, arms: readonly ArmPin<Pin>[]): ModelProgram {
  const programs = arms.flatMap((arm) => ("pinned" in arm ? [arm.pinned.program] : []));
  return { ...program, signatures: commonSignatures(programs) };
}

/** Why no arm can answer; `undefined` if one can. */
function faultOfAll(arms: readonly ArmPin<Pin>[]): WinnowError | undefined {
  const errors = arms.flatMap((arm) => ("error" in arm ? [arm.error] : []));
  return errors.length === arms.length ? errors[0] : undefined;
}
