// The models order as one process knows it. Copies are in the store (if there is one), in a file of
// this process (if it has a state directory) and in the memory of every other process. Wherever two
// copies meet, the higher order replaces the lower one, and a process that knows a higher one
// passes it on. So any copy that is left repairs copies that are lost, outdated or damaged:
//
//   state file ─┐                        ┌─▶ state file
//   store ──────┼─▶ highest known order ─┼─▶ store, if it holds a lower one, a damaged one or none
//   a peer ─────┘                        └─▶ listeners: the models to serve; peers (router's
//                                            `model-orders.ts`)

import { WinnowError, sleep, toWinnowError } from "@winnow/core";
import type { Clock, Environment, Timer } from "@winnow/core";
import type { StateFile } from "../state/state-file.ts";
import type { ClusterSecret } from "../trust/cluster-secret.ts";
import { refusalReason } from "../trust/refused-records.ts";
import type { RefusedRecords } from "../trust/refused-records.ts";
import { type DrainTarget, type ReadDrain, readDrain, signDrain } from "./drain-order.ts";
import { ORDER_NUMBER_MAX, isAbove, isSameOrder, readOrder, writeOrder } from "./models-order.ts";
import type { ModelsOrder, OrderedModels } from "./models-order.ts";
import type { OrderStore } from "./order-store.ts";

/** Dependencies of an order book. */
export interface OrderBookParts {
  readonly environment: Environment;
  /** Orders of other clusters are refused, even where nothing is signed. */
  readonly cluster: string;
  readonly secret: ClusterSecret;
  /** Counts and logs refused texts. */
  readonly refused: RefusedRecords;
  /** Absent with a fixed list of members. */
  readonly store?: OrderStore | undefined;
  /** Absent: this process keeps the order in memory only. */
  readonly file?: StateFile | undefined;
}

/** Who gives an order, and when by the wall clock; for people only. */
export type OrderAuthor = Pick<ModelsOrder, "by" | "at">;

const STORE_SOURCE = "the order in the store";
const DRAIN_SOURCE = "an order to drain";
const FILE_SOURCE = "the order in the state file";
/** Ms for which a starting process asks the store; then it starts without an answer. */
const OPEN_MS_MAX = 1000;
const OPEN_RETRY_MS = 50;
/** Nobody gives so many orders: somebody wrote one with the last number. Each process that knows it writes it again. */
const NO_NUMBER_LEFT =
  "There is no number left for an order: the one in force, which must be forged, has the last; stop all routers and workers, remove it from Redis and the state directories, and sign orders (--cluster-secret-file)";
/** Attempts of `make`; each fails if another order was stored between its read and its write. */
const TRIES_MAX = 4;
const FILE_RETRY_MS = 30_000;

interface JudgedText {
  readonly text: string;
  readonly secretRevision: number;
  /** `undefined`: refused. */
  readonly order: ModelsOrder | undefined;
}

/** The highest order this process knows. */
export class OrderBook {
  readonly #parts: OrderBookParts;
  readonly #listeners = new Set<(order: ModelsOrder) => void>();
  #newest: ModelsOrder | undefined;
  /** The store's text that was checked last, and the result. */
  #judged: JudgedText | undefined;
  /** `ClusterSecret.revision` with which this process last wrote to the store. */
  #signedRevision: number;
  #endWatch: (() => void) | undefined;
  #written: Promise<void> = Promise.resolve();
  #isFileFailing = false;
  #fileTimer: Timer | undefined;
  #isOpened = false;
  #isClosed = false;

  constructor(parts: OrderBookParts) {
    this.#parts = parts;
    this.#signedRevision = parts.secret.revision;
  }

  /** The highest order that this process knows; `undefined`: none was ever given. */
  get newest(): ModelsOrder | undefined {
    return this.#newest;
  }

  /** Whether the state file has been read, and the store too or in vain. */
  get isOpened(): boolean {
    return this.#isOpened;
  }

  /** Resolves when the order in force is in the state file, or writing it has failed. */
  get kept(): Promise<void> {
    return this.#written;
  }

  /** Reads the state file, then the store for 1 s at most, and follows the store. Never rejects. */
  async open(): Promise<void> {
    await this.#readFile();
    const { store, environment } = this.#parts;
    if (store !== undefined) await this.#readStore(store, environment.clock);
    this.#isOpened = true;
  }

  async #readStore(store: OrderStore, clock: Clock): Promise<void> {
    const untilMs = clock.nowMs() + OPEN_MS_MAX;
    do {
      try {
        this.#take(this.#judge(await store.read()));
        break;
      } catch {
        // The connection may not be open yet, so this is tried again, but only for a bounded time.
        await sleep(clock, OPEN_RETRY_MS);
      }
    } while (!this.#isClosed && clock.nowMs() < untilMs);
    if (!this.#isClosed) this.#endWatch = store.watch((text) => this.#onStored(text));
  }

  /** Calls `listener` with every order that replaces the previous one. Returns an end. */
  follow(listener: (order: ModelsOrder) => void): () => void {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  /** The order in force, signed for a peer; `undefined`: there is none. */
  signed(): string | undefined {
    return this.#newest && this.#sign(this.#newest);
  }

  /**
   * Takes a text from a peer; resolves with its order, higher than the known one or not, once the
   * order in force is in the state file (or writing it has failed, which is logged).
   * @throws WinnowError UNAUTHENTICATED, PERMISSION_DENIED or INVALID_ARGUMENT for a refused text
   */
  async offer(signed: string, source: string): Promise<ModelsOrder> {
    const order = this.#read(signed, source);
    this.#take(order);
    await this.#written;
    return order;
  }

  /**
   * A signed draft of an order, for a worker to say whether it would follow it.
   * @throws WinnowError INVALID_ARGUMENT
   */
  draft(models: OrderedModels): string {
    const { cluster, secret } = this.#parts;
    const { text } = writeOrder({ cluster, number: 0, by: "", at: "", models });
    return secret.sign("order draft", text);
  }

  /** The models of a signed draft. @throws WinnowError as `offer` */
  readDraft(signed: string): OrderedModels {
    const { cluster, secret } = this.#parts;
    return readOrder(secret.verify("order draft", signed), cluster).models;
  }

  /** A signed order to one worker to drain and exit. */
  signDrain(target: DrainTarget): string {
    return signDrain(target, this.#parts);
  }

  /** Reads such an order. @throws WinnowError UNAUTHENTICATED, INVALID_ARGUMENT, PERMISSION_DENIED */
  readDrain(signed: string): ReadDrain {
    const { refused } = this.#parts;
    try {
      const order = readDrain(signed, this.#parts);
      refused.accept(DRAIN_SOURCE);
      return order;
    } catch (thrown) {
      const error = toWinnowError(thrown);
      const isForeign = error.code === "PERMISSION_DENIED";
      refused.refuse(DRAIN_SOURCE, isForeign ? "name" : refusalReason(error), error.message);
      throw error;
    }
  }

  /**
   * Gives an order with a number above `above` and above all that this process knows. It is in
   * force once it is in the store, or, without a store, in this process.
   * @throws WinnowError UNAVAILABLE when the store does not answer, ABORTED when others keep giving
   * orders, RESOURCE_EXHAUSTED when no number is left, INVALID_ARGUMENT for values out of bounds
   */
  async make(
    models: OrderedModels,
    { author, above = 0 }: { readonly author: OrderAuthor; readonly above?: number },
  ): Promise<ModelsOrder> {
    const { store } = this.#parts;
    for (let tries = 0; tries < TRIES_MAX; tries += 1) {
      const stored = store && (await this.#answered(store.read(), "nothing was changed"));
      if (store !== undefined) this.#take(this.#judge(stored));
      const number = 1 + Math.max(above, this.#newest?.number ?? 0);
      if (number > ORDER_NUMBER_MAX) {
        throw new WinnowError("RESOURCE_EXHAUSTED", NO_NUMBER_LEFT);
      }
      const order = writeOrder({ cluster: this.#parts.cluster, number, ...author, models });
      const unsure = "whether the order stands is not known: look, or give it again";
      const signed = this.#sign(order);
      const isDone =
        store === undefined || (await this.#answered(store.replace(signed, stored), unsure));
      if (!isDone) continue;
      this.#judged = { text: signed, secretRevision: this.#parts.secret.revision, order };
      this.#take(order);
      await this.#written;
      return order;
    }
    throw new WinnowError("ABORTED", "Others give orders at the same time; try again");
  }

  close(): void {
    this.#isClosed = true;
    this.#endWatch?.();
    this.#listeners.clear();
    if (this.#fileTimer !== undefined) this.#parts.environment.clock.clearTimer(this.#fileTimer);
  }

  async #answered<Answer>(asked: Promise<Answer>, consequence: string): Promise<Answer> {
    try {
      return await asked;
    } catch (cause) {
      const text = `Redis, where orders are kept, does not answer; ${consequence}`;
      throw new WinnowError("UNAVAILABLE", text, { cause });
    }
  }

  /** Takes the store's order, and writes the highest known one if the store lacks it. */
  #onStored(text: string | undefined): void {
    const { store, secret } = this.#parts;
    const stored = this.#judge(text);
    this.#take(stored);
    const newest = this.#newest;
    if (newest === undefined || store === undefined) return;
    // After a change of secrets the order is signed and stored again: processes that start later
    // may know only the new secrets.
    const isSignedAnew = this.#signedRevision !== secret.revision;
    if (isSameOrder(stored, newest) && !isSignedAnew) return;
    this.#signedRevision = secret.revision;
    // A write that fails is repeated after the next reading.
    store.replace(this.#sign(newest), text).catch(() => undefined);
  }

  /** The order of the store's text; `undefined` for none, and for a refused text. */
  #judge(text: string | undefined): ModelsOrder | undefined {
    if (text === undefined) return undefined;
    const { revision: secretRevision } = this.#parts.secret;
    const known = this.#judged;
    if (known?.text === text && known.secretRevision === secretRevision) return known.order;
    let order: ModelsOrder | undefined;
    try {
      order = this.#read(text, STORE_SOURCE);
      this.#noteStale(order);
    } catch {
      // `#read` has counted and logged the refusal.
    }
    this.#judged = { text, secretRevision, order };
    return order;
  }

  /** Counts and logs that the store holds an order that has been replaced. */
  #noteStale(order: ModelsOrder): void {
    const newest = this.#newest;
    if (newest === undefined || !isAbove(newest, order)) return;
    const text = `order ${order.number}, which ${newest.number} has replaced`;
    this.#parts.refused.refuse(STORE_SOURCE, "stale", text);
  }

  #read(signed: string, source: string): ModelsOrder {
    const { secret, cluster, refused } = this.#parts;
    try {
      const order = readOrder(secret.verify("order", signed), cluster);
      if (order.number === 0) throw new WinnowError("INVALID_ARGUMENT", "An order of number 0");
      refused.accept(source);
      return order;
    } catch (thrown) {
      const error = toWinnowError(thrown);
      const isForeign = error.code === "PERMISSION_DENIED";
      refused.refuse(source, isForeign ? "name" : refusalReason(error), error.message);
      throw error;
    }
  }

  /** Puts an order in force if it is higher than the known one. */
  #take(order: ModelsOrder | undefined): void {
    if (order === undefined || this.#isClosed || !isAbove(order, this.#newest)) return;
    this.#newest = order;
    const { number, id, by, at, models } = order;
    const names = models?.map(({ model }) => model);
    const fields = { number, id, by, at, models: names, isWithdrawn: models === undefined };
    this.#parts.environment.log.info("models order in force", fields);
    this.#write(order);
    for (const listener of this.#listeners) listener(order);
  }

  async #readFile(): Promise<void> {
    const { file, environment, refused } = this.#parts;
    if (file === undefined) return;
    try {
      const text = await file.read();
      if (text !== undefined) this.#take(this.#read(text, FILE_SOURCE));
    } catch (thrown) {
      const error = toWinnowError(thrown);
      if (error.code === "DATA_LOSS") refused.refuse(FILE_SOURCE, "malformed", error.message);
      environment.log.error("kept order not read", { message: error.message });
    }
  }

  /** Writes the order to the state file; repeats that later if it fails. */
  #write(order: ModelsOrder): void {
    const { file } = this.#parts;
    if (file === undefined) return;
    this.#written = file.write(this.#sign(order)).then(
      () => this.#noteFile(undefined),
      (error: unknown) => this.#noteFile(toWinnowError(error)),
    );
  }

  #noteFile(error: WinnowError | undefined): void {
    const { log, clock } = this.#parts.environment;
    const isNew = error !== undefined && !this.#isFileFailing;
    this.#isFileFailing = error !== undefined;
    if (isNew) log.error("order not kept in a file", { message: error.message });
    if (error === undefined || this.#isClosed || this.#fileTimer !== undefined) return;
    this.#fileTimer = clock.setTimer(FILE_RETRY_MS, () => {
      this.#fileTimer = undefined;
      if (this.#newest !== undefined) this.#write(this.#newest);
    });
  }

  #sign({ text }: ModelsOrder): string {
    return this.#parts.secret.sign("order", text);
  }
}
