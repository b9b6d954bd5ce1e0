// What other workers say themselves of what they hold. A record in a store is only a claim: anybody may have
// written it, or a worker may have left it that has died since. So before this worker gives a replica up for
// others, it asks each of them at its announced address, and only what they answer counts. In drain, which waits
// until others have held everything for longer than a lease, it is enough that they have ever answered.
//
//   plan ── whom to ask ──▶ this file ── one question every 50 ms ──▶ worker
//     ▲                         │
//     └──── answers of late ◀───┘
//
// A worker is asked only while a plan waits for its answer. One that has answered is asked again after 1 s, and
// at once when something new is announced of it; one that has not, after 1 s, then after twice as long each time,
// at most 30 s. So names that nobody answers to cost 20 questions per second at most, and few after a minute.

import type { Announcement, Describe } from "@winnow/cluster";
import type { Environment, Timer, WorkerId } from "@winnow/core";

/** What the questions need. */
export interface HolderQuestionsParts {
  readonly environment: Environment;
  /** Asks the worker at an address what it holds. */
  readonly describe: Describe;
  /** What is announced of a worker; `undefined`: nothing any more. */
  readonly announced: (id: WorkerId) => Announcement | undefined;
  /** Called after each answer. */
  readonly onAnswer: () => void;
}

interface Question {
  readonly worker: WorkerId;
  /** Questions since the last answer. */
  asked: number;
  /** What was announced when it was asked last. */
  announced: Announcement | undefined;
  dueAtMs: number;
  isUnderWay: boolean;
  answer: Announcement | undefined;
  answeredAtMs: number;
}

/** Ms between two questions of this worker. */
const QUESTION_INTERVAL_MS = 50;
const ANSWER_MS_MAX = 1000;
const RETRY_MS = 1000;
const RETRY_MS_MAX = 30_000;
/** Ms for which an answer counts: a worker that holds nothing any more may still be announced after them. */
const ANSWER_VALID_MS = 15_000;
/** Questions in vain after which the claim is logged, and ms between two such lines. */
const VAIN_MIN = 3;
const TOLD_INTERVAL_MS = 60_000;

/** Asks until closed. */
export class HolderQuestions {
  readonly #parts: HolderQuestionsParts;
  readonly #questions = new Map<WorkerId, Question>();
  /** Announced workers that have ever answered. */
  readonly #met = new Set<WorkerId>();
  #wanted: ReadonlySet<WorkerId> = new Set();
  #nextAtMs = 0;
  #toldAtMs = -Infinity;
  #timer: Timer | undefined;
  #isClosed = false;

  constructor(parts: HolderQuestionsParts) {
    this.#parts = parts;
  }

  /** What workers have answered of late. */
  answers(): readonly Announcement[] {
    return [...this.#questions.values()].flatMap((question) =>
      this.#isValid(question) ? (question.answer ?? []) : [],
    );
  }

  /** Whether a worker has answered since it was announced, whatever it held then. */
  hasMet(worker: WorkerId): boolean {
    return this.#met.has(worker);
  }

  /** Asks these workers from now on, and no others. */
  ask(workers: ReadonlySet<WorkerId>): void {
    this.#wanted = workers;
    for (const worker of this.#met) {
      if (this.#parts.announced(worker) === undefined) this.#met.delete(worker);
    }
    for (const question of this.#questions.values()) {
      const isKept = workers.has(question.worker) || question.isUnderWay || this.#isValid(question);
      if (!isKept) this.#questions.delete(question.worker);
    }
    const nowMs = this.#parts.environment.clock.nowMs();
    for (const worker of workers) {
      const known = this.#questions.get(worker);
      if (known === undefined) this.#questions.set(worker, newQuestion(worker, nowMs));
      else if (this.#isNews(known)) known.dueAtMs = Math.min(known.dueAtMs, nowMs);
    }
    this.#schedule();
  }

  close(): void {
    this.#isClosed = true;
    this.#clearTimer();
  }

  #isValid({ answeredAtMs }: Question): boolean {
    return this.#parts.environment.clock.nowMs() - answeredAtMs < ANSWER_VALID_MS;
  }

  /** Whether a worker that answers is announced to hold something else than when it was asked. */
  #isNews(question: Question): boolean {
    const { worker, announced, asked } = question;
    return asked === 0 && announced !== this.#parts.announced(worker);
  }

  /** The question that is due first. */
  #next(): Question | undefined {
    let first: Question | undefined;
    for (const worker of this.#wanted) {
      const question = this.#questions.get(worker);
      if (question === undefined || question.isUnderWay) continue;
      if (first === undefined || question.dueAtMs < first.dueAtMs) first = question;
    }
    return first;
  }

  #schedule(): void {
    this.#clearTimer();
    const question = this.#isClosed ? undefined : this.#next();
    if (question === undefined) return;
    const { clock } = this.#parts.environment;
    const waitMs = Math.max(question.dueAtMs, this.#nextAtMs) - clock.nowMs();
    this.#timer = clock.setTimer(Math.max(0, waitMs), () => {
      this.#timer = undefined;
      void this.#put(question); // Never rejects.
    });
  }

  #clearTimer(): void {
    if (this.#timer !== undefined) this.#parts.environment.clock.clearTimer(this.#timer);
    this.#timer = undefined;
  }

  async #put(question: Question): Promise<void> {
    const { environment, describe, announced, onAnswer } = this.#parts;
    const { clock } = environment;
    const { worker } = question;
    question.announced = announced(worker);
    const address = question.announced?.address;
    this.#nextAtMs = clock.nowMs() + QUESTION_INTERVAL_MS;
    question.isUnderWay = true;
    question.asked += 1;
    this.#schedule();
    const said =
      address === undefined
        ? undefined
        : await describe(address, ANSWER_MS_MAX).catch(() => undefined);
    question.isUnderWay = false;
    if (this.#isClosed) return;
    const waitMs = Math.min(RETRY_MS_MAX, RETRY_MS * 2 ** (question.asked - 1));
    question.dueAtMs = clock.nowMs() + waitMs;
    if (said?.workerId === worker) {
      question.answer = said;
      question.answeredAtMs = clock.nowMs();
      question.asked = 0;
      this.#met.add(worker);
      onAnswer();
    }
    this.#tell(question, address);
    this.#schedule();
  }

  /** Logs a claim that was asked for in vain, because the replica stays in memory meanwhile. */
  #tell({ worker, asked }: Question, address: string | undefined): void {
    const { clock, log } = this.#parts.environment;
    const isInVain = asked >= VAIN_MIN && this.#wanted.has(worker);
    if (!isInVain || clock.nowMs() - this.#toldAtMs < TOLD_INTERVAL_MS) return;
    this.#toldAtMs = clock.nowMs();
    log.warn("keeps partitions that another worker is announced to hold and does not confirm", {
      worker,
      address,
      workers: this.#wanted.size,
    });
  }
}

function newQuestion(worker: WorkerId, dueAtMs: number): Question {
  return {
    worker,
    asked: 0,
    announced: undefined,
    dueAtMs,
    isUnderWay: false,
    answer: undefined,
    answeredAtMs: -Infinity,
  };
}
