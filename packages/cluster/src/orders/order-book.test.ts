// Which order a process follows when its file, its store and its peers disagree, and that it writes
// this order wherever it is missing.

import { silentLogger } from "@winnow/core";
import { ManualClock } from "../../../../test/doubles/manual-clock.ts";
import { describe, expect, test } from "vitest";
import type { StateFile } from "../state/state-file.ts";
import { WinnowError } from "@winnow/core";
import { ClusterSecret } from "../trust/cluster-secret.ts";
import { RefusedRecords } from "../trust/refused-records.ts";
import { ORDER_NUMBER_MAX, writeOrder } from "./models-order.ts";
import type { OrderedModel } from "./models-order.ts";
import { OrderBook } from "./order-book.ts";
import type { OrderBookParts } from "./order-book.ts";
import type { OrderStore } from "./order-store.ts";

const clock = new ManualClock();
const environment = { clock, random: () => 0.5, log: silentLogger };
const author = { by: "test", at: "" };
const models = (name = "movies"): OrderedModel[] => [
  { model: name, basePath: `/m/${name}`, policy: { kind: "all" }, labels: new Map() },
];
const secretOf = (...keys: string[]): ClusterSecret =>
  new ClusterSecret({ cluster: "shop", keys, acceptsUnsigned: false });
const SECRET = "0123456789abcdef";

/** A store in memory that may be away. */
class MemoryStore implements OrderStore {
  text: string | undefined;
  isAway = false;
  /** Runs between a read and the delivery of its result. */
  onRead: () => void = () => undefined;
  readonly #listeners = new Set<(text: string | undefined) => void>();

  async read(): Promise<string | undefined> {
    if (this.isAway) throw new Error("Connection is closed.");
    const { text } = this;
    this.onRead();
    return text;
  }

  async replace(text: string, previous: string | undefined): Promise<boolean> {
    if (this.isAway) throw new Error("Connection is closed.");
    if (this.text !== previous) return false;
    this.text = text;
    return true;
  }

  watch(listener: (text: string | undefined) => void): () => void {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  /** All watchers read. */
  async poll(): Promise<void> {
    for (const listener of this.#listeners) listener(this.text);
    await clock.advanceSettled(0);
  }
}

/** A file in memory. */
class MemoryFile implements StateFile {
  text: string | undefined;
  fault: WinnowError | undefined;

  async read(): Promise<string | undefined> {
    if (this.fault !== undefined) throw this.fault;
    return this.text;
  }

  async write(text: string): Promise<void> {
    if (this.fault !== undefined) throw this.fault;
    this.text = text;
  }
}

async function opened(change: Partial<OrderBookParts> = {}) {
  const refused = new RefusedRecords(silentLogger);
  const parts = { environment, cluster: "shop", secret: secretOf(SECRET), refused, ...change };
  const book = new OrderBook(parts);
  const opening = book.open();
  await clock.advanceSettled(2000);
  await opening;
  return Object.assign(book, { refused });
}

const ordered = (number: number, name: string, secret = secretOf(SECRET)): string =>
  secret.sign(
    "order",
    writeOrder({ cluster: "shop", number, by: "", at: "", models: models(name) }).text,
  );

describe("an order book", () => {
  test("gives orders numbers that grow, above what others tell of", async () => {
    const book = await opened();

    const first = await book.make(models(), { author });
    const second = await book.make(undefined, { author, above: 41 });

    expect([first.number, second.number]).toEqual([1, 42]);
    expect(book.newest).toBe(second);
  });

  test("gives none above one that somebody forged with the last number, and says how to be rid of it", async () => {
    const store = new MemoryStore();
    const book = await opened({ store });
    await book.offer(ordered(ORDER_NUMBER_MAX, "forged"), "a peer");

    await expect(book.make(models(), { author })).rejects.toThrow(
      /stop all routers and workers, remove it .*--cluster-secret-file/,
    );
  });

  test("takes what its file, its store or a peer say, if it is higher", async () => {
    const [store, file] = [new MemoryStore(), new MemoryFile()];
    file.text = ordered(3, "filed");
    store.text = ordered(2, "stored");
    const book = await opened({ store, file });
    const followed: number[] = [];
    book.follow(({ number }) => followed.push(number));

    expect(book.newest?.number).toBe(3);
    await book.offer(ordered(5, "told"), "peer");
    await book.offer(ordered(4, "late"), "peer");

    expect(book.newest?.models).toEqual(models("told"));
    expect(followed).toEqual([5]);
    expect(file.text).toBe(ordered(5, "told"));
  });

  test("writes to a store that was flushed, that went back, or that somebody spoilt", async () => {
    const store = new MemoryStore();
    const book = await opened({ store });
    const order = await book.make(models(), { author });
    const stored = store.text!;
    const forged = ordered(9, "forged", secretOf("another secret of somebody"));

    for (const text of [undefined, forged, "spoilt", `${stored} `]) {
      store.text = text;
      await store.poll();
      expect(store.text).toBe(stored);
    }

    expect(book.newest).toBe(order);
    expect(book.refused.counts).toMatchObject({ signature: 3, malformed: 0 });
  });

  test("counts an outdated order that is put back into the store, once, and replaces it", async () => {
    const store = new MemoryStore();
    const book = await opened({ store });
    await book.make(models("a"), { author });
    const outdated = store.text;
    await book.make(models("b"), { author });
    const current = store.text;

    store.text = outdated;
    await store.poll();
    await store.poll();

    expect(store.text).toBe(current);
    expect(book.newest?.number).toBe(2);
    expect(book.refused.counts.stale).toBe(1);
  });

  test("gives no order while the store is away, and says so; knows what the file holds", async () => {
    const [store, file] = [new MemoryStore(), new MemoryFile()];
    file.text = ordered(3, "filed");
    store.isAway = true;
    const book = await opened({ store, file });

    await expect(book.make(models(), { author })).rejects.toMatchObject({
      code: "UNAVAILABLE",
      message: expect.stringContaining("nothing was changed") as string,
    });
    expect(book.newest?.number).toBe(3);

    store.isAway = false;
    await store.poll();
    expect(store.text).toBe(ordered(3, "filed"));
  });

  test("says that it does not know when the store falls silent under the write", async () => {
    const store = new MemoryStore();
    const book = await opened({ store });
    store.onRead = () => (store.isAway = true);

    await expect(book.make(models(), { author })).rejects.toMatchObject({
      code: "UNAVAILABLE",
      message: expect.stringContaining("not known") as string,
    });
    expect(book.newest).toBeUndefined();
  });

  test("counts on above an order that another gave in between; gives up on endless ones", async () => {
    const store = new MemoryStore();
    const book = await opened({ store });
    let others = 1;
    store.onRead = () => {
      if (others > 0) store.text = ordered((others -= 1) + 7, "other");
    };

    const order = await book.make(models(), { author });
    expect(order.number).toBe(8);

    let number = 100;
    store.onRead = () => (store.text = ordered((number += 1), "other"));
    await expect(book.make(models(), { author })).rejects.toMatchObject({ code: "ABORTED" });
  });

  test("two that gave the same number agree once they hear of each other", async () => {
    const [one, other] = [await opened(), await opened()];
    await one.make(models("a"), { author });
    await other.make(models("b"), { author });

    await one.offer(other.signed()!, "other");
    await other.offer(one.signed()!, "one");

    expect(one.newest?.id).toBe(other.newest?.id);
  });

  test("does without a file that is damaged, foreign or full, and counts it", async () => {
    const damaged = new MemoryFile();
    damaged.fault = new WinnowError("DATA_LOSS", "damaged");
    const foreign = new MemoryFile();
    foreign.text = ordered(7, "forged", secretOf("another secret of somebody"));

    const one = await opened({ file: damaged });
    const other = await opened({ file: foreign });
    await one.make(models(), { author });

    expect(one.refused.counts.malformed).toBe(1);
    expect(other.refused.counts.signature).toBe(1);
    expect([one.newest?.number, other.newest]).toEqual([1, undefined]);
    damaged.fault = undefined;
    await clock.advanceSettled(31_000);
    expect(damaged.text).toBe(one.signed());
  });

  test("believes no draft as an order, no order as a draft, and no order of number 0", async () => {
    const book = await opened();
    const zero = writeOrder({ cluster: "shop", number: 0, by: "", at: "", models: models() }).text;

    expect(book.readDraft(book.draft(models()))).toEqual(models());
    await expect(book.offer(book.draft(models()), "peer")).rejects.toMatchObject({
      code: "UNAUTHENTICATED",
    });
    expect(() => book.readDraft(ordered(1, "a"))).toThrow("signed with another secret");
    await expect(book.offer(secretOf(SECRET).sign("order", zero), "peer")).rejects.toMatchObject({
      code: "INVALID_ARGUMENT",
    });
  });

  test("signs the stored order anew when the secret is another", async () => {
    const store = new MemoryStore();
    const secret = secretOf(SECRET);
    const book = await opened({ store, secret });
    await book.make(models(), { author });

    secret.replaceKeys(["fedcba9876543210", SECRET]);
    await store.poll();

    expect(store.text).toBe(book.signed());
    const newcomer = await opened({ store, secret: secretOf("fedcba9876543210") });
    expect(newcomer.newest?.number).toBe(1);
  });
});
