// The models order as one process knows it. Copies are everywhere: in the store (where there is one), in
// a file of this process (where it has a directory), in the memory of every other process. The highest
// order wins wherever two meet, and whoever knows a higher one passes it on, so a copy that is lost,
// outdated or spoilt is made good by any other that is left:
//
//   state file ─┐                        ┌─▶ state file
//   store ──────┼─▶ highest known order ─┼─▶ store, where it holds a lower one, a spoilt one or none
//   a peer ─────┘                        └─▶ listeners: what is to be served; peers (router's `model-orders.ts`)

import { WinnowError, sleep, toWinnowError } from "@winnow/core";
import type { Environment, Timer } from "@winnow/core";
import type { StateFile } from "../state/state-file.ts";
import type { ClusterSecret } from "../trust/cluster-secret.ts";
import { refusalReason } from "../trust/refused-records.ts";
import type { RefusedRecords } from "../trust/refused-records.ts";
import { ORDER_NUMBER_MAX, isAbove, isSameOrder, readOrder, writeOrder } from "./models-order.ts";
import type { ModelsOrder, OrderedModels } from "./models-order.ts";
import type { OrderStore } from "./order-store.ts";

/** What a book lives on. */
export interface OrderBookParts {
  readonly environment: Environment;
  /** Orders of other clusters are not read, also where nothing is signed. */
  readonly cluster: string;
  readonly secret: ClusterSecret;
  /** Told of texts that are not believed. */
  readonly refused: RefusedRecords;
  /** Absent: with a fixed list of members. */
  readonly store?: OrderStore | undefined;
  /** Absent: this process keeps the order in memory alone. */
  readonly file?: StateFile | undefined;
}

/** Who gives an order, and when by the wall clock: for people. */
export type OrderAuthor = Pick<ModelsOrder, "by" | "at">;

const STORE_SOURCE = "the order in the store";
const FILE_SOURCE = "the order in the state file";
/** A process that starts asks the store so long, then does without. */
const OPEN_MS_MAX = 1000;
const OPEN_RETRY_MS = 50;
/** Other orders that may be given between reading the store and writing to it. */
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
  /** The store's text as it was last judged. */
  #judged: JudgedText | undefined;
  /** Of the secret by which this process last signed what it stored. */
  #signedRevision: number;
  #endWatch: (() => void) | undefined;
  #written: Promise<void> = Promise.resolve();
  #isFileFailing = false;
  #fileTimer: Timer | undefined;
  #isClosed = false;

  constructor(parts: OrderBookParts) {
    this.#parts = parts;
    this.#signedRevision = parts.secret.revision;
  }

  /** The order in force as far as this process knows; `undefined`: none was ever given. */
  get newest(): ModelsOrder | undefined {
    return this.#newest;
  }

  /** Resolves when the order in force is in the state file, or could not be written there. */
  get kept(): Promise<void> {
    return this.#written;
  }

  /** Reads what was kept, the store for a second at most, and follows the store from then on. Never rejects. */
  async open(): Promise<void> {
    await this.#readFile();
    const { store, environment } = this.#parts;
    if (store === undefined) return;
    const { clock } = environment;
    const untilMs = clock.nowMs() + OPEN_MS_MAX;
    do {
      try {
        this.#take(this.#judge(await store.read()));
        break;
      } catch {
        // A connection takes its time to open; a store that is away is not waited for.
        await sleep(clock, OPEN_RETRY_MS);
      }
    } while (!this.#isClosed && clock.nowMs() < untilMs);
    if (!this.#isClosed) this.#endWatch = store.watch((text) => this.#onStored(text));
  }

  /** Calls `listener` with every order that takes the place of the one before. Returns an end. */
  follow(listener: (order: ModelsOrder) => void): () => void {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  /** The order in force as it is passed on to a peer; `undefined`: there is none. */
  signed(): string | undefined {
    return this.#newest && this.#sign(this.#newest);
  }

  /**
   * Takes a text from a peer; resolves with the order it says, higher than the known one or not, once
   * that is in the state file (or could not be written there, which is logged).
   * @throws WinnowError UNAUTHENTICATED, PERMISSION_DENIED or INVALID_ARGUMENT for what is not believed
   */
  async offer(signed: string, source: string): Promise<ModelsOrder> {
    const order = this.#read(signed, source);
    this.#take(order);
    await this.#written;
    return order;
  }

  /** What is to be ordered, for a worker to say whether it would follow. @throws WinnowError INVALID_ARGUMENT */
  draft(models: OrderedModels): string {
    const { cluster, secret } = this.#parts;
    const { text } = writeOrder({ cluster, number: 0, by: "", at: "", models });
    return secret.sign("order draft", text);
  }

  /** What a draft says. @throws WinnowError as `offer` */
  readDraft(signed: string): OrderedModels {
    const { cluster, secret } = this.#parts;
    return readOrder(secret.verify("order draft", signed), cluster).models;
  }

  /**
   * Gives an order with a number above all that this process knows and `above`. With a store it is in
   * force once it stands there; without, once this process has it.
   * @throws WinnowError UNAVAILABLE when the store does not answer, ABORTED when others give orders all
   * the time, INVALID_ARGUMENT for what is out of bounds
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
        throw new WinnowError("RESOURCE_EXHAUSTED", "There is no number left for an order");
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

  /** A reading of the store. */
  #onStored(text: string | undefined): void {
    const { store, secret } = this.#parts;
    const stored = this.#judge(text);
    this.#take(stored);
    const newest = this.#newest;
    if (newest === undefined || store === undefined) return;
    // By another secret now, which those that come later may know alone.
    const isSignedAnew = this.#signedRevision !== secret.revision;
    if (isSameOrder(stored, newest) && !isSignedAnew) return;
    this.#signedRevision = secret.revision;
    // A write that fails is repeated after the next reading.
    store.replace(this.#sign(newest), text).catch(() => undefined);
  }

  /** The order that the store's text says; `undefined` for none, and for one that is not believed. */
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
      // It was counted and logged.
    }
    this.#judged = { text, secretRevision, order };
    return order;
  }

  /** An order that had been replaced is in the store again. */
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

  /** Follows an order, if it is higher than the one in force. */
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

  /** Keeps the order in the file, now or, while that fails, later. */
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
