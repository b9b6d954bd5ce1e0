// A lane on virtual time: whose turn it is, what a process that ends takes along, and what is tried again.

import { afterEach, describe, expect, test } from "vitest";
import { ManualClock } from "../../../../test/doubles/manual-clock.ts";
import { tensorFrame } from "./dense-frames.ts";
import type { DenseRequest } from "./dense-frames.ts";
import { DenseLane } from "./dense-lane.ts";
import type { FatalRequest, LaneModel } from "./dense-lane.ts";
import { ScriptedProcesses } from "./doubles/scripted-process.ts";
import type { Scripted } from "./doubles/scripted-process.ts";

const model = (number: number): LaneModel => ({
  number,
  name: `m${number}`,
  onnx: new Uint8Array(16),
});
const lanes: DenseLane[] = [];

function open(script: (request: DenseRequest, process: number) => Scripted) {
  const clock = new ManualClock();
  const processes = new ScriptedProcesses(clock, script);
  const ended: (FatalRequest | undefined)[] = [];
  const lane = new DenseLane({
    clock,
    start: processes.start,
    threads: 1,
    limits: { itemsMax: 256, bytesMax: 2 ** 20 },
    onRun: () => undefined,
    onEnd: (_how, fatal) => ended.push(fatal),
  });
  lanes.push(lane);
  const run = (asked: LaneModel): Promise<number> => {
    const sinceMs = clock.nowMs();
    const header: DenseRequest = { kind: "run", model: asked.number, inputs: [], outputs: [] };
    const frame = tensorFrame(header, []);
    return new Promise((resolve, reject) => {
      const settle = (): void => resolve(clock.nowMs() - sinceMs);
      lane.run({
        model: asked,
        frame,
        bytes: frame.length,
        resolve: settle,
        reject,
        bystood: 0,
        isLeft: false,
      });
    });
  };
  const load = async (asked: LaneModel): Promise<void> => {
    const loaded = lane.load(asked);
    void loaded.catch(() => undefined);
    await clock.advanceSettled(10);
    await loaded;
  };
  return { clock, processes, ended, lane, run, load };
}

afterEach(async () => {
  await Promise.all(lanes.splice(0).map((lane) => lane.close(new Error("closed"))));
});

const [A, B] = [model(1), model(2)];
const costs =
  (runMs: Readonly<Record<number, number>>) =>
  (request: DenseRequest): Scripted =>
    request.kind === "run" ? runMs[request.model]! : 1;

/** Asks as soon as it is answered, until `times` are; gives how long each took. */
async function askTimes(ask: () => Promise<number>, times: number): Promise<number[]> {
  const took: number[] = [];
  while (took.length < times) took.push(await ask());
  return took;
}

describe("turns", () => {
  test("clients of a model that takes a second make another wait for one of its runs at most", async () => {
    const { clock, run, load } = open(costs({ 1: 1000, 2: 1 }));
    await load(A);
    await load(B);

    const long = Array.from({ length: 8 }, () => askTimes(() => run(A), 3));
    const short = askTimes(() => run(B), 500);
    await clock.advanceSettled(60_000);

    expect((await Promise.all(long)).flat()).toHaveLength(24);
    expect(Math.max(...(await short))).toBeLessThanOrEqual(1002);
  });

  test("short runs are sent ahead, so that the process never waits; long ones and loads are not", async () => {
    const { clock, processes, run, load } = open(costs({ 1: 0.5, 2: 50 }));
    await load(A);
    await load(B);
    await Promise.all([run(A), run(B), clock.advanceSettled(100)]);
    const before = processes.asked.length;

    const runs = [A, A, A, A, A, A, B, B].map(run);
    await clock.advanceSettled(200);

    const took = await Promise.all(runs);
    expect(took).toEqual([0.5, 1, 1.5, 2, 2.5, 3, 53, 103]);
    expect(processes.asked.slice(before)).toEqual([
      ...Array.from({ length: 6 }, () => "1 run 1"),
      "1 run 2",
      "1 run 2",
    ]);
  });
});

describe("a process that ends", () => {
  test("is followed by another, which has the models loaded and answers what waited behind", async () => {
    let isFatal = true;
    const { clock, processes, ended, run, load } = open((request) => {
      if (request.kind !== "run") return 1;
      if (request.model === 1) return 0.1;
      return isFatal ? "ends" : 0.1;
    });
    await load(A);
    await load(B);
    await Promise.all([run(A), clock.advanceSettled(5)]);

    const fatal = run(B).catch(() => "lost");
    const behind = [run(A), run(A), run(A)];
    await clock.advanceSettled(1000);
    isFatal = false;

    expect(await Promise.all(behind)).toEqual([1.1, 1.2, 1.3].map((ms) => expect.closeTo(ms)));
    expect(processes.started).toBe(2);
    expect(ended.map((each) => each?.kind)).toEqual(["run"]);
    // The engine decides what becomes of it: the lane only tells.
    await expect(Promise.race([fatal, Promise.resolve("open")])).resolves.toBe("open");
  });

  test("on whose end a run has waited four times: it fails instead of waiting for ever", async () => {
    const { clock, processes, run, load } = open((request) => {
      if (request.kind !== "run") return 1;
      return request.model === 1 ? 0.1 : "ends";
    });
    await load(A);
    await load(B);
    await Promise.all([run(A), clock.advanceSettled(5)]);

    // Each of them is sent while nothing is under way; the run of A follows it.
    for (let at = 0; at < 4; at += 1) void run(B).catch(() => undefined);
    const outcome = run(A).catch((error: unknown) => error);
    await clock.advanceSettled(10_000);

    expect(processes.started).toBe(5);
    expect(await outcome).toEqual(expect.any(Number));
  });

  test("before it has answered anything is followed after a pause that doubles", async () => {
    const { clock, processes, lane } = open(() => 1);
    const failing = new DenseLane({
      clock,
      start: (_threads, listener) => {
        processes.started += 1;
        clock.setTimer(0, () => listener.onEnd("did not start (ENOMEM)"));
        return { send: () => undefined, hold: () => undefined, kill: async () => undefined };
      },
      threads: 1,
      limits: { itemsMax: 1, bytesMax: 1 },
      onRun: () => undefined,
      onEnd: () => undefined,
    });
    lanes.push(failing);
    const startedAtMs: number[] = [];
    const refusals: unknown[] = [];
    while (processes.started < 9) {
      const before = processes.started;
      const load = failing.load(A).catch((error: unknown) => refusals.push(error));
      while (processes.started === before) await clock.advanceSettled(50);
      startedAtMs.push(clock.nowMs());
      await clock.advanceSettled(1);
      await load;
    }

    const pauses = startedAtMs.slice(1).map((ms, at) => ms - startedAtMs[at]!);
    expect(pauses.map((ms) => Math.round(ms / 100) * 100)).toEqual([
      200, 400, 800, 1600, 3200, 6400, 10_000, 10_000,
    ]);
    expect(refusals[0]).toMatchObject({
      code: "UNAVAILABLE",
      message: "The process that runs dense parts did not start (ENOMEM)",
    });
    await lane.close(new Error("closed"));
  });

  test("that is at one request for ten minutes is ended", async () => {
    const { clock, ended, run, load } = open(costs({ 1: 10_000_000 }));
    await load(A);
    void run(A).catch(() => undefined);

    await clock.advanceSettled(599_000);
    const before = ended.length;
    await clock.advanceSettled(2000);

    expect([before, ended.length]).toEqual([0, 1]);
  });
});

describe("a model that is loaded", () => {
  test("is refused for good by what ONNX Runtime says, and for a time where memory is short", async () => {
    const { load } = open((request) => {
      if (request.kind === "load" && request.model === 1) return { refused: "Unknown op Foo" };
      return { refused: "Failed to allocate memory for requested buffer" };
    });

    await expect(load(A)).rejects.toMatchObject({ code: "INVALID_ARGUMENT" });
    await expect(load(B)).rejects.toMatchObject({ code: "RESOURCE_EXHAUSTED" });
  });

  test("that has an operation for types that ONNX Runtime lacks is told what to export", async () => {
    const { load } = open(() => ({
      refused: "Could not find an implementation for Gemm(13) node with name 'node_linear'",
    }));

    await expect(load(A)).rejects.toThrow(
      /node_linear'; ONNX Runtime lacks it for the types .* cast to float32$/u,
    );
  });

  test("and cannot be loaded again is said to be so, and is tried again", async () => {
    let isShort = false;
    const { clock, processes, run, load } = open((request, process) => {
      if (request.kind === "load" && isShort) return { refused: "std::bad_alloc" };
      return request.kind === "run" && process === 1 ? "ends" : 1;
    });
    await load(A);
    isShort = true;
    void run(A).catch(() => undefined);
    await clock.advanceSettled(10);

    const early = run(A).catch((error: unknown) => error);
    await clock.advanceSettled(10);
    isShort = false;
    await clock.advanceSettled(5000);
    const late = run(A);
    await clock.advanceSettled(10);

    expect(await early).toMatchObject({
      code: "UNAVAILABLE",
      message: "Cannot load a dense part of 16 bytes: std::bad_alloc; try again",
    });
    expect(await late).toBe(2);
    expect(processes.started).toBe(2);
  });
});
