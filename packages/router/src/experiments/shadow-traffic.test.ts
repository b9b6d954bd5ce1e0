// Shadow traffic on a clock that moves when told: what is asked, how much of it at a time, and what is dropped.

import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";
import type { Filter, Tensor } from "@winnow/core";
import { WinnowError, fingerprint, nextLoopTurn, stringTensor, tensor } from "@winnow/core";
import { describe, expect, test } from "vitest";
import { ManualClock } from "../../../../test/doubles/manual-clock.ts";
import type { Prediction, PredictRequest } from "../predictor.ts";
import { RequestContext } from "../request-context.ts";
import type { ShadowRecord } from "../router-observer.ts";
import { resolveRouterOptions } from "../router-settings.ts";
import type { RouterOptions } from "../router-settings.ts";
import { ShadowTraffic } from "./shadow-traffic.ts";
import type { ShadowOffer } from "./shadow-traffic.ts";

/** As docs/experiments.md has them. */
const SHADOWS_MAX = 4;
const SHADOWS_WAITING_MAX = 32;

const signature = {
  name: "serving_default",
  methodName: "",
  inputs: [{ name: "user", dtype: "string", shape: [-1], value: 0, graphTensor: "" } as const],
  outputs: [],
  constants: [],
  steps: [],
};

const idsOf = (...ids: readonly string[]): Prediction => ({
  version: { model: "movies", version: 3, fingerprint: fingerprint("f") },
  outputs: new Map([["ids", stringTensor(ids, [1, ids.length])]]),
  coverage: 1,
});

class Bench {
  readonly clock = new ManualClock();
  readonly records: ShadowRecord[] = [];
  readonly asked: PredictRequest[] = [];
  isBusy = false;
  drawn = 0;
  readonly traffic: ShadowTraffic;

  constructor(limits: RouterOptions = {}) {
    this.traffic = new ShadowTraffic({
      clock: this.clock,
      random: () => this.drawn,
      isBusy: () => this.isBusy,
      onShadow: (record) => void this.records.push(record),
      limits: resolveRouterOptions(limits),
    });
  }

  offer(words: Partial<ShadowOffer> & { readonly users?: Tensor } = {}): void {
    const { users = stringTensor(["42"]), ask = () => Promise.resolve(idsOf("a", "b")) } = words;
    const context = new RequestContext(this.clock, { timeoutMs: 1000 });
    context.finish();
    this.traffic.offer({
      model: "feed",
      shadow: { share: 0.5, budgetMs: 200 },
      request: { signature, inputs: new Map([["user", users]]), context },
      given: idsOf("a", "b"),
      ...words,
      ask: (request) => {
        this.asked.push(request);
        return ask(request);
      },
    });
  }

  /** Told outcomes, with their reasons. */
  get outcomes(): string[] {
    return this.records.map(({ outcome, reason }) => [outcome, reason].join(" ").trim());
  }
}

/** Frees what nothing holds. */
function collect(): void {
  setFlagsFromString("--expose-gc");
  (runInNewContext("gc") as () => void)();
  setFlagsFromString("--no-expose-gc");
}

/** Answers nothing, and heeds nothing. */
const frozen = () => new Promise<Prediction>(() => undefined);

test("what is not compared is not kept: attributes and vectors of the answer, and the client's request", async () => {
  const bench = new Bench();
  const weakly = ((): readonly WeakRef<object>[] => {
    const [attributes, vectors] = [stringTensor(["{}"]), stringTensor(["vector"])];
    const header = (name: string): string => name;
    const context = new RequestContext(bench.clock, { timeoutMs: 1000 });
    context.finish();
    const inputs = new Map([["user", stringTensor(["42"])]]);
    const wanted = { attributes: ["year"], vectors: true, header };
    bench.offer({
      request: { signature, inputs, context, ...wanted },
      given: { ...idsOf("a"), attributes, vectors },
      ask: frozen,
    });
    return [attributes, vectors, header].map((each) => new WeakRef(each));
  })();
  const whatIsHeld = async (): Promise<number> => {
    // What a weak reference was made of is held until the end of the turn.
    await nextLoopTurn();
    collect();
    return weakly.filter((each) => each.deref() !== undefined).length;
  };

  const waiting = await whatIsHeld();
  await bench.clock.advanceSettled(1);
  const running = await whatIsHeld();

  expect([waiting, running]).toEqual([0, 0]);
  expect(bench.asked[0]).toMatchObject({ attributes: undefined, vectors: undefined });
});

describe("a shadow is asked", () => {
  test("for its share of requests, behind the answer of the client", async () => {
    const bench = new Bench();

    bench.drawn = 0.5;
    bench.offer();
    bench.drawn = 0.499;
    bench.offer();
    const before = bench.asked.length;
    await bench.clock.advanceSettled(1);

    expect(before).toBe(0);
    expect(bench.asked).toHaveLength(1);
    expect(bench.outcomes).toEqual(["same"]);
  });

  test("and its answers are compared: the same, reordered, different, or a failure with its code", async () => {
    const bench = new Bench();
    const gone = new WinnowError("UNAVAILABLE", "it is gone");

    bench.offer({ ask: () => Promise.resolve(idsOf("b", "a")) });
    bench.offer({ ask: () => Promise.resolve(idsOf("a", "c")) });
    bench.offer({ ask: () => Promise.reject(gone) });
    await bench.clock.advanceSettled(1);

    expect(bench.outcomes).toEqual(["reordered", "different", "failed UNAVAILABLE"]);
  });

  test("whatever it answers: other outputs, types or shapes, none, nothing at all, or a fault at once", async () => {
    const bench = new Bench();
    const answers: readonly unknown[] = [
      { outputs: new Map() },
      { outputs: new Map([["other", stringTensor(["a", "b"], [1, 2])]]) },
      { outputs: new Map([["ids", tensor("int64", [1, 2], new BigInt64Array(2))]]) },
      { outputs: new Map([["ids", stringTensor(["a", "b"], [2, 1])]]) },
      { outputs: new Map([["ids", stringTensor([], [0, 2])]]) },
      undefined,
    ];
    for (const answer of answers) {
      bench.offer({ ask: () => Promise.resolve(answer as Prediction) });
      await bench.clock.advanceSettled(1);
    }
    bench.offer({
      ask: () => {
        throw new RangeError("no such table");
      },
    });
    await bench.clock.advanceSettled(1);

    expect(bench.outcomes).toEqual([
      ...Array.from({ length: 5 }, () => "different"),
      "failed INTERNAL",
      "failed INTERNAL",
    ]);
    expect(bench.traffic.running).toBe(0);
  });

  test("within its own budget, not within the time of the client", async () => {
    const bench = new Bench();

    bench.offer({ ask: frozen });
    await bench.clock.advanceSettled(1);
    const [request] = bench.asked;
    const isRunning = request!.context.signal.aborted;
    await bench.clock.advanceSettled(200);

    expect(isRunning).toBe(false);
    expect(request!.context.signal.aborted).toBe(true);
    expect(bench.outcomes).toEqual(["late"]);
    expect(bench.records[0]).toMatchObject({ model: "feed", elapsedMs: 200 });
  });
});

describe("a shadow that hangs", () => {
  test("has a few places and a short queue, and what goes beyond is dropped at once", async () => {
    const bench = new Bench();
    const offered = 2 * (SHADOWS_MAX + SHADOWS_WAITING_MAX);

    for (let at = 0; at < offered; at += 1) {
      bench.offer({ ask: frozen });
      if (at === SHADOWS_MAX) await bench.clock.advanceSettled(1);
    }
    const { running } = bench.traffic;
    const dropped = bench.outcomes.filter((outcome) => outcome === "dropped full").length;

    expect(running).toBe(SHADOWS_MAX);
    expect(bench.asked).toHaveLength(SHADOWS_MAX);
    expect(dropped).toBe(offered - SHADOWS_MAX - SHADOWS_WAITING_MAX);
  });

  test.each<[RouterOptions, number, number]>([
    [{ shadowsMax: 2 }, 2, SHADOWS_WAITING_MAX],
    [{ shadowsWaitingMax: 5 }, SHADOWS_MAX, 5],
    [{ shadowsWaitingMax: 0 }, SHADOWS_MAX, 0],
    [{ shadowBytesMax: 1 }, 0, 0],
  ])(
    "has as many places, and as long a queue, as settings say: %j",
    async (limits, running, waiting) => {
      const bench = new Bench(limits);

      for (let at = 0; at < 60; at += 1) {
        bench.offer({ ask: frozen });
        if (at === SHADOWS_MAX) await bench.clock.advanceSettled(1);
      }

      const dropped = bench.outcomes.filter((outcome) => outcome === "dropped full").length;
      expect([bench.traffic.running, 60 - dropped]).toEqual([running, running + waiting]);
    },
  );

  test("gives its places back when its budget ends; what has waited as long is not asked any more", async () => {
    const bench = new Bench();
    for (let at = 0; at < SHADOWS_MAX + 2; at += 1) bench.offer({ ask: frozen });

    await bench.clock.advanceSettled(250);
    bench.offer();
    await bench.clock.advanceSettled(1);

    expect(bench.outcomes.toSorted((a, b) => (a < b ? -1 : 1))).toEqual([
      "dropped full",
      "dropped full",
      ...Array.from({ length: SHADOWS_MAX }, () => "late"),
      "same",
    ]);
    expect(bench.traffic.running).toBe(0);
  });
});

describe("a shadow is dropped", () => {
  test("while clients wait, also if it has been queued before", async () => {
    const bench = new Bench();

    bench.offer();
    bench.isBusy = true;
    bench.offer();
    await bench.clock.advanceSettled(1);

    expect(bench.outcomes).toEqual(["dropped busy", "dropped busy"]);
    expect(bench.asked).toEqual([]);
  });

  test("of a large batch, and of an answer of many values", async () => {
    const bench = new Bench();
    const many = Array.from({ length: 16_385 }, (_, at) => `${at}`);

    bench.offer({ users: stringTensor(Array.from({ length: 33 }, () => "42")) });
    bench.offer({ given: idsOf(...many) });
    await bench.clock.advanceSettled(1);

    expect(bench.outcomes).toEqual(["dropped large", "dropped large"]);
  });

  test("where the filters of requests hold much memory", async () => {
    const bench = new Bench();
    const values = Array.from({ length: 65_000 }, (_, at) => `value ${at}`);
    const test = { kind: "test", attribute: "genre", is: "in", values } as const;
    const filter: Filter[] = [{ kind: "not", of: { kind: "and", of: [test, test] } }];
    const context = new RequestContext(bench.clock, { timeoutMs: 1000 });
    context.finish();
    const inputs = new Map([["user", stringTensor(["42"])]]);

    for (let at = 0; at < 3; at += 1) {
      bench.offer({ request: { signature, inputs, context, filter } });
    }
    await bench.clock.advanceSettled(1);

    expect(bench.outcomes).toEqual(["dropped full", "same", "same"]);
  });

  test("where requests hold much memory, also by a small view of a large body", async () => {
    const bench = new Bench();
    const body = new ArrayBuffer(12 * 1024 * 1024);
    const view = (): Tensor => tensor("int8", [1], new Int8Array(body, 7, 1));

    bench.offer({ users: view() });
    bench.offer({ users: view() });
    await bench.clock.advanceSettled(1);
    bench.offer({ users: view() });
    await bench.clock.advanceSettled(1);

    expect(bench.outcomes).toEqual(["dropped full", "same", "same"]);
  });

  test("when the router drains, and what runs is ended", async () => {
    const bench = new Bench();
    for (let at = 0; at < SHADOWS_MAX + 1; at += 1) bench.offer({ ask: frozen });
    await bench.clock.advanceSettled(1);

    bench.traffic.close();
    bench.offer();
    await bench.clock.advanceSettled(1);

    expect(bench.outcomes).toEqual([
      "dropped closed",
      ...Array.from({ length: SHADOWS_MAX }, () => "failed CANCELLED"),
    ]);
    expect(bench.traffic.running).toBe(0);
  });
});

test("answers that lack something are not compared", async () => {
  const bench = new Bench();
  const degradations = [{ stage: "rank", reason: "late" } as const];

  bench.offer({ given: { ...idsOf("a"), coverage: 0.5 } });
  bench.offer({ given: { ...idsOf("a"), degradations } });
  await bench.clock.advanceSettled(1);

  expect([bench.outcomes, bench.asked]).toEqual([[], []]);
});
