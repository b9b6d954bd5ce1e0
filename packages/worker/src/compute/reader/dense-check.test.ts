// Versions whose dense parts ONNX Runtime refuses are not opened.

import type { DenseEngine } from "@winnow/accelerator";
import { WinnowError } from "@winnow/core";
import type { ModelProgram } from "@winnow/core";
import { expect, test } from "vitest";

import { ManualClock } from "../../../../../test/doubles/manual-clock.ts";
import { denseCheck } from "./dense-check.ts";

/** Longer than an engine is kept. */
const LONG_MS = 10_000;

const program = (parts: number): ModelProgram =>
  ({
    denseModels: Array.from({ length: parts }, () => new Uint8Array(1)),
  }) as unknown as ModelProgram;

function engines(error?: WinnowError) {
  const counts = { started: 0, loaded: 0, closed: 0 };
  const clock = new ManualClock();
  const start = (): DenseEngine => {
    counts.started += 1;
    return {
      load: async () => {
        counts.loaded += 1;
        if (error !== undefined && counts.loaded === 2) throw error;
        return { run: async () => new Map(), release: async () => undefined };
      },
      close: async () => void (counts.closed += 1),
    };
  };
  return { counts, clock, check: denseCheck(start, clock) };
}

test("a version is opened where all of its dense parts can be loaded; without any nothing is started", async () => {
  const { counts, clock, check } = engines();

  await check(program(0), "/models/movies/7");
  const idle = { ...counts };
  await check(program(3), "/models/movies/7");
  clock.advance(LONG_MS);

  expect(idle.started).toBe(0);
  expect(counts).toEqual({ started: 1, loaded: 3, closed: 1 });
});

test("versions opened one after the other, or beside each other, are checked in few processes", async () => {
  const { counts, clock, check } = engines();

  await check(program(1), "/models/movies/7");
  clock.advance(1000);
  await check(program(1), "/models/books/1");
  const afterTwo = { ...counts };
  await Promise.all([check(program(1), "/models/a/1"), check(program(1), "/models/b/1")]);
  clock.advance(LONG_MS);

  expect(afterTwo).toEqual({ started: 1, loaded: 2, closed: 0 });
  expect(counts).toEqual({ started: 2, loaded: 4, closed: 2 });
  expect(clock.pendingTimers).toBe(0);
});

test("a version of which one dense part is refused is not opened, and says why", async () => {
  const { counts, check } = engines(new WinnowError("INVALID_ARGUMENT", "no operator Foo"));

  await expect(check(program(3), "/models/movies/7")).rejects.toMatchObject({
    code: "INVALID_ARGUMENT",
    message: "Cannot serve /models/movies/7: no operator Foo",
  });
  expect(counts).toEqual({ started: 1, loaded: 2, closed: 1 });
});

test.each(["RESOURCE_EXHAUSTED", "UNAVAILABLE"] as const)(
  "what this machine lacks (%s) is not held against a version",
  async (code) => {
    const { counts, check } = engines(new WinnowError(code, "std::bad_alloc"));

    await check(program(3), "/models/movies/7");

    expect(counts).toEqual({ started: 1, loaded: 2, closed: 1 });
  },
);
