// A router's part in the models order (`cluster/orders`): it gives orders on behalf of operators, passes the
// highest order that it knows on to workers that follow a lower one, and fetches a higher order from workers
// that follow one. With a fixed list of members this is the only way in which orders travel; with a store it
// is the faster way, and the way while the store is away.
//
//   workers say which order they follow ──▶ higher than known: fetched ──▶ order book
//                                           lower: told ◀────────────────── order book
//   give(): ask the connected workers ─▶ keep ─▶ tell them ─▶ who does not follow yet?

import { WinnowError, excerpt, toWinnowError } from "@winnow/core";
import type { Environment, Timer, WorkerId } from "@winnow/core";
import { isAbove, isSameOrder } from "@winnow/cluster";
import type {
  ModelsOrder,
  OrderAuthor,
  OrderBook,
  OrderMark,
  OrderedModels,
  WorkerConnector,
} from "@winnow/cluster";
import type { RequestContext } from "../request-context.ts";
import type { WorkerStatus } from "../workers/cluster-status.ts";
import type { RouterSettings } from "../router-settings.ts";

/** What the models orders need. */
export interface ModelOrdersParts {
  readonly environment: Environment;
  readonly connector: Pick<WorkerConnector, "tellOrder" | "askOrder">;
  /** Closed by its owner, not here. */
  readonly orders: OrderBook;
  readonly settings: Pick<RouterSettings, "orderTimeoutMs" | "orderPassMs">;
  readonly workers: () => readonly WorkerStatus[];
}

/** A worker that does not follow an order yet, and why, as far as this router knows. */
export interface Laggard {
  readonly worker: WorkerId;
  readonly reason: string;
  /** Whether the worker is live; one that is away follows the order when it comes back. */
  readonly isLive: boolean;
}

/** How many workers follow the order, for metrics. */
export interface OrderStatus {
  /** Number of the highest order known; 0: none was ever given. */
  readonly number: number;
  /** Live workers that follow the order, and live workers that do not. */
  readonly following: number;
  readonly behind: number;
}

/** A pause for a worker that could not be told, or could not tell. */
interface Rest {
  readonly failures: number;
  readonly untilMs: number;
  readonly reason: string;
}

/** The longest pause. */
const REST_MS_MAX = 10_000;
const NAMED_MAX = 3;

/** Gives orders and passes them on, until closed. */
export class ModelOrders {
  readonly #parts: ModelOrdersParts;
  readonly #endFollow: () => void;
  readonly #busy = new Set<WorkerId>();
  readonly #rests = new Map<WorkerId, Rest>();
  #timer: Timer | undefined;
  #isKnown = false;
  #isClosed = false;

  constructor(parts: ModelOrdersParts) {
    this.#parts = parts;
    this.#endFollow = parts.orders.follow(() => {
      this.#rests.clear();
      this.pass();
    });
    this.#passLater();
  }

  /** The highest order known. */
  get newest(): ModelsOrder | undefined {
    return this.#parts.orders.newest;
  }

  /**
   * Whether this router knows the order that its workers follow, or knows that there is none. A router that has just
   * started may hear of the models before it has fetched the order, which says what labels mean. Once true, it stays
   * so: a later order changes labels when it arrives. An order that cannot be fetched is not waited for.
   */
  get isKnown(): boolean {
    this.#isKnown ||= this.#hasCaughtUp();
    return this.#isKnown;
  }

  #hasCaughtUp(): boolean {
    const { orders, workers } = this.#parts;
    if (!orders.isOpened) return false;
    const heard = workers().filter(({ askable, hasDecided }) => askable && hasDecided);
    const isAhead = ({ id, order }: WorkerStatus): boolean =>
      order !== undefined && isAbove(order, this.newest) && !this.#rests.has(id);
    return heard.length > 0 && !heard.some(isAhead);
  }

  /** How many workers follow the highest order known. */
  status(): OrderStatus {
    const { newest } = this;
    const live = this.#parts.workers().filter(({ isLive }) => isLive);
    const behind = newest === undefined ? 0 : live.filter((each) => isBehind(each, newest)).length;
    return { number: newest?.number ?? 0, following: live.length - behind, behind };
  }

  /**
   * Gives an order. Every connected worker is asked, and if one refuses, nothing changes. Otherwise the order
   * is kept, and stands from then on, also for workers that are away.
   * @throws WinnowError in a worker's words; UNAVAILABLE if no worker answers, or the order cannot be kept;
   * as `OrderBook.make`
   */
  async give(
    models: OrderedModels,
    author: OrderAuthor,
    { deadlineMs, signal }: RequestContext,
  ): Promise<ModelsOrder> {
    const { orders, workers, environment, settings } = this.#parts;
    const signed = orders.draft(models);
    const connected = workers().filter(({ askable }) => askable);
    if (connected.length === 0) {
      throw new WinnowError(
        "UNAVAILABLE",
        "No worker is connected; nothing was changed, try again",
      );
    }
    const leftMs = deadlineMs - environment.clock.nowMs();
    const timeoutMs = Math.max(1, Math.min(settings.orderTimeoutMs, leftMs / 2));
    const failures = await this.#askAll(connected, { signed, timeoutMs });
    const refusals = failures.filter(({ error }) => !isAway(error));
    if (refusals.length > 0) throw failureOf(refusals, "nothing was changed");
    if (failures.length === connected.length) {
      throw failureOf(failures, "no worker answers; nothing was changed");
    }
    signal.throwIfAborted();
    const above = Math.max(0, ...workers().map(({ order }) => order?.number ?? 0));
    return orders.make(models, { author, above });
  }

  /** Workers that do not follow this order, or a later one; ascending by id. */
  laggards(order: OrderMark): readonly Laggard[] {
    return this.#parts.workers().flatMap((worker) => {
      if (!isBehind(worker, order)) return [];
      const { id, askable, isLive } = worker;
      const away = isLive ? "not connected to this router" : "away";
      const reason = askable ? (this.#rests.get(id)?.reason ?? "has not said so yet") : away;
      return [{ worker: id, reason, isLive }];
    });
  }

  /** Brings connected workers and this process to the highest order of all. */
  pass(): void {
    if (this.#isClosed) return;
    const { workers, environment } = this.#parts;
    const { newest } = this;
    const nowMs = environment.clock.nowMs();
    for (const { id, address, askable, order } of workers()) {
      const isResting = (this.#rests.get(id)?.untilMs ?? -Infinity) > nowMs;
      if (!askable || isResting || this.#busy.has(id) || isSameOrder(order, newest)) continue;
      const isHigher = order !== undefined && isAbove(order, newest);
      void this.#meet(id, () => (isHigher ? this.#fetch(address) : this.#tell(address))); // Never rejects.
    }
  }

  close(): void {
    this.#isClosed = true;
    this.#endFollow();
    if (this.#timer !== undefined) this.#parts.environment.clock.clearTimer(this.#timer);
  }

  #passLater(): void {
    const { environment, settings } = this.#parts;
    this.#timer = environment.clock.setTimer(settings.orderPassMs, () => {
      this.#passLater();
      this.pass();
    });
  }

  /** One exchange with a worker; after a failed one the worker is left alone for a while. */
  async #meet(id: WorkerId, exchange: () => Promise<void>): Promise<void> {
    const { environment, settings } = this.#parts;
    this.#busy.add(id);
    try {
      await exchange();
      this.#rests.delete(id);
    } catch (thrown) {
      const { code, message } = toWinnowError(thrown);
      const failures = (this.#rests.get(id)?.failures ?? 0) + 1;
      const waitMs = Math.min(REST_MS_MAX, settings.orderPassMs * 2 ** Math.min(failures, 8));
      const untilMs = environment.clock.nowMs() + waitMs;
      this.#rests.set(id, { failures, untilMs, reason: excerpt(message) });
      if (failures === 1) {
        environment.log.warn("models order not passed on", { worker: id, code, message });
      }
    }
    this.#busy.delete(id);
  }

  async #tell(address: string): Promise<void> {
    const { orders, connector, settings } = this.#parts;
    const signed = orders.signed();
    if (signed === undefined) return;
    await connector.tellOrder(address, { kind: "order", signed }, settings.orderTimeoutMs);
  }

  async #fetch(address: string): Promise<void> {
    const { orders, connector, settings } = this.#parts;
    const signed = await connector.askOrder(address, settings.orderTimeoutMs);
    if (signed !== undefined && !this.#isClosed) await orders.offer(signed, `order of ${address}`);
  }

  async #askAll(
    workers: readonly WorkerStatus[],
    { signed, timeoutMs }: { readonly signed: string; readonly timeoutMs: number },
  ): Promise<readonly WorkerFailure[]> {
    const failures = await Promise.all(
      workers.map(async ({ id, address }) => {
        try {
          const draft = { kind: "draft", signed } as const;
          await this.#parts.connector.tellOrder(address, draft, timeoutMs);
          return [];
        } catch (error) {
          return [{ worker: id, error: toWinnowError(error) }];
        }
      }),
    );
    return failures.flat();
  }
}

function isBehind({ order: followed }: WorkerStatus, order: OrderMark): boolean {
  return followed === undefined || isAbove(order, followed);
}

/** Whether a worker may only be away for a while: the order waits for it. */
const isAway = ({ code }: WinnowError): boolean =>
  code === "UNAVAILABLE" || code === "DEADLINE_EXCEEDED" || code === "CANCELLED";

interface WorkerFailure {
  readonly worker: WorkerId;
  readonly error: WinnowError;
}

/** One error for those of several workers: the first few by name, with the code of the first. */
function failureOf(failures: readonly WorkerFailure[], consequence: string): WinnowError {
  const sorted = failures.toSorted((a, b) => (a.worker < b.worker ? -1 : 1));
  const reasons = sorted.map(({ worker, error: { message } }) => ({ worker, reason: message }));
  const text = `Cannot reload, ${consequence}: ${namedWorkers(reasons)}`;
  return new WinnowError(sorted[0]!.error.code, text);
}

/** The first few of several workers, those of one reason together: `workers w0, w2: gone; worker w1: outside`. */
export function namedWorkers(workers: readonly Pick<Laggard, "worker" | "reason">[]): string {
  const named = workers.slice(0, NAMED_MAX);
  const texts = [...new Set(named.map(({ reason }) => reason))].map((reason) => {
    const ids = named.filter((each) => each.reason === reason).map(({ worker }) => worker);
    return `${ids.length === 1 ? "worker" : "workers"} ${ids.join(", ")}: ${excerpt(reason)}`;
  });
  const more = workers.length - named.length;
  return `${texts.join("; ")}${more > 0 ? `; and ${more} more` : ""}`;
}
