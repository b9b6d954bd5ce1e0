// One question to one replica of each of its partitions, on one generation of the routing table: asks, waits,
// hedges, retries on other replicas, and gives the answers or the partitions that this generation cannot
// answer for. `slot.ts` has the rules by which a slot is answered.

import { setGraceTimer, toWinnowError, WinnowError } from "@winnow/core";
import type { Clock, Environment, TraceSpan, WorkerId } from "@winnow/core";
import type { Asked, WorkerAnswer, WorkerAsk, WorkerReply } from "@winnow/cluster";
import type { HedgeProbes } from "./hedging/hedge-probes.ts";
import type { RetryBudget } from "./hedging/retry-budget.ts";
import { areAllLate, hedgeDelayMs, othersOf, waitForBusyMs } from "./hedging/hedge-delay.ts";
import type { PlanRotation } from "./plan-rotation.ts";
import { chooseReplicas } from "./replica-choice.ts";
import type { RouterObserver, SecondAttempt } from "../router-observer.ts";
import type { RouterSettings } from "../router-settings.ts";
import type { ScatterAttempt, ScatterResult, TableQuestion } from "./scatter-question.ts";
import type { PartialAnswer, Slot } from "./slot.ts";
import {
  answerSlot,
  dropSlot,
  isAnswered,
  openSlot,
  settleBySuccessors,
  stopWaiting,
  triedFor,
} from "./slot.ts";
import type { WorkerPeer } from "../workers/worker-peer.ts";

/** What a scatter needs of the router. */
export interface ScatterParts {
  readonly environment: Environment;
  readonly settings: RouterSettings;
  readonly peers: ReadonlyMap<WorkerId, WorkerPeer>;
  readonly budget: RetryBudget;
  readonly probes: HedgeProbes;
  readonly observer: RouterObserver;
  /** Counts searches: each uses the next plan of its table. */
  readonly rotation: PlanRotation;
  /** While slices wait, every replica is busy, and a hedge would only add load. */
  readonly limiter: { readonly waiting: number };
}

/**
 * Asks one replica of each partition of the question. Resolves with the answers, with the partitions that this
 * generation cannot answer for, or with the error of a question that workers refuse.
 * @throws the signal's reason when aborted; all questions under way are then cancelled
 */
export function scatter(
  parts: ScatterParts,
  question: TableQuestion,
  attempt: ScatterAttempt,
): Promise<ScatterResult> {
  const { signal } = question;
  return new Promise((resolve, reject) => {
    if (signal.aborted) return reject(signal.reason);
    const abort = (): void => {
      run.drop();
      reject(signal.reason);
    };
    const run = new Scatter(parts, { question, attempt }, (result) => {
      signal.removeEventListener("abort", abort);
      resolve(result);
    });
    signal.addEventListener("abort", abort, { once: true });
    run.start();
  });
}

/**
 * Why a worker is asked: first; as a second attempt that may double the work (a hedge, or a retry while the
 * worker asked before may still compute); or again because the first question can have no answer any more.
 * First and second attempts are counted, and the budget bounds the second ones. A question that is asked
 * again replaces one that is over, so it adds no load, and is bounded by its request (`lostWorkersMax`,
 * `replansMax`).
 */
type AttemptKind = "first" | SecondAttempt | "again";

/** Failures that prove that a worker has done nothing for a question and never will. */
const UNANSWERED: ReadonlySet<string> = new Set(["DISCONNECTED", "NOT_OWNER", "NO_VERSION"]);

class Scatter {
  readonly #parts: ScatterParts;
  readonly #question: TableQuestion;
  readonly #attempt: ScatterAttempt;
  readonly #resolve: (result: ScatterResult) => void;
  readonly #plan: number;
  #roots: readonly Slot[] = [];
  #reason = "no replica";
  /** Whether some worker may have computed without giving an answer: another plan is then a second attempt. */
  #isCostly = false;
  #ended = false;

  constructor(
    parts: ScatterParts,
    { question, attempt }: { readonly question: TableQuestion; readonly attempt: ScatterAttempt },
    resolve: (result: ScatterResult) => void,
  ) {
    this.#parts = parts;
    this.#question = question;
    this.#attempt = attempt;
    this.#resolve = resolve;
    const { rows, dim } = attempt.table.spec;
    this.#plan = question.planned ? parts.rotation.next(rows * dim) : 0;
  }

  start(): void {
    this.#roots = this.#launch(this.#question.partitions, undefined, this.#attempt.kind);
    this.#endIfSettled();
  }

  /** Cancels all questions; nothing is reported any more. */
  drop(): void {
    this.#ended = true;
    for (const slot of this.#roots) dropSlot(slot);
  }

  /** Asks one replica of each partition; if one refuses, the next. Some partitions may remain unasked. */
  #launch(
    partitions: readonly number[],
    parent: Slot | undefined,
    kind: AttemptKind,
  ): readonly Slot[] {
    const { peers, environment } = this.#parts;
    const { planned } = this.#question;
    const { table, lives } = this.#attempt;
    const slots: Slot[] = [];
    const avoided = triedFor(parent);
    let wanted = partitions;
    while (wanted.length > 0 && !this.#ended) {
      const { groups } = chooseReplicas(
        { peers, random: environment.random },
        { table, lives, planned, partitions: wanted, avoided, plan: this.#plan },
      );
      const refused: number[] = [];
      for (const [peer, group] of groups) {
        const slot = openSlot(peer, group, parent);
        if (this.#ask(slot, kind)) slots.push(slot);
        else refused.push(...group);
        avoided.add(peer.id);
      }
      wanted = refused.toSorted((a, b) => a - b);
    }
    if (this.#ended) for (const slot of slots) dropSlot(slot);
    return slots;
  }

  /** Sends a slot's question; `false` if the budget or the worker refuses it. */
  #ask(slot: Slot, kind: AttemptKind): boolean {
    const { budget, observer } = this.#parts;
    const isSecond = kind === "hedge" || kind === "retry";
    const fraction = fractionOfWork(slot);
    if (isSecond && !budget.allowsSecond(kind, fraction)) {
      observer.budgetSpent?.(kind);
      this.#reason = "the budget for second attempts is spent";
      return false;
    }
    const { clock } = this.#parts.environment;
    slot.span = this.#question.span?.child("ask worker", clock.nowMs(), {
      "winnow.worker": slot.peer.id,
      "winnow.partitions": slot.partitions.length,
      "winnow.attempt": kind,
    });
    const asked = this.#send(slot);
    if (asked === undefined) return false;
    if (asked.state === "refused") {
      slot.span?.end(clock.nowMs(), undefined, asked.reason);
      this.#reason = `worker ${slot.peer.id}: ${asked.reason}`;
      return false;
    }
    if (isSecond) budget.countSecond(fraction);
    else if (kind === "first") budget.countFirst();
    slot.cancel =
      slot.span === undefined ? () => asked.cancel() : cancelOf(asked, slot.span, clock);
    this.#watch(slot);
    return true;
  }

  /** Sends a slot's question to its worker. A question that fits no frame ends the whole scatter. */
  #send(slot: Slot): Asked | undefined {
    const { tableNumber, askFor } = this.#question;
    const { version, deadlineMs } = this.#attempt.scope;
    const partitions = Uint16Array.from(slot.partitions);
    slot.askedAtMs = this.#parts.environment.clock.nowMs();
    try {
      const ask = askFor(slot.partitions, slot.peer.id, this.#attempt);
      return slot.peer.ask(
        {
          version,
          table: tableNumber,
          partitions,
          ask,
          deadlineMs,
          trace: slot.span?.context,
        },
        {
          onReply: (reply) => this.#onReply(slot, reply, ask),
          onDoubt: () => {
            if (!this.#isLarge) this.#onSlow(slot, "retry", "silent");
          },
        },
      );
    } catch (error) {
      this.#end({ state: "refused", error: toWinnowError(error) });
      return undefined;
    }
  }

  /**
   * Whether the question is too large to be sent to a second worker while the first may still answer: what
   * delays one worker would delay the next one too, and all queries behind it.
   */
  get #isLarge(): boolean {
    return this.#question.idBytes > this.#parts.settings.resendBytesMax;
  }

  /** Sets the timers of a slot: first for the hedge, then for the attempt timeout. */
  #watch(slot: Slot): void {
    const { environment, settings } = this.#parts;
    // A large question is slow because it is large. If its worker dies, the stream ends, and with it the wait.
    if (this.#isLarge) return;
    const { attemptTimeoutMs, ownLagMs } = settings;
    const isFirst = slot.parent === undefined && this.#attempt.kind === "first";
    const mayHedge = settings.hedge && isFirst;
    const hedgeMs = mayHedge ? hedgeDelayMs(this.#parts, this.#attempt.table, slot) : undefined;
    const setTimer = (delayMs: number, decide: () => void): void => {
      slot.timer = setGraceTimer(environment.clock, { delayMs, ownLagMs }, decide);
    };
    const onTimeout = (): void => {
      const isBusy = slot.peer.progressing;
      if (isBusy && this.#mayTakeLonger(slot)) return setTimer(attemptTimeoutMs, onTimeout);
      if (!isBusy) slot.peer.noteFailure();
      this.#onSlow(slot, "retry", "timeout");
    };
    if (hedgeMs === undefined || hedgeMs >= attemptTimeoutMs) {
      setTimer(attemptTimeoutMs, onTimeout);
      return;
    }
    // If the timer is late by half of a short delay, this process was slow.
    const hedgeLagMs = Math.min(ownLagMs, hedgeMs / 2);
    const waitToHedge = (waitedMs: number, delayMs: number): void => {
      const decide = (): void => {
        const leftMs = attemptTimeoutMs - waitedMs - delayMs;
        const isBusy = this.#parts.limiter.waiting > 0;
        const furtherMs = isBusy ? undefined : this.#furtherMs(slot, hedgeMs);
        if (furtherMs !== undefined && leftMs > furtherMs) {
          return waitToHedge(waitedMs + delayMs, furtherMs);
        }
        setTimer(leftMs, onTimeout);
        if (!isBusy && furtherMs === undefined) this.#onSlow(slot, "hedge", "slow");
      };
      slot.timer = setGraceTimer(environment.clock, { delayMs, ownLagMs: hedgeLagMs }, decide);
    };
    waitToHedge(0, hedgeMs);
  }

  /** How long to wait further where a second question would be answered no sooner; `undefined` where it would. */
  #furtherMs(slot: Slot, delayMs: number): number | undefined {
    const { environment, peers, settings } = this.#parts;
    const { table } = this.#attempt;
    const others = othersOf(peers, table, slot);
    const late = { table, delayMs, nowMs: environment.clock.nowMs() };
    if (areAllLate(slot, others, late)) return delayMs;
    const ms = waitForBusyMs(slot, others, late) ?? this.#parts.probes.furtherMs(slot.peer, late);
    return ms === undefined ? undefined : Math.max(ms, settings.hedgeDelayMinMs);
  }

  /** A busy worker may take half of the time until the deadline, and at most `busyTimeoutMs`. */
  #mayTakeLonger({ askedAtMs }: Slot): boolean {
    const { environment, settings } = this.#parts;
    const halfMs = (this.#attempt.scope.deadlineMs - askedAtMs) / 2;
    const passedMs = environment.clock.nowMs() - askedAtMs;
    return passedMs < Math.min(halfMs, settings.busyTimeoutMs);
  }

  /** Asks others for a slot's partitions while its own worker may still answer first. */
  #onSlow(slot: Slot, kind: SecondAttempt, reason: string): void {
    if (this.#ended || slot.settled || !slot.waiting || slot.successors.length > 0) return;
    const successors = this.#launch(slot.partitions, slot, kind);
    const covered = successors.reduce((count, { partitions }) => count + partitions.length, 0);
    if (covered < slot.partitions.length) {
      for (const successor of successors) dropSlot(successor);
      if (kind === "retry" && this.#attempt.allowPartial) this.#onNoAnswer(slot, reason);
      return;
    }
    slot.successors = successors;
    const { environment, observer, probes } = this.#parts;
    if (kind === "hedge") probes.note(slot, environment.clock.nowMs());
    observer.secondAttempt?.(kind, reason);
  }

  #onReply(slot: Slot, reply: WorkerReply, ask: WorkerAsk): void {
    const { peer } = slot;
    this.#endSpan(slot, reply);
    if (reply.answer.kind !== "failure") peer.noteTableAnswer(this.#attempt.table);
    if (this.#ended || slot.settled || !slot.waiting) {
      this.#parts.observer.lateReply?.(peer.id);
      return;
    }
    const { answer } = reply;
    if (answer.kind === "failure") return this.#onFailure(slot, answer);
    const fault = this.#question.faultOf(answer, slot.partitions, ask);
    if (fault !== undefined) {
      this.#onFault(peer, fault);
      return this.#onNoAnswer(slot, "INTERNAL");
    }
    const late = this.#question.laterFaultOf?.(answer);
    if (late !== undefined) void this.#lookAt(late, peer);
    this.#noteTimes(peer, slot, reply);
    answerSlot(slot, answer);
    this.#onSettled(slot);
  }

  #noteTimes(peer: WorkerPeer, slot: Slot, reply: WorkerReply): void {
    const [queueMs, computeMs] = [reply.queueUs / 1000, reply.computeUs / 1000];
    const elapsedMs = this.#parts.environment.clock.nowMs() - slot.askedAtMs;
    this.#parts.observer.reply?.({ worker: peer.id, elapsedMs, queueMs, computeMs });
    this.#attempt.scope.noteWorker?.(queueMs, computeMs);
    this.#question.noteCompute?.(computeMs);
  }

  /** Nobody waits here for what comes later: whoever needs it asks anew where it is not as it should be. */
  async #lookAt(late: Promise<string | undefined>, peer: WorkerPeer): Promise<void> {
    const fault = await late;
    if (fault !== undefined) this.#onFault(peer, fault);
  }

  #onFault(peer: WorkerPeer, fault: string): void {
    peer.noteFailure();
    this.#parts.environment.log.error("worker answered wrongly", { worker: peer.id, fault });
  }

  #endSpan({ span }: Slot, { answer, queueUs, computeUs }: WorkerReply): void {
    if (span === undefined) return;
    const times = { "winnow.queue_us": queueUs, "winnow.compute_us": computeUs };
    const fault = answer.kind === "failure" ? answer.reason : undefined;
    span.end(this.#parts.environment.clock.nowMs(), times, fault);
  }

  #onFailure(slot: Slot, failure: Extract<WorkerAnswer, { kind: "failure" }>): void {
    if (failure.reason === "INVALID_KEY") {
      this.#end({ state: "refused", error: failure.error });
      return;
    }
    if (failure.reason === "INTERNAL") slot.peer.noteFailure();
    if (failure.reason === "DISCONNECTED" && this.#hasLostTooMany(slot)) return;
    this.#onNoAnswer(slot, failure.reason);
  }

  /**
   * A request that was under way at several workers when they died may have killed them: it is sent to no
   * more workers.
   */
  #hasLostTooMany({ peer }: Slot): boolean {
    const { lostWorkers } = this.#attempt.scope;
    lostWorkers.add(`${peer.id} ${peer.announcement?.incarnation ?? 0}`);
    const { lostWorkersMax } = this.#parts.settings;
    if (lostWorkers.size < lostWorkersMax) return false;
    const message = `The request lost ${lostWorkers.size} workers; it is not sent to more of them`;
    this.#end({ state: "refused", error: new WinnowError("UNAVAILABLE", message) });
    return true;
  }

  /** A slot's own worker will not answer: the workers asked instead do, or are asked now. */
  #onNoAnswer(slot: Slot, reason: string): void {
    if (slot.waiting) slot.cancel();
    stopWaiting(slot);
    this.#reason = `worker ${slot.peer.id}: ${reason}`;
    this.#isCostly ||= !UNANSWERED.has(reason);
    if (slot.successors.length === 0) this.#askOthers(slot, reason);
    settleBySuccessors(slot, !this.#attempt.allowPartial);
    if (slot.settled) this.#onSettled(slot);
  }

  /** Asks other workers instead of a slot's worker, if the question may be sent again. */
  #askOthers(slot: Slot, reason: string): void {
    const isUnanswered = UNANSWERED.has(reason);
    if (isUnanswered || !this.#isLarge) {
      slot.successors = this.#launch(slot.partitions, slot, isUnanswered ? "again" : "retry");
    }
    if (slot.successors.length > 0) this.#parts.observer.secondAttempt?.("retry", reason);
    const asked = slot.successors.reduce((count, one) => count + one.partitions.length, 0);
    if (asked < slot.partitions.length && !this.#attempt.allowPartial) dropSlot(slot);
  }

  /** A slot is settled: the slot above it, or the whole scatter, may be settled too. */
  #onSettled(slot: Slot): void {
    for (let above = slot.parent; above !== undefined; above = above.parent) {
      settleBySuccessors(above, !this.#attempt.allowPartial);
      if (!above.settled) return;
    }
    this.#endIfSettled();
  }

  #endIfSettled(): void {
    if (this.#ended) return;
    const partials = this.#ownPartials();
    if (partials !== undefined) return this.#end({ state: "answered", partials, lost: [] });
    this.#endIfDecided();
  }

  /** The usual case: the workers that were asked first have answered for all partitions. */
  #ownPartials(): readonly PartialAnswer[] | undefined {
    const partials: PartialAnswer[] = [];
    let answered = 0;
    for (const { settled, partials: given } of this.#roots) {
      const [own] = given;
      if (!settled || given.length !== 1 || own === undefined) return undefined;
      partials.push(own);
      answered += own.partitions.length;
    }
    return answered === this.#question.partitions.length ? partials : undefined;
  }

  #endIfDecided(): void {
    const answered = this.#roots.filter(isAnswered);
    const open = this.#roots.filter((slot) => !slot.settled);
    const asked = this.#roots.reduce((count, slot) => count + slot.partitions.length, 0);
    const isWhole = asked === this.#question.partitions.length;
    const failed = !isWhole || answered.length + open.length < this.#roots.length;
    if (failed && !this.#attempt.allowPartial) {
      const pending = new Set(open.flatMap((slot) => slot.partitions));
      const lost = this.#lostBut(this.#partials()).filter((partition) => !pending.has(partition));
      this.#end({ state: "unfinished", lost, reason: this.#reason, isCostly: this.#isCostly });
    } else if (open.length === 0) {
      const partials = this.#partials();
      this.#end({ state: "answered", partials, lost: failed ? this.#lostBut(partials) : [] });
    }
  }

  #partials(): PartialAnswer[] {
    return this.#roots.flatMap((slot) => slot.partials);
  }

  /** The partitions that no partial answer covers. */
  #lostBut(partials: readonly PartialAnswer[]): number[] {
    const answered = new Set(partials.flatMap((partial) => partial.partitions));
    return this.#question.partitions.filter((partition) => !answered.has(partition));
  }

  #end(result: ScatterResult): void {
    this.drop();
    this.#resolve(result);
  }
}

/** Gives the function that cancels a question, and ends its span if there is one. */
function cancelOf(
  asked: Extract<Asked, { state: "asked" }>,
  span: TraceSpan,
  clock: Clock,
): () => void {
  return () => {
    asked.cancel();
    span.end(clock.nowMs(), { "winnow.cancelled": true });
  };
}

/** The fraction of its parent's partitions that a slot asks for; 1 for a slot without a parent. */
function fractionOfWork({ parent, partitions }: Slot): number {
  return parent === undefined ? 1 : partitions.length / parent.partitions.length;
}
