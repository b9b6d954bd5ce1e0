// Which models this worker is to watch: those of the models order in force or, without one, its own, from its
// flags or its configuration file. An order stays in force until another one replaces it, whatever the file
// says meanwhile; once it is withdrawn, the worker's own models count again.
//
//   order book ─┐                 ┌─▶ version watch: models by name
//               ├─▶ this worker's │
//   own models ─┘   own judgement └─▶ announcement: the order that is followed
//
// An order is followed when every model of it is accepted (`model-replacement.ts`). While some are not (a
// volume that is not mounted yet), the accepted ones are served, a refused one that was served before stays
// as it was, and the order is judged again from time to time.

import type { ModelsOrder, OrderBook, OrderMark, OrderMessage } from "@winnow/cluster";
import { isSameOrder } from "@winnow/cluster";
import { WinnowError, toWinnowError } from "@winnow/core";
import type { Environment, Timer } from "@winnow/core";

import { acceptedModels, judgedModels } from "./model-replacement.ts";
import type {
  JudgedModel,
  NamedModel,
  RealPath,
  ReplacementSettings,
} from "./model-replacement.ts";

/** What a follower needs. */
export interface OrderFollowerParts {
  readonly environment: Environment;
  /** The order book. Its owner closes it. */
  readonly orders: OrderBook;
  readonly realPath: RealPath;
  /** Replaces the models that are watched by name. */
  readonly apply: (models: readonly NamedModel[]) => void;
  /** Called when another order is followed. */
  readonly onChange: () => void;
}

/** Which orders this worker may follow, and the models that it serves without one. */
export interface OrderFollowerSettings extends ReplacementSettings {
  readonly own: readonly NamedModel[];
}

/** Ms between the first two judgements of an order that cannot be followed; doubles each time. */
const RETRY_MS = 2000;
const RETRY_MS_MAX = 30_000;

/** One worker's side of the models order. */
export class OrderFollower {
  readonly #parts: OrderFollowerParts;
  readonly #settings: ReplacementSettings;
  #own: readonly NamedModel[];
  #watched: readonly NamedModel[];
  #followed: ModelsOrder | undefined;
  /** Why the order in force is not followed, or not completely. */
  #problem: WinnowError | undefined;
  #decided: Promise<void> = Promise.resolve();
  #endFollow: (() => void) | undefined;
  #retries = 0;
  #timer: Timer | undefined;
  #isClosed = false;

  constructor(parts: OrderFollowerParts, { own, ...settings }: OrderFollowerSettings) {
    this.#parts = parts;
    this.#settings = settings;
    this.#own = own;
    this.#watched = own;
  }

  /** The order that is followed; `undefined`: none, or none yet. */
  get followed(): OrderMark | undefined {
    const order = this.#followed;
    return order && { number: order.number, id: order.id };
  }

  /** Numbers of the newest order known and of the one followed; 0: none. */
  get numbers(): { readonly known: number; readonly followed: number } {
    const known = this.#parts.orders.newest?.number ?? 0;
    return { known, followed: this.#followed?.number ?? 0 };
  }

  /** Applies the order in force, if there is one, and follows the order book from then on. */
  async start(): Promise<void> {
    if (this.#isClosed) return;
    this.#endFollow = this.#parts.orders.follow(() => void this.#decide());
    await this.#decide();
  }

  /** Replaces the worker's own list after its file has changed. The list counts while no order is in force. */
  setOwn(models: readonly NamedModel[]): void {
    this.#own = models;
    const order = this.#parts.orders.newest;
    if (order?.models !== undefined) {
      const advice = "the configuration has changed, but a models order is in force: withdraw it";
      this.#parts.environment.log.warn(advice, { order: order.number, by: order.by, at: order.at });
    }
    void this.#decide();
  }

  /** Takes an order, or a draft of one, from a router. @throws WinnowError why it is not followed */
  async take({ kind, signed }: OrderMessage): Promise<void> {
    const { orders, realPath } = this.#parts;
    if (kind === "draft") {
      const models = orders.readDraft(signed);
      if (models !== undefined) await acceptedModels(models, this.#settings, realPath);
      return;
    }
    const order = await orders.offer(signed, "an order from a router");
    await this.#decided;
    if (this.#problem !== undefined && isSameOrder(order, orders.newest)) throw this.#problem;
  }

  close(): void {
    this.#isClosed = true;
    this.#endFollow?.();
    if (this.#timer !== undefined) this.#parts.environment.clock.clearTimer(this.#timer);
  }

  /** Judges the order in force once the judgement under way has ended. Never rejects. */
  #decide(): Promise<void> {
    this.#decided = this.#decided.then(() => this.#decideNow());
    return this.#decided;
  }

  async #decideNow(): Promise<void> {
    const { orders, apply } = this.#parts;
    const order = orders.newest;
    const { models, problem } = await this.#judge(order);
    // An order that has arrived in the meantime is judged next.
    if (this.#isClosed || orders.newest !== order) return;
    if (JSON.stringify(models) !== JSON.stringify(this.#watched)) {
      this.#watched = models;
      apply(models);
    }
    this.#note(order, problem);
    if (problem === undefined) void orders.kept.then(() => this.#follow(order));
  }

  async #judge(order: ModelsOrder | undefined): Promise<Judgement> {
    if (order?.models === undefined) return { models: this.#own, problem: undefined };
    try {
      const judged = await judgedModels(order.models, this.#settings, this.#parts.realPath);
      return followable(judged, this.#watched);
    } catch (error) {
      return { models: this.#watched, problem: toWinnowError(error) };
    }
  }

  #follow(order: ModelsOrder | undefined): void {
    const isOutdated = this.#parts.orders.newest !== order || isSameOrder(this.#followed, order);
    if (this.#isClosed || isOutdated) return;
    this.#followed = order;
    this.#parts.environment.log.info("models order followed", { number: order?.number });
    this.#parts.onChange();
  }

  /** Says why an order cannot be followed, once, and plans to judge it again. */
  #note(order: ModelsOrder | undefined, problem: WinnowError | undefined): void {
    const { clock, log } = this.#parts.environment;
    const isNew = problem !== undefined && problem.message !== this.#problem?.message;
    this.#problem = problem;
    if (this.#timer !== undefined) clock.clearTimer(this.#timer);
    this.#timer = undefined;
    if (problem === undefined) {
      this.#retries = 0;
      return;
    }
    const { code, message } = problem;
    if (isNew) log.error("models order not followed", { number: order?.number, code, message });
    const delayMs = Math.min(RETRY_MS_MAX, RETRY_MS * 2 ** Math.min(this.#retries, 8));
    this.#retries += 1;
    this.#timer = clock.setTimer(delayMs, () => void this.#decide());
  }
}

interface Judgement {
  readonly models: readonly NamedModel[];
  readonly problem: WinnowError | undefined;
}

/**
 * The models of an order that can be watched. Of the others, those that are watched already stay as they are.
 * Also gives why the first of the others cannot be watched.
 * @internal tests call it
 */
export function followable(
  judged: readonly JudgedModel[],
  watched: readonly NamedModel[],
): Judgement {
  const models: NamedModel[] = [];
  let problem: WinnowError | undefined;
  for (const { model, outcome } of judged) {
    if (!(outcome instanceof WinnowError)) {
      models.push(outcome);
      continue;
    }
    problem ??= outcome;
    const before = watched.find((each) => each.model === model);
    if (before !== undefined) models.push(before);
  }
  return { models, problem };
}
