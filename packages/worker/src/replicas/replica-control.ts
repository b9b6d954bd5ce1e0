// Keeps what this worker holds in step with what it should hold. Decisions are made from one state
// (`replica-set.ts`) and from the latest directories, membership view and drain.
//
//   directories, views, ends of work ──▶ state ──▶ verdicts ──▶ defaults ──▶ plan ──▶ next state
//                                          ▲                                  │
//                                          └───── the end of each effect ◀── effects
//
// Level-triggered: every change leads to a new plan from the whole state, so no missed or repeated event can
// leave it stuck.

import { isObjectUrl } from "@winnow/core";
import type { Clock, Environment, Timer, VersionKey, WorkerId } from "@winnow/core";
import type {
  Announcement,
  Describe,
  MembershipView,
  Replication,
  VersionHolding,
} from "@winnow/cluster";

import { ClusterView, holdersAmong } from "./cluster-view.ts";
import type { Holders } from "./cluster-view.ts";
import { drainHold } from "./drain/drain-hold.ts";
import type { DrainHold, DrainSettings } from "./drain/drain-hold.ts";
import { GrowthTargets } from "./growth-targets.ts";
import { HolderQuestions } from "./holder-questions.ts";
import { LoadLog } from "./load-log.ts";
import { holdingsOf, isSettled } from "./replica-announcement.ts";
import { planReplicas } from "./plan/replica-plan.ts";
import type { ReplicaEffect } from "./plan/replica-plan.ts";
import {
  applyEvent,
  contentsOfModel,
  emptyReplicaSet,
  heldAs,
  heldContent,
  isFailed,
  isHeldAs,
  isOnFewerWorkers,
  isServing,
  openedOf,
} from "./replica-set.ts";
import type { HeldVersion, ReplicaEvent, ReplicaSet, RetrySettings } from "./replica-set.ts";
import { assignmentStatusOf, isLoading } from "./assignment.ts";
import type { Intent } from "./assignment.ts";
import { performEffect } from "./replica-work.ts";
import type { ReplicaWork } from "./replica-work.ts";
import { hasServedWithin, withServing } from "./serving-versions.ts";
import { givesWay, withSwaps } from "./version-swaps.ts";
import { isServingLeft, wantedVersions } from "../models/version-policy.ts";
import type { VersionChoice } from "../models/version-policy.ts";
import { verdictsOn } from "./proof/version-proof.ts";
import type { FoundModel } from "../models/version-watch.ts";
import type { AssignmentStatus, WorkerObserver } from "../worker-observer.ts";
import type { FoundVersion } from "../models/directory-stillness.ts";
import type { GraceSettings, ReplicaFacts, WantedVersion } from "./plan/replica-facts.ts";

/** How this worker keeps its replicas. */
export interface ReplicaSettings extends GraceSettings, RetrySettings, Replication {
  readonly workerId: WorkerId;
  /** The part of the device's memory that replicas beyond the intended ones may occupy: 0…1. */
  readonly extraMemoryRatio: number;
  /** Loads whose rows are up to so many bytes together are small: many of them run at once. */
  readonly smallLoadsBytes: number;
  /** Loading begins once the list of workers has not changed for this long. */
  readonly placementQuietMs: number;
}

/** What the control needs. */
export interface ReplicaDependencies extends ReplicaWork {
  readonly environment: Environment;
  /** Gives this worker's announcement as of now, for the choice of the default version. */
  readonly announcement: () => Announcement;
  /**
   * Asks a worker itself what it holds, before replicas are given up for it. `undefined`: the announcements of the
   * view are what the workers themselves have said.
   */
  readonly describe: Describe | undefined;
  /** Called after every change of what is held. */
  readonly onChange: () => void;
  readonly observer?: WorkerObserver | undefined;
}

/** Holdings, and all that they are derived from. */
interface ToldHoldings {
  readonly set: ReplicaSet;
  readonly view: MembershipView | undefined;
  readonly isDraining: boolean;
  readonly holdings: readonly VersionHolding[];
}

/** A step that took longer than this is followed by a rest, in which views and ends of loads wait for each other. */
const LONG_STEP_MS = 2;
/** The rest, in times of the step; and ms at most. */
const REST_FACTOR = 9;
const REST_MS_MAX = 1000;
/** Opens are asked for at once while they take this long together, going by the last one; and at most so many. */
const OPENS_MS = 2000;
const OPENS_AT_ONCE_MAX = 16;
const UNPLACED_WAIT_MAX_MS = 5000;
const SERVING_INTERVAL_MS = 100;

/** Holds replicas until closed. */
export class ReplicaControl {
  readonly #dependencies: ReplicaDependencies;
  readonly #settings: ReplicaSettings;
  readonly #clock: Clock;
  readonly #cluster: ClusterView;
  readonly #loadLog: LoadLog;
  readonly #questions: HolderQuestions | undefined;
  /** Workers that the plan waits for, and those that the drain waits for. */
  #unheard: ReadonlySet<WorkerId> = new Set();
  #unmet: ReadonlySet<WorkerId> = new Set();
  #set: ReplicaSet = emptyReplicaSet;
  readonly #growth = new GrowthTargets();
  #models: readonly FoundModel[] | undefined;
  #quietAtMs = 0;
  /** Until when default versions need not be derived again while partitions are being loaded. */
  #servingUntilMs = 0;
  /** When to warn that no partition is placed here; `Infinity`: some are, or the warning was logged. */
  #unplacedUntilMs: number;
  /** Workers that cut tables into another number of partitions and were already logged for it. */
  readonly #cutsTold = new Set<WorkerId>();
  /** Workers that make other tables of the same files and were already logged for it. */
  readonly #readersTold = new Set<WorkerId>();
  /** Whether it was logged that an announcement does not take all versions. */
  #isExcessTold = false;
  /** The holdings that were last derived for announcements, and the state from which they were derived. */
  #told: ToldHoldings | undefined;
  #isDraining = false;
  #isClosed = false;
  #wake: Timer | undefined;
  /** Effects that have not ended. */
  #underWay = 0;
  /** The end of the last open that was asked for, and how long the last one took that has ended. */
  #lastOpen: Promise<unknown> = Promise.resolve();
  #openMs = Infinity;
  /** The end of the rest after a long step. Changes that come before it wait for `#restTimer`. */
  #restUntilMs = 0;
  #restTimer: Timer | undefined;

  constructor(dependencies: ReplicaDependencies, settings: ReplicaSettings) {
    this.#dependencies = dependencies;
    this.#settings = settings;
    this.#clock = dependencies.environment.clock;
    this.#unplacedUntilMs = this.#clock.nowMs() + UNPLACED_WAIT_MAX_MS;
    this.#cluster = new ClusterView(settings);
    this.#loadLog = new LoadLog(dependencies.environment, dependencies.observer);
    const { environment, describe } = dependencies;
    this.#questions =
      describe &&
      new HolderQuestions({
        environment,
        describe,
        announced: (id) => this.#cluster.announced(id),
        onAnswer: () => this.#stepAfterRest(),
      });
  }

  /** What this worker holds. */
  get set(): ReplicaSet {
    return this.#set;
  }

  /** The default version of each model, as this worker derives it. */
  get serving(): ReadonlyMap<string, VersionKey> {
    return this.#set.serving;
  }

  /** What to announce of all versions. */
  holdings(): readonly VersionHolding[] {
    const known = this.#told;
    const [set, view, isDraining] = [this.#set, this.#cluster.view, this.#isDraining];
    const isSame = known?.set === set && known.view === view && known.isDraining === isDraining;
    if (isSame) return known.holdings;
    const holdings = holdingsOf(set, this.#intent(), (held) => this.#isServed(held));
    this.#told = { set, view, isDraining, holdings };
    return holdings;
  }

  /** How far each version is loaded. */
  assignments(): AssignmentStatus[] {
    const intent = this.#intent();
    return [...this.#set.versions.values()].map((held) => assignmentStatusOf(held, intent));
  }

  /** Whether the directories are read and each assignment is loaded or refused with a reason. */
  get isSettled(): boolean {
    if (this.#models === undefined || !this.#cluster.isPlaced) return false;
    if (!isSettled(this.#set, this.#intent())) return false;
    return this.#wanted(this.#models).every(
      ({ model, found }) => heldAs(this.#set, { model, ...found }) !== undefined,
    );
  }

  /** The open content of exactly this number and fingerprint, or `undefined`. */
  find(key: VersionKey): HeldVersion | undefined {
    return heldContent(this.#set, key);
  }

  /** Whether a drain that began at `startedAtMs` may go on and send routers away. */
  drainHold(startedAtMs: number, settings: DrainSettings): DrainHold {
    const nowMs = this.#clock.nowMs();
    const unmet = new Set<WorkerId>();
    const met = (holders: Holders): Holders => this.#metOf(holders, unmet);
    const hold = drainHold({
      nowMs,
      startedAtMs,
      settings,
      others: this.#cluster.others,
      absent: this.#cluster.absent,
      coveredSinceMs: this.#set.coveredSinceMs,
      holdings: this.holdings(),
      ownersOf: (version, table) => this.#ownersOf(version, table),
      answerersOf: (version, table) => met(this.#cluster.answerersOf(version, table)),
      lastAnswerersOf: (version, table) => met(this.#cluster.lastAnswerersOf(version, table)),
      servedLately: (version) =>
        hasServedWithin(this.#set, version, { ms: this.#settings.versionGraceMs, nowMs }),
      isComplete: (version) => this.#isComplete(version),
      isFollower: (version) => this.#isFollower(version),
    });
    this.#set = { ...this.#set, coveredSinceMs: hold.coveredSinceMs };
    this.#unmet = unmet;
    this.#ask();
    return hold;
  }

  /** Those of the announced holders that have ever answered; adds those of partitions that have none to `unmet`. */
  #metOf(holders: Holders, unmet: Set<WorkerId>): Holders {
    const questions = this.#questions;
    if (questions === undefined) return holders;
    const found = new Map<number, ReadonlyMap<WorkerId, readonly number[]>>();
    for (const [partition, byWorker] of holders) {
      const met = new Map([...byWorker].filter(([worker]) => questions.hasMet(worker)));
      if (met.size > 0) found.set(partition, met);
      else for (const worker of byWorker.keys()) unmet.add(worker);
    }
    return found;
  }

  #ask(): void {
    this.#questions?.ask(new Set([...this.#unheard, ...this.#unmet]));
  }

  setModels(models: readonly FoundModel[]): void {
    this.#models = models;
    this.#servingUntilMs = 0;
    this.#step();
  }

  setView(view: MembershipView): void {
    const isMoved = this.#cluster.update(view);
    this.#servingUntilMs = 0;
    if (isMoved) this.#quietAtMs = this.#clock.nowMs() + this.#settings.placementQuietMs;
    this.#stepAfterRest();
  }

  /**
   * Takes a step at once, or at the end of the rest that follows a long step. A step goes through all versions,
   * which takes milliseconds with a hundred of them, and every announcement of every worker and every loaded
   * partition asks for one. Changes that come during a rest share the next step.
   */
  #stepAfterRest(): void {
    const restMs = this.#restUntilMs - this.#clock.nowMs();
    if (restMs <= 0) this.#step();
    else this.#restTimer ??= this.#clock.setTimer(restMs, () => this.#step());
  }

  /** From now on nothing is loaded or given up. */
  drain(): void {
    this.#isDraining = true;
    this.#step();
  }

  close(): void {
    this.#isClosed = true;
    if (this.#wake !== undefined) this.#clock.clearTimer(this.#wake);
    if (this.#restTimer !== undefined) this.#clock.clearTimer(this.#restTimer);
    this.#questions?.close();
  }

  /** Plans from the whole state and starts what the plan says. */
  #step(): void {
    if (this.#isClosed) return;
    if (this.#restTimer !== undefined) this.#clock.clearTimer(this.#restTimer);
    this.#restTimer = undefined;
    const models = this.#models ?? [];
    const startedMs = this.#clock.nowMs();
    this.#prove();
    // The whole step uses one reading of the clock. With two readings, a time that is still ahead for the
    // plan could be past for the timer, which would then never be set for it.
    const nowMs = this.#clock.nowMs();
    this.#updateServing(models, nowMs);
    this.#updateGrowth(models, nowMs);
    this.#updateSwaps(models, nowMs);
    const plan = planReplicas(this.#set, this.#facts(models, nowMs));
    this.#loadLog.noteRefusals(this.#set, plan.set);
    this.#set = plan.set;
    this.#wakeAt(plan.wakeAtMs, nowMs);
    for (const effect of plan.effects) void this.#run(effect);
    this.#unheard = plan.unheard;
    this.#ask();
    this.#warnUnplaced(nowMs);
    this.#warnExcess();
    this.#warnCuts();
    this.#dependencies.onChange();
    const endedMs = this.#clock.nowMs();
    const tookMs = endedMs - startedMs;
    const restMs = tookMs > LONG_STEP_MS ? Math.min(REST_MS_MAX, REST_FACTOR * tookMs) : 0;
    this.#restUntilMs = endedMs + restMs;
  }

  /** Checks whether versions that are complete here add up, before the plan relies on them. */
  #prove(): void {
    const { announcement } = this.#dependencies;
    const facts = { cluster: this.#cluster, intent: this.#intent(), announcement };
    for (const event of verdictsOn(this.#set, facts)) this.#apply(event);
  }

  /**
   * Derives the default versions again. Deriving reads every announcement, so while partitions are loaded one
   * after the other it is done after `SERVING_INTERVAL_MS`, or when its inputs have changed.
   */
  #updateServing(models: readonly FoundModel[], nowMs: number): void {
    const mayWait = [...this.#set.versions.values()].some(isLoading);
    if (mayWait && nowMs < this.#servingUntilMs) return;
    const before = this.#set;
    this.#set = withServing(before, {
      cluster: this.#cluster,
      models: models.map(({ model }) => model),
      own: this.#dependencies.announcement(),
      nowMs,
      formerMs: this.#settings.versionGraceMs,
    });
    this.#loadLog.noteServing(before, this.#set);
    this.#servingUntilMs = nowMs + SERVING_INTERVAL_MS;
  }

  #updateGrowth(models: readonly FoundModel[], nowMs: number): void {
    const isServed = (held: HeldVersion): boolean => this.#isServed(held);
    this.#growth.update(models, { set: this.#set, others: this.#cluster.others, nowMs, isServed });
  }

  #updateSwaps(models: readonly FoundModel[], nowMs: number): void {
    const isPossible = models.some(({ model }) => this.#cluster.hasFewerReplicas(model));
    const wanted = isPossible ? this.#named(models) : [];
    const { workerId } = this.#settings;
    const [cluster, draining] = [this.#cluster, this.#isDraining];
    this.#set = withSwaps(this.#set, { cluster, models, wanted, workerId, nowMs, draining });
  }

  #wakeAt(timeMs: number, nowMs: number): void {
    const others = [this.#quietAtMs, this.#unplacedUntilMs].filter((each) => each > nowMs);
    const dueMs = Math.min(timeMs, ...others);
    if (this.#wake !== undefined) this.#clock.clearTimer(this.#wake);
    this.#wake =
      dueMs === Infinity ? undefined : this.#clock.setTimer(dueMs - nowMs, () => this.#step());
  }

  /** An id that is missing in the list of members is a common mistake, and such a worker idles. */
  #warnUnplaced(nowMs: number): void {
    if (this.#cluster.isPlaced || this.#isDraining) this.#unplacedUntilMs = Infinity;
    if (nowMs < this.#unplacedUntilMs) return;
    this.#unplacedUntilMs = Infinity;
    const { workerId } = this.#settings;
    const { log } = this.#dependencies.environment;
    log.warn(
      "no partitions are placed on this worker: --members must list its id, or Redis must answer",
      { workerId },
    );
  }

  /** Routers ask only for what is announced. */
  #warnExcess(): void {
    const { size: versions } = this.#set.versions;
    const announced = this.holdings().length;
    const isExcess = versions > announced;
    if (isExcess && !this.#isExcessTold) {
      this.#dependencies.environment.log.error(
        "more versions than a worker announces: the others are not served; remove models or old versions",
        { versions, announced },
      );
    }
    this.#isExcessTold = isExcess;
  }

  /**
   * Warns of workers that cut a table into another number of partitions, or that run another release and make
   * other tables of the same files: what they hold does not count here, so the version would never be
   * complete.
   */
  #warnCuts(): void {
    for (const held of this.#set.versions.values()) {
      const opened = openedOf(held);
      if (opened === undefined) continue;
      const { model, version } = held;
      const key = { model, version, fingerprint: opened.fingerprint };
      for (const { worker, table, partitions, own } of this.#cluster.otherCutsOf(key, opened)) {
        if (this.#cutsTold.has(worker)) continue;
        this.#cutsTold.add(worker);
        this.#dependencies.environment.log.error(
          "another worker cuts tables differently: give all workers the same --partition-bytes",
          { worker, model, version, table, partitions, ownPartitions: own },
        );
      }
      for (const { workerId: worker, release } of this.#cluster.otherReadersOf(key)) {
        if (this.#readersTold.has(worker)) continue;
        this.#readersTold.add(worker);
        this.#dependencies.environment.log.warn(
          "another worker makes other tables of the same files: finish the upgrade, or give all workers one release",
          { worker, release, model, version },
        );
      }
    }
  }

  #facts(models: readonly FoundModel[], nowMs: number): ReplicaFacts {
    const { usedBytes, capacityBytes } = this.#dependencies.compute.memory;
    return {
      nowMs,
      ...this.#intentions(),
      wanted: this.#wanted(models),
      copying: this.#copying(models),
      isComplete: (version) => this.#isComplete(version),
      announcedHolders: (version, table) => this.#cluster.holdersOf(version, table),
      heardHolders: this.#heardHolders(),
      placed: this.#cluster.isPlaced && nowMs >= this.#quietAtMs,
      freeBytes: capacityBytes - usedBytes,
      capacityBytes,
      extraMemoryRatio: this.#settings.extraMemoryRatio,
      smallLoadsBytes: this.#settings.smallLoadsBytes,
      sharesMemory: (model) => this.#cluster.hasFewerReplicas(model),
      fewerReplicas: (model, opened) => this.#cluster.intendedOf(model, opened, true),
      opensAtOnce: Math.min(OPENS_AT_ONCE_MAX, Math.max(1, Math.floor(OPENS_MS / this.#openMs))),
      hasExtras: (model) => this.#settings.modelReplication?.has(model) !== true,
      draining: this.#isDraining,
      grace: this.#settings,
    };
  }

  /** Who has lately said itself what it holds, for one decision. */
  #heardHolders(): ReplicaFacts["heardHolders"] {
    const heard = this.#questions?.answers();
    if (heard === undefined) return (version, table) => this.#cluster.holdersOf(version, table);
    const known = new Map<string, Holders>();
    return (version, table) => {
      const key = `${version.model}\n${version.version}\n${version.fingerprint}\n${table}`;
      const holders = known.get(key) ?? holdersAmong(heard, { version, table });
      known.set(key, holders);
      return holders;
    };
  }

  #isComplete(version: VersionKey): boolean {
    return this.#cluster.isComplete(version, this.#dependencies.announcement());
  }

  #intent(): Intent | undefined {
    return this.#cluster.isPlaced || this.#isDraining ? this.#intentions() : undefined;
  }

  #intentions(): Intent {
    return {
      workerId: this.#settings.workerId,
      intendedOwners: (version, table) => this.#ownersOf(version, table),
      intendedReplicas: (version, opened) =>
        this.#cluster.intendedOf(version.model, opened, this.#isOnFewer(version)),
    };
  }

  #ownersOf(version: VersionKey, table: number): readonly (readonly WorkerId[])[] {
    const held = heldContent(this.#set, version);
    const opened = held === undefined ? undefined : openedOf(held)?.tables[table];
    if (opened === undefined) return [];
    return this.#cluster.ownersOf(version.model, opened, this.#isOnFewer(version));
  }

  #isFollower(version: VersionKey): boolean {
    const held = heldContent(this.#set, version);
    return held !== undefined && this.#set.swaps.get(held.model)?.followers.has(held.id) === true;
  }

  #isOnFewer(version: VersionKey): boolean {
    const held = heldContent(this.#set, version);
    return held !== undefined && isOnFewerWorkers(this.#set, held);
  }

  /** The wanted versions without those that give way to the default one. */
  #wanted(models: readonly FoundModel[]): WantedVersion[] {
    return this.#named(models).filter(({ model, found }) => {
      const held = heldAs(this.#set, { model, ...found });
      return held === undefined || !givesWay(this.#set, held) || this.#isServed(held);
    });
  }

  /** The versions to hold: default versions of all models first, then by model, from new to old. */
  #named(models: readonly FoundModel[]): WantedVersion[] {
    const wanted = models.flatMap(({ model, policy, versions }) => {
      const serving = this.serving.get(model);
      const asHeld = versions.map((found) => this.#growth.of(model, found));
      const byNumber = new Map(asHeld.map((found) => [found.version, found]));
      const choice = this.#choiceOf(model, [...byNumber.keys()]);
      const isLeft = isServingLeft(policy, choice);
      return wantedVersions(policy, choice).flatMap((version) => {
        const found = byNumber.get(version);
        const isServing = version === serving?.version;
        if (found === undefined) return [];
        // A version that is being left is not loaded again from files that replaced its own.
        if (isServing && isLeft && !this.#isContent(serving, found)) return [];
        return [{ model, found, isServing, isLeft: isServing && isLeft }];
      });
    });
    return wanted.toSorted((a, b) => Number(b.isServing) - Number(a.isServing));
  }

  /** Directories that would be wanted if their files did not still change. */
  #copying(models: readonly FoundModel[]): ReplicaFacts["copying"] {
    return models.flatMap(({ model, policy, versions, copying }) => {
      const numbers = [...versions, ...copying].map(({ version }) => version);
      const choice = this.#choiceOf(model, [...new Set(numbers)]);
      const wanted = new Set(wantedVersions(policy, choice));
      return copying.flatMap((found) => (wanted.has(found.version) ? [{ model, found }] : []));
    });
  }

  #choiceOf(model: string, available: readonly number[]): VersionChoice {
    const serving = this.serving.get(model)?.version;
    const servedElsewhere = this.#cluster.servedElsewhere(model);
    return { available, failed: this.#failed(model), serving, servedElsewhere };
  }

  /** Whether a directory, as it is now, holds this content. */
  #isContent(key: VersionKey, found: FoundVersion): boolean {
    const held = heldContent(this.#set, key);
    return held !== undefined && isHeldAs(held, { model: key.model, ...found });
  }

  /** Whether a content is the default, as this worker derives it or as another worker announces. */
  #isServed(held: HeldVersion): boolean {
    const fingerprint = openedOf(held)?.fingerprint;
    if (fingerprint === undefined) return false;
    const { model, version } = held;
    const key = { model, version, fingerprint };
    return isServing(this.#set, key) || this.#cluster.isServedElsewhere(key);
  }

  #failed(model: string): ReadonlySet<number> {
    const isServed = (held: HeldVersion): boolean => this.#isServed(held);
    const here = contentsOfModel(this.#set, model).filter((held) => isFailed(held, isServed));
    return new Set([
      ...here.map(({ version }) => version),
      ...this.#cluster.failedElsewhere(model),
    ]);
  }

  async #run(effect: ReplicaEffect): Promise<void> {
    this.#underWay += 1;
    const event = await this.#perform(effect);
    this.#underWay -= 1;
    if (this.#isClosed) return;
    this.#apply(event);
    // While other effects are under way, the compute side has something to do.
    if (this.#underWay > 0) this.#stepAfterRest();
    else this.#step();
  }

  #perform(effect: ReplicaEffect): Promise<ReplicaEvent> {
    // Opens of an object store wait beside each other.
    if (effect.kind !== "open" || isObjectUrl(effect.from.directory)) {
      return performEffect(this.#dependencies, effect);
    }
    const askedAtMs = this.#clock.nowMs();
    const end = this.#lastOpen.then(async (): Promise<ReplicaEvent> => {
      const startedMs = this.#clock.nowMs();
      // Those before it took longer than was thought: what is open by now is loaded first.
      const isLate = startedMs - askedAtMs > OPENS_MS;
      if (isLate || this.#isClosed) return { kind: "openPostponed", id: effect.id };
      const event = await performEffect(this.#dependencies, effect);
      this.#openMs = this.#clock.nowMs() - startedMs;
      return event;
    });
    this.#lastOpen = end;
    return end;
  }

  #apply(event: ReplicaEvent): void {
    const before = this.#set.versions.get(event.id);
    const context = { nowMs: this.#clock.nowMs(), settings: this.#settings };
    this.#set = applyEvent(this.#set, event, context);
    const held = this.#set.versions.get(event.id) ?? before;
    if (held !== undefined) this.#loadLog.note(event, held, this.#intent());
  }
}
