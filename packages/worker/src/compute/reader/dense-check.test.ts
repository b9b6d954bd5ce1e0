// Versions whose dense parts ONNX Runtime refuses are not opened.

import type { DenseEngine, DenseModel, DenseShapes } from "@winnow/accelerator";
import { WinnowError, elementCount, nextLoopTurn, tensor } from "@winnow/core";
import type { ModelProgram, Tensor } from "@winnow/core";
import { describe, expect, test } from "vitest";

import { ManualClock } from "../../../../../test/doubles/manual-clock.ts";
import { denseCheck } from "./dense-check.ts";
import { type KeptShapes, noShapes } from "./kept-shapes.ts";

/** Longer than an engine is kept. */
const LONG_MS = 10_000;

const program = (parts: number): ModelProgram =>
  ({
    denseModels: Array.from({ length: parts }, () => new Uint8Array(1)),
    signatures: [],
  }) as unknown as ModelProgram;

function engines(
  error?: WinnowError,
  shapes: readonly DenseShapes[] = [],
  {
    run = async () => new Map(),
    kept = noShapes,
  }: { readonly run?: DenseModel["run"]; readonly kept?: KeptShapes } = {},
) {
  const counts = { started: 0, loaded: 0, closed: 0 };
  const clock = new ManualClock();
  const start = (): DenseEngine => {
    counts.started += 1;
    return {
      load: async () => {
        counts.loaded += 1;
        if (error !== undefined && counts.loaded === 2) throw error;
        const known = shapes[counts.loaded - 1];
        return { shapes: known, run, release: async () => undefined };
      },
      close: async () => void (counts.closed += 1),
    };
  };
  return { counts, clock, check: denseCheck(start, clock, kept) };
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

/** What is kept, by the first byte of a part. */
function inMemory(): KeptShapes {
  const kept = new Map<number, DenseShapes>();
  return {
    get: (onnx) => kept.get(onnx[0]!),
    keep: (onnx, shapes) => void kept.set(onnx[0]!, shapes),
  };
}

test("parts that were loaded before are not loaded again; a refusal is not kept", async () => {
  const none: DenseShapes = { inputs: {}, outputs: {} };
  const refused = new WinnowError("INVALID_ARGUMENT", "no operator Foo");
  const { counts, check } = engines(refused, [none, none, none], { kept: inMemory() });
  const parts = (...bytes: readonly number[]): ModelProgram => ({
    ...program(0),
    denseModels: bytes.map((byte) => Uint8Array.of(byte)),
  });

  await check(parts(1), "/models/movies/7");
  await check(parts(1), "/models/movies/8");
  const afterTwo = counts.loaded;
  await expect(check(parts(2), "/models/movies/9")).rejects.toThrow("no operator Foo");
  await check(parts(1, 2), "/models/movies/10");

  expect(afterTwo).toBe(1);
  expect(counts.loaded).toBe(4);
});

describe("a query whose width the export does not declare", () => {
  /** A tower, and a part behind it that brings the query to length 1, over a table of 4 values. */
  const search = (steps: readonly unknown[]): ModelProgram =>
    ({
      denseModels: [new Uint8Array(1), new Uint8Array(1)],
      tables: [{ name: "items", dim: 4 }],
      signatures: [{ inputs: [], steps }],
    }) as unknown as ModelProgram;
  const dense = (model: number) => ({
    kind: "dense",
    model,
    inputs: [{ name: "x", value: model }],
    outputs: [{ name: "y", value: model + 1 }],
  });
  const topK = (query: number) => ({ kind: "topK", table: 0, query });
  const part = (input: readonly number[], output: readonly number[]): DenseShapes => ({
    inputs: { x: input },
    outputs: { y: output },
  });

  test.each([
    ["another width", [-1, 6], "?,6"],
    ["one vector for all instances", [4], "4"],
  ])("is refused where ONNX Runtime finds %s", async (_title, found, told) => {
    const { check } = engines(undefined, [part([-1, 2], found)]);

    await expect(check(search([dense(0), topK(1)]), "/models/movies/7")).rejects.toMatchObject({
      code: "INVALID_ARGUMENT",
      message: `Cannot serve /models/movies/7: output "y" of its graph is [${told}] where the search of "items" takes [?,4]; export both of one training`,
    });
  });

  test("is refused where the part behind it takes another one", async () => {
    const { check } = engines(undefined, [part([-1, 2], [-1, 6]), part([-1, 4], [-1, 4])]);

    const checked = check(search([dense(0), dense(1), topK(2)]), "/models/movies/7");

    await expect(checked).rejects.toThrow("where the next part takes [?,4]");
  });

  test("is refused without a process where its parts were loaded before", async () => {
    const { counts, check } = engines(undefined, [part([-1, 2], [-1, 6])], { kept: inMemory() });
    const wrong = { ...search([dense(0), topK(1)]), denseModels: [Uint8Array.of(7)] };

    const refusals = [];
    for (const directory of ["/models/movies/7", "/models/movies/8"]) {
      refusals.push(await check(wrong, directory).catch(String));
    }

    expect(refusals).toEqual([
      expect.stringContaining("Cannot serve /models/movies/7: output"),
      expect.stringContaining("Cannot serve /models/movies/8: output"),
    ]);
    expect(counts.loaded).toBe(1);
  });

  test.each([
    ["the width is that of the items", [part([-1, 2], [-1, 4])]],
    ["it is known at a run only", [part([-1, 2], [-1, -1])]],
    ["not even the number of sizes is known", [part([-1, 2], [])]],
    ["the engine does not tell", []],
  ])("is served where %s", async (_title, shapes) => {
    const { check } = engines(undefined, shapes);

    await expect(check(search([dense(0), topK(1)]), "/models/movies/7")).resolves.toBeUndefined();
  });
});

describe("a query whose width only a run tells", () => {
  const sent = (dtype: string, shape: readonly number[]) => ({ value: 0, dtype, shape });
  /** A tower that reads a vector of 2 values and a number, over a table of 4 values. */
  const search = (input: object = sent("float32", [-1, 2]), when?: object): ModelProgram =>
    ({
      denseModels: [new Uint8Array(1)],
      tables: [{ name: "items", dim: 4 }],
      signatures: [
        {
          inputs: [input, { value: 5, dtype: "int64", shape: [-1] }],
          steps: [
            {
              kind: "dense",
              model: 0,
              inputs: [
                { name: "x", value: 0 },
                { name: "age", value: 5 },
              ],
              outputs: [{ name: "y", value: 1 }],
              ...(when !== undefined && { when }),
            },
            { kind: "topK", table: 0, query: 1 },
          ],
        },
      ],
    }) as unknown as ModelProgram;
  const unknown: DenseShapes = { inputs: {}, outputs: { y: [-1, -1] } };
  const asked: (readonly [string, Tensor])[] = [];
  const gives =
    (shape: readonly number[]): DenseModel["run"] =>
    async (inputs) => {
      asked.push(...inputs);
      return new Map([["y", tensor("float32", shape, new Float32Array(elementCount(shape)))]]);
    };

  test("is tried with zeros for one instance, and refused where it is another one", async () => {
    asked.length = 0;
    const { check, counts } = engines(undefined, [unknown], { run: gives([1, 6]) });

    await expect(check(search(), "/models/movies/7")).rejects.toMatchObject({
      code: "INVALID_ARGUMENT",
      message:
        'Cannot serve /models/movies/7: output "y" of its graph is [?,6] where the search of "items" takes [?,4]; export both of one training',
    });

    expect(asked).toEqual([
      ["x", tensor("float32", [1, 2], new Float32Array(2))],
      ["age", tensor("int64", [1], new BigInt64Array(1))],
    ]);
    expect(counts.closed).toBe(1);
  });

  test("is tried again at the next start, though its part was loaded before", async () => {
    const kept = inMemory();
    kept.keep(new Uint8Array(1), unknown);
    const { check } = engines(undefined, [unknown], { run: gives([1, 6]), kept });

    await expect(check(search(), "/models/movies/7")).rejects.toThrow("takes [?,4]");
  });

  test("is served where it is that of the items, and the engine is kept", async () => {
    const { check, counts } = engines(undefined, [unknown], { run: gives([1, 4]) });

    await check(search(), "/models/movies/7");

    expect(counts).toEqual({ started: 1, loaded: 1, closed: 0 });
  });

  test.each<[string, DenseModel["run"]]>([
    ["fails", async () => Promise.reject(new WinnowError("INTERNAL", "ended with SIGFPE"))],
    ["gives another number of sizes", gives([6])],
    ["gives nothing", async () => new Map()],
  ])(
    "is not held against a version whose run %s; its process is not used again",
    async (_title, run) => {
      const { check, counts } = engines(undefined, [unknown], { run });

      await check(search(), "/models/movies/7");

      expect(counts).toEqual({ started: 1, loaded: 1, closed: 1 });
    },
  );

  test("is not waited for longer than five seconds", async () => {
    const { check, counts, clock } = engines(undefined, [unknown], {
      run: () => new Promise(() => undefined),
    });

    const checked = check(search(), "/models/movies/7");
    await nextLoopTurn();
    clock.advance(5000);
    await checked;

    expect(counts).toEqual({ started: 1, loaded: 1, closed: 1 });
    expect(clock.pendingTimers).toBe(0);
  });

  test.each([
    ["takes a text", search(sent("string", [-1, 2]))],
    ["takes as many values as a client sends", search(sent("float32", [-1, -1]))],
    ["takes a million values and more", search(sent("float32", [-1, 2 ** 21]))],
    ["takes what another step gives", search({ value: 3, dtype: "float32", shape: [-1, 2] })],
    ["runs under a condition", search(undefined, { predicate: 9, isTrue: true })],
  ])("is not tried where the part %s", async (_title, tried) => {
    asked.length = 0;
    const { check } = engines(undefined, [unknown], { run: gives([1, 6]) });

    await check(tried, "/models/movies/7");

    expect(asked).toEqual([]);
  });
});
