// Who waits for filters, who does not, and who is told.

import { WinnowError } from "@winnow/core";
import { describe, expect, test } from "vitest";

import { FilterPreparations } from "./filter-preparation.ts";
import type { Preparation } from "./filter-preparation.ts";

interface Asked {
  readonly texts: readonly string[];
  readonly signal: AbortSignal;
  readonly done: () => Promise<void>;
  readonly failed: (error: Error) => Promise<void>;
}

/** Until whoever waits has been told. */
const heard = (): Promise<void> => new Promise((resolve) => void setImmediate(resolve));

class Bench {
  readonly preparations = new FilterPreparations(10);
  readonly asked: Asked[] = [];
  readonly events: string[] = [];

  take(key: object, texts: readonly string[], more: Partial<Preparation> = {}): string {
    return this.preparations.take(key, {
      scope: "content 1",
      texts,
      rows: 4,
      prepare: (unknown, signal) =>
        new Promise<void>((resolve, reject) => {
          this.asked.push({
            texts: unknown,
            signal,
            done: async () => {
              resolve();
              await heard();
            },
            failed: async (error) => {
              reject(error);
              await heard();
            },
          });
        }),
      onReady: () => this.events.push("ready"),
      onFailure: ({ code }) => this.events.push(code),
      ...more,
    });
  }
}

describe("FilterPreparations", () => {
  test("a query waits once for each text that is not known, and goes on when all are", async () => {
    const bench = new Bench();
    expect(bench.take({}, ["a", "b", "a"])).toBe("waits");
    expect(bench.asked[0]!.texts).toEqual(["a", "b"]);
    expect(bench.preparations.rows).toBe(4);
    await bench.asked[0]!.done();
    expect(bench.events).toEqual(["ready"]);
    expect(bench.preparations.rows).toBe(0);
    expect(bench.take({}, ["b"])).toBe("ready");
    expect(bench.take({}, ["b", "c"])).toBe("waits");
    expect(bench.asked[1]!.texts).toEqual(["c"]);
    expect(bench.take({}, ["a"], { scope: "content 2" })).toBe("waits");
  });

  test("a failure is told, and nothing is known after it", async () => {
    const bench = new Bench();
    bench.take({}, ["a"]);
    await bench.asked[0]!.failed(new WinnowError("FAILED_PRECONDITION", "gone"));
    expect(bench.events).toEqual(["FAILED_PRECONDITION"]);
    expect(bench.take({}, ["a"])).toBe("waits");
  });

  test("nobody is told for a query that is forgotten, and its filters are not found out further", async () => {
    const bench = new Bench();
    const key = {};
    bench.take(key, ["a"]);
    expect(bench.preparations.forget(key)).toBe(true);
    expect(bench.preparations.forget(key)).toBe(false);
    expect(bench.preparations.rows).toBe(0);
    expect(bench.asked[0]!.signal.aborted).toBe(true);
    await bench.asked[0]!.done();
    expect(bench.events).toEqual([]);
    // What was found out before it heard of that is known.
    expect(bench.take({}, ["a"])).toBe("ready");
    bench.take({}, ["b"]);
    await bench.asked[1]!.done();
    expect(bench.asked[1]!.signal.aborted).toBe(false);
  });

  test("beyond its rows queries are refused; one alone may have more", () => {
    const bench = new Bench();
    expect(bench.take({}, ["a"], { rows: 100 })).toBe("waits");
    expect(bench.take({}, ["b"], { rows: 1 })).toBe("refused");
    const other = new Bench();
    expect(["a", "b", "c"].map((text) => other.take({}, [text]))).toEqual([
      "waits",
      "waits",
      "refused",
    ]);
  });

  test("of many texts the ones used last are remembered", async () => {
    const bench = new Bench();
    const states = new Set<string>();
    for (let at = 0; at < 4200; at += 1) {
      if (bench.take({}, [`text ${at}`]) === "waits") await bench.asked.at(-1)!.done();
      if (at % 100 === 0) states.add(bench.take({}, ["text 0"]));
    }
    expect([...states]).toEqual(["ready"]);
    expect(bench.take({}, ["text 0"])).toBe("ready");
    expect(bench.take({}, ["text 1"])).toBe("waits");
    const long = "x".repeat(2 ** 22);
    bench.take({}, [long], { rows: 0 });
    await bench.asked.at(-1)!.done();
    expect(bench.take({}, ["text 0"], { rows: 0 })).toBe("waits");
  });
});
