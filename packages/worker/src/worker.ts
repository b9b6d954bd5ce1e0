// A worker: one process that holds replicas and answers queries for them. This file only connects the parts,
// each of which has a file of its own; `worker-start.ts` makes a worker.
//
//   model directories ─▶ version watch ─┐
//   membership view ────────────────────┼─▶ replica control ─▶ compute (thread) ◀─ query answer ◀─ routers
//                                       │         │
//   membership, routers ◀── announcer ◀─┴─────────┘            progress watch ─▶ pongs, lease
//
// Life: listen first (a loading worker is reachable and says what it does) → starting → ready → draining →
// closed. The loss of the compute thread or of the device ends the worker: queries get UNAVAILABLE, streams
// end so that routers ask other replicas, and `ended` tells the process to exit.

import type {
  Announcement,
  Describe,
  LinkHandlers,
  ListenForRouters,
  MembershipStore,
  OrderBook,
  OrderMessage,
  ProgramQuery,
  ReceivedDrain,
  WorkerLink,
  WorkerListener,
  WorkerService,
} from "@winnow/cluster";
import { WinnowError, sleep } from "@winnow/core";
import type { Environment } from "@winnow/core";

import { Announcer } from "./announcer.ts";
import type { Compute, ComputeFailure } from "./compute/compute.ts";
import { waitForHold } from "./replicas/drain/drain-hold.ts";
import type { DrainHold } from "./replicas/drain/drain-hold.ts";
import { MembersTold } from "./members-told.ts";
import { OrderFollower } from "./models/order-follower.ts";
import { ProgressWatch } from "./progress-watch.ts";
import { ReplicaControl } from "./replicas/replica-control.ts";
import { QueryAnswer } from "./queries/query-answer.ts";
import { openedOf } from "./replicas/replica-set.ts";
import { type ModelStorage, VersionWatch } from "./models/version-watch.ts";
import { WorkerIdentity } from "./worker-identity.ts";
import { advertisedAddressOf, modelLocations } from "./worker-settings.ts";
import type { WorkerSettings } from "./worker-settings.ts";
import type { WorkerObserver, WorkerStatus } from "./worker-observer.ts";
import type { NamedModel } from "./models/model-replacement.ts";

/** What a worker is made of. */
export interface WorkerParts {
  readonly environment: Environment;
  /** Closed by its owner, not by the worker. */
  readonly membership: MembershipStore;
  /** Closed by its owner, not by the worker. */
  readonly orders: OrderBook;
  /** Shut down by the worker when it closes, or by the caller if the worker never came to listen. */
  readonly compute: Compute;
  readonly storage: ModelStorage;
  readonly listen: ListenForRouters;
  readonly describe: Describe | undefined;
  readonly observer: WorkerObserver | undefined;
  /** Ends the process as SIGTERM does, `drain()` included. Default: `drain()` alone. */
  readonly onDrainOrder?: (() => void) | undefined;
}

/** A running worker. */
export class Worker implements WorkerService {
  readonly #settings: WorkerSettings;
  readonly #environment: Environment;
  readonly #membership: MembershipStore;
  readonly #compute: Compute;
  readonly #control: ReplicaControl;
  readonly #answers: QueryAnswer;
  readonly #announcer: Announcer;
  readonly #identity: WorkerIdentity;
  readonly #members: MembersTold;
  readonly #progress: ProgressWatch;
  readonly #watch: VersionWatch;
  readonly #orders: OrderBook;
  readonly #follower: OrderFollower;
  readonly #onDrainOrder: () => void;
  readonly #listen: ListenForRouters;
  readonly #started: Promise<void>;
  #start: () => void = () => undefined;
  readonly #ended: Promise<ComputeFailure | undefined>;
  #end: (failure: ComputeFailure | undefined) => void = () => undefined;
  #server: WorkerListener | undefined;
  #stopWatching: (() => void) | undefined;
  #address = "";
  #isWatching = false;
  #isStarted = false;
  #isDraining = false;
  #drained: Promise<void> | undefined;
  #isClosed = false;

  constructor(parts: WorkerParts, settings: WorkerSettings) {
    const { environment, membership, orders, compute, storage, listen, describe, observer } = parts;
    const { clock, log } = environment;
    this.#started = new Promise((resolve) => {
      this.#start = resolve;
    });
    this.#ended = new Promise((resolve) => {
      this.#end = resolve;
    });
    this.#settings = settings;
    this.#environment = environment;
    this.#membership = membership;
    this.#compute = compute;
    this.#listen = listen;
    this.#onDrainOrder = parts.onDrainOrder ?? (() => void this.drain());
    const announcement = (): Announcement => this.announcement();
    const { announceIntervalMs } = settings;
    this.#announcer = new Announcer({ environment, membership, announcement, announceIntervalMs });
    const onChange = (): void => this.#identityChanged();
    this.#identity = new WorkerIdentity(
      { environment, membership, describe, address: () => this.#address, onChange },
      settings,
    );
    this.#members = new MembersTold(settings.workerId);
    this.#control = new ReplicaControl(
      {
        environment,
        compute,
        stampOf: (directory) => storage.stamp(directory),
        observer,
        announcement,
        describe: membership.hearsMembers === true ? undefined : describe,
        onChange: () => this.#changed(),
      },
      settings.replicas,
    );
    const find = this.#control.find.bind(this.#control);
    this.#answers = new QueryAnswer(
      { clock, compute, find, observer, tracer: environment.tracer },
      settings.answers,
    );
    this.#progress = new ProgressWatch(
      {
        clock,
        signs: () => ({ isBusy: this.#answers.isBusy, progress: compute.progress }),
        onChange: (stalled) => this.#stalled(stalled),
      },
      settings.progress,
    );
    this.#watch = new VersionWatch({ storage, clock, log }, settings.watch, (models) =>
      this.#control.setModels(models),
    );
    this.#orders = orders;
    this.#follower = new OrderFollower(
      {
        environment,
        orders,
        realPath: (name) => storage.realPath(name),
        apply: (models) => this.#watchModels(models),
        onChange: () => this.#announcer.changed(),
      },
      { ...settings.replacement, own: settings.models },
    );
  }

  /** host:port that routers connect to. */
  get address(): string {
    return this.#address;
  }

  /**
   * Whether the first assignment is loaded or refused with a reason, no drain has begun, and no other process
   * runs as this worker.
   */
  get isReady(): boolean {
    const isInCharge = !this.#isDraining && !this.#isClosed && !this.#identity.isSuperseded;
    return this.#isStarted && isInCharge;
  }

  /** Resolves when the first assignment is loaded or refused with a reason. */
  get started(): Promise<void> {
    return this.#started;
  }

  /** Resolves when the worker has closed, with the reason if its compute side died. */
  get ended(): Promise<ComputeFailure | undefined> {
    return this.#ended;
  }

  /** What this worker announces, as of now. */
  announcement(): Announcement {
    const { device, memory } = this.#compute;
    const running = this.#isStarted ? "ready" : "starting";
    return {
      workerId: this.#settings.workerId,
      incarnation: this.#identity.incarnation,
      address: this.#address,
      state: this.#isDraining ? "draining" : running,
      accelerator: device.accelerator,
      device: device.device,
      memoryUsedBytes: memory.usedBytes,
      memoryCapacityBytes: memory.capacityBytes,
      versions: this.#control.holdings(),
      order: this.#follower.followed,
      release: this.#settings.release,
      placement: this.#settings.placement,
      machine: this.#settings.machine,
    };
  }

  /** The worker's present state, for metrics. */
  status(): WorkerStatus {
    const { queueRows } = this.#answers;
    const { isStalled } = this.#progress;
    const assignments = this.#control.assignments();
    const { isSuperseded } = this.#identity;
    const askedAccelerator = this.#settings.device.kind;
    return {
      announcement: this.announcement(),
      askedAccelerator,
      queueRows,
      isStalled,
      isSuperseded,
      assignments,
      orderNumbers: this.#follower.numbers,
    };
  }

  /**
   * Replaces the models that this worker was given by name: new ones are loaded, missing ones unloaded,
   * policies change. A version that is the default is given up only once its successor answers. While a
   * models order is in force, these models wait until it is withdrawn.
   */
  setModels(models: readonly NamedModel[]): void {
    this.#follower.setOwn(models);
  }

  followOrder(message: OrderMessage): Promise<void> {
    return this.#follower.take(message);
  }

  knownOrder(): string | undefined {
    return this.#orders.signed();
  }

  /**
   * Begins a drain on a signed order.
   * @throws WinnowError as `OrderBook.readDrain`; PERMISSION_DENIED where nobody vouches for the order;
   * FAILED_PRECONDITION where another process is meant
   */
  drainOnOrder({ signed, isFromMember }: ReceivedDrain): void {
    const { workerId, incarnation, isProven } = this.#orders.readDrain(signed);
    const { log } = this.#environment;
    if (!isProven && !isFromMember) {
      const ways = "signed with the cluster's secret, over TLS between members, or on loopback";
      throw new WinnowError(
        "PERMISSION_DENIED",
        `Orders to drain are taken ${ways}; SIGTERM to the process does the same`,
      );
    }
    const own = { workerId: this.#settings.workerId, incarnation: this.#identity.incarnation };
    if (workerId !== own.workerId || incarnation !== own.incarnation) {
      const text = `This is worker ${own.workerId}, incarnation ${own.incarnation}, not the one that the order means`;
      throw new WinnowError("FAILED_PRECONDITION", text);
    }
    if (this.#isDraining || this.#isClosed) return;
    log.info("drain ordered", own);
    this.#onDrainOrder();
  }

  #watchModels(models: readonly NamedModel[]): void {
    this.#isWatching = true;
    this.#watch.setModels(modelLocations(models, this.#settings.watch.policy));
  }

  /** Listens, announces itself and begins to load. */
  async listen(): Promise<void> {
    const { host, port } = this.#settings;
    const environment = this.#environment;
    await Promise.all([this.#identity.start(), this.#orders.open()]);
    this.#server = await this.#listen({ service: this, environment }, { host, port });
    this.#address = advertisedAddressOf(this.#settings, this.#server.port);
    this.#compute.onFailure((failure) => void this.#die(failure));
    this.#announcer.changed();
    this.#stopWatching = this.#membership.watch((view) => {
      this.#identity.onView(view);
      this.#members.setView(view);
      this.#control.setView(view);
    });
    await this.#follower.start();
    // Never rejects: a look that fails keeps the last finding.
    if (!this.#isWatching) void this.#watch.run();
    const { workerId, incarnation, address, accelerator, device } = this.announcement();
    const fields = { workerId, incarnation, address, accelerator, device };
    environment.log.info("worker listening", fields);
  }

  /** Serves a router's stream. */
  accept(link: WorkerLink): LinkHandlers {
    this.#announcer.addLink(link);
    this.#members.addLink(link);
    const handlers = this.#answers.serve(link);
    return {
      ...handlers,
      onQueries: (queries) => {
        handlers.onQueries(queries);
        this.#progress.noteWork();
      },
      onPing: (sequence, wantsHeard, inDoubt) => {
        if (inDoubt) this.#membership.doubt?.();
        const { progress } = this.#compute;
        const { queueRows, scanCounts: scans } = this.#answers;
        const heard = wantsHeard ? this.#membership.heard?.() : undefined;
        const stalled = this.#progress.isStalled;
        link.pong({ sequence, queueRows, progress, stalled, scans, ...(heard && { heard }) });
      },
      onPredecessor: (predecessor) => this.#identity.onPredecessor(predecessor),
      onClose: () => {
        this.#announcer.removeLink(link);
        this.#members.removeLink(link);
        handlers.onClose();
      },
    };
  }

  /** The program of a held version. @throws WinnowError NOT_FOUND */
  async program({ version, tableBytesMax }: ProgramQuery): Promise<Uint8Array> {
    const held = this.#control.find(version);
    const opened = held === undefined ? undefined : openedOf(held);
    if (opened === undefined) {
      const message = `Version ${version.version} of this model and content is not held here`;
      throw new WinnowError("NOT_FOUND", message);
    }
    return this.#compute.program(opened.handle, tableBytesMax);
  }

  /**
   * Leaves without losing a request (I5): announces the drain, answers until others cover its partitions
   * (bounded), sends routers away, finishes their queries, leaves membership, closes.
   */
  drain(): Promise<void> {
    this.#drained ??= this.#isClosed ? Promise.resolve() : this.#drain();
    return this.#drained;
  }

  async #drain(): Promise<void> {
    const { clock, log } = this.#environment;
    const startedAtMs = clock.nowMs();
    this.#isDraining = true;
    this.#control.drain();
    this.#announcer.flush();
    this.#updateHealth();
    log.info("drain began", { workerId: this.#settings.workerId });
    const count = (await waitForHold(clock, () => this.#hold(startedAtMs)))?.uncovered ?? 0;
    if (count > 0) log.warn("drained uncovered partitions", { count });
    if (!this.#isClosed) await this.#server?.drain(this.#settings.drain.drainGraceMs);
    await this.close();
    log.info("drain ended", { elapsedMs: Math.round(clock.nowMs() - startedAtMs) });
  }

  #hold(startedAtMs: number): DrainHold | undefined {
    return this.#isClosed ? undefined : this.#control.drainHold(startedAtMs, this.#settings.drain);
  }

  /** Ends everything at once: routers see their streams end and ask other replicas. */
  async close(): Promise<void> {
    if (this.#isClosed) return;
    this.#isClosed = true;
    this.#stop();
    await this.#withdraw();
    await this.#compute.shutdown();
    this.#end(undefined);
  }

  #stop(): void {
    this.#watch.close();
    this.#follower.close();
    this.#stopWatching?.();
    this.#control.close();
    this.#progress.close();
    this.#identity.close();
    this.#announcer.close();
    this.#announcer.closeLinks();
    this.#server?.close();
  }

  /** Ends the worker, to be restarted: nothing can be answered without a compute side. */
  async #die(failure: ComputeFailure): Promise<void> {
    if (this.#isClosed) return;
    this.#isClosed = true;
    const { clock, log } = this.#environment;
    const { lost, error } = failure;
    log.error("worker failed", { lost, code: error.code, message: error.message });
    this.#updateHealth();
    this.#answers.fail(error);
    // Queries under way have failed as well: their replies must leave before the streams end.
    await sleep(clock, 0);
    this.#announcer.closeLinks();
    await sleep(clock, 0);
    this.#stop();
    await this.#withdraw();
    this.#end(failure);
  }

  /** A superseded worker withdraws nothing: the record in the store is its successor's. */
  async #withdraw(): Promise<void> {
    if (!this.#identity.isSuperseded) await this.#announcer.withdraw();
  }

  #identityChanged(): void {
    if (this.#isClosed) return;
    this.#updateHealth();
    this.#announcer.flush();
    this.#updateLease();
  }

  /** The lease is renewed only while there is progress and no other process runs as this worker. */
  #updateLease(): void {
    this.#announcer.suspend(this.#progress.isStalled || this.#identity.isSuperseded);
  }

  #changed(): void {
    if (!this.#isStarted && this.#control.isSettled) {
      this.#isStarted = true;
      this.#start();
      this.#environment.log.info("worker ready", { workerId: this.#settings.workerId });
    }
    this.#updateHealth();
    this.#announcer.changed();
  }

  #stalled(stalled: boolean): void {
    const { log } = this.#environment;
    if (stalled) log.error("compute thread stands still", { queueRows: this.#answers.queueRows });
    else log.info("compute thread works again", {});
    this.#updateLease();
  }

  #updateHealth(): void {
    this.#server?.setHealth({ started: this.#isStarted, ready: this.isReady });
  }
}
