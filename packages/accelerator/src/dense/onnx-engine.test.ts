// The dense engine against tiny models: values of every element type, damaged models, a full queue,
// and a thread that dies. The thread is the compiled one, as Node 20 runs no TypeScript.

import { existsSync } from "node:fs";
import type { Worker } from "node:worker_threads";
import { tensor } from "@winnow/core";
import type { Tensor } from "@winnow/core";
import { afterEach, describe, expect, test } from "vitest";
import type { DenseEngine, DenseModel } from "../dense-engine.ts";
import { createDenseEngine, startDenseThread } from "./onnx-engine.ts";
import { identityModel, matMulModel } from "./fixtures/onnx-writer.ts";

const isBuilt = existsSync(new URL("../../dist/dense/dense-thread.js", import.meta.url));
const opened: DenseEngine[] = [];

function open(options: Parameters<typeof createDenseEngine>[0] = {}): [DenseEngine, Worker[]] {
  const threads: Worker[] = [];
  const engine = createDenseEngine(options, (settings) => {
    const thread = startDenseThread(settings);
    threads.push(thread);
    return thread;
  });
  opened.push(engine);
  return [engine, threads];
}

afterEach(async () => {
  await Promise.all(opened.splice(0).map((engine) => engine.close()));
});

const product = (): Uint8Array => matMulModel(Float32Array.of(1, 2, 3, 10, 20, 30), 2, 3);
const vectors = (): ReadonlyMap<string, Tensor> =>
  new Map([["vectors", tensor("float32", [1, 2], Float32Array.of(1, 1))]]);

async function scoresOf(model: DenseModel): Promise<number[]> {
  const outputs = await model.run(vectors(), ["scores"]);
  const scores = outputs.get("scores");
  return scores?.dtype === "float32" ? [...scores.data] : [];
}

// The thread is compiled by `tsc -b`, which `npm test` runs first.
describe.skipIf(!isBuilt)("dense engine", () => {
  test("runs a model and gives the asked outputs by name, with their shape", async () => {
    const [engine] = open();
    const model = await engine.load(product());

    const outputs = await model.run(vectors(), ["scores"]);

    expect([...outputs.keys()]).toEqual(["scores"]);
    expect(outputs.get("scores")).toEqual(tensor("float32", [1, 3], Float32Array.of(11, 22, 33)));
  });

  const values: readonly Tensor[] = [
    tensor("float32", [3], Float32Array.of(-0, 1.5, NaN)),
    tensor("float64", [2], Float64Array.of(Math.PI, -Infinity)),
    tensor("int32", [2], Int32Array.of(-7, 2 ** 31 - 1)),
    tensor("int64", [2], BigInt64Array.of(-(2n ** 63n), 42n)),
    tensor("bool", [3], Uint8Array.of(1, 0, 1)),
    tensor("uint8", [2], Uint8Array.of(0, 255)),
    tensor("float32", [0], new Float32Array(0)),
  ];

  test.each(values)("carries $dtype values both ways unchanged", async (value) => {
    const [engine] = open();
    const model = await engine.load(identityModel(value.dtype as "float32"));

    const outputs = await model.run(new Map([["x", value]]), ["y"]);

    expect(outputs.get("y")).toEqual(value);
  });

  test("leaves the caller's inputs as they are, also views of larger arrays", async () => {
    const [engine] = open();
    const model = await engine.load(identityModel("float32"));
    const view = Float32Array.of(9, 1, 2, 9).subarray(1, 3);

    const outputs = await model.run(new Map([["x", tensor("float32", [2], view)]]), ["y"]);

    expect(outputs.get("y")?.data).toEqual(Float32Array.of(1, 2));
    expect([...view]).toEqual([1, 2]);
  });

  test.each([
    ["empty", new Uint8Array(0)],
    ["noise", Uint8Array.from({ length: 300 }, (_, index) => (index * 37) % 251)],
    ["a truncated model", product().subarray(0, 60)],
  ])("refuses bytes that are no model: %s", async (_name, bytes) => {
    const [engine] = open();

    await expect(engine.load(bytes)).rejects.toMatchObject({ code: "INVALID_ARGUMENT" });

    const model = await engine.load(product());
    expect(await scoresOf(model)).toEqual([11, 22, 33]);
  });

  test("refuses inputs and outputs the model does not have, and goes on", async () => {
    const [engine] = open();
    const model = await engine.load(product());
    const wrong = new Map([["vectors", tensor("float32", [1, 5], new Float32Array(5))]]);

    const refused = { code: "INVALID_ARGUMENT" };
    await expect(model.run(new Map(), ["scores"])).rejects.toMatchObject(refused);
    await expect(model.run(wrong, ["scores"])).rejects.toMatchObject(refused);
    await expect(model.run(vectors(), ["nothing"])).rejects.toMatchObject(refused);
    expect(await scoresOf(model)).toEqual([11, 22, 33]);
  });

  test("refuses a run beyond the queue's limit instead of growing", async () => {
    const [engine] = open({ queueRunsMax: 2 });
    const model = await engine.load(product());

    const runs = [scoresOf(model), scoresOf(model), scoresOf(model)];

    const settled = await Promise.allSettled(runs);
    expect(settled.map(({ status }) => status)).toEqual(["fulfilled", "fulfilled", "rejected"]);
    await expect(runs[2]).rejects.toMatchObject({ code: "RESOURCE_EXHAUSTED" });
    expect(await scoresOf(model)).toEqual([11, 22, 33]);
  });

  test("a thread that dies fails the runs under way; the next run finds its model", async () => {
    const [engine, threads] = open();
    const first = await engine.load(product());
    const second = await engine.load(identityModel("int32"));
    const lost = scoresOf(first);
    void threads[0]?.terminate();

    await expect(lost).rejects.toMatchObject({ code: "UNAVAILABLE" });

    const input = tensor("int32", [1], Int32Array.of(5));
    const outputs = await second.run(new Map([["x", input]]), ["y"]);
    expect(await scoresOf(first)).toEqual([11, 22, 33]);
    expect(outputs.get("y")).toEqual(input);
    expect(threads).toHaveLength(2);
  });

  test("a released model is gone, others stay", async () => {
    const [engine] = open();
    const first = await engine.load(product());
    const second = await engine.load(product());
    const running = scoresOf(first);

    await first.release();

    expect(await running).toEqual([11, 22, 33]);
    await expect(first.run(vectors(), ["scores"])).rejects.toThrow(RangeError);
    await expect(first.release()).rejects.toThrow(RangeError);
    expect(await scoresOf(second)).toEqual([11, 22, 33]);
  });

  test("a closed engine refuses", async () => {
    const [engine] = open();
    const model = await engine.load(product());
    await engine.close();

    const refused = { code: "UNAVAILABLE" };
    await expect(engine.load(product())).rejects.toMatchObject(refused);
    await expect(model.run(vectors(), ["scores"])).rejects.toMatchObject(refused);
    await engine.close();
  });

  test("a run that nobody waits for never begins, and its place is free again", async () => {
    const [engine] = open({ queueRunsMax: 4 });
    const model = await engine.load(product());
    const reason = new Error("the client has left");
    // Were it run, the engine would refuse it: a vector of three values does not fit.
    const misfit = new Map([["vectors", tensor("float32", [1, 3], new Float32Array(3))]]);

    for (let round = 0; round < 3; round += 1) {
      const leaving = new AbortController();
      const runs = [1, 2, 3].map(() => model.run(misfit, ["scores"], leaving.signal));
      leaving.abort(reason);
      for (const outcome of await Promise.allSettled(runs)) {
        expect(outcome).toEqual({ status: "rejected", reason });
      }
      await expect(model.run(misfit, ["scores"], leaving.signal)).rejects.toBe(reason);
      await expect(model.run(misfit, ["scores"])).rejects.toMatchObject({
        code: "INVALID_ARGUMENT",
      });
    }

    expect(await scoresOf(model)).toEqual([11, 22, 33]);
  });
});

test("a thread that cannot start makes requests fail, not hang", async () => {
  const engine = createDenseEngine({}, (settings) => {
    const thread = startDenseThread(settings);
    void thread.terminate();
    return thread;
  });

  await expect(engine.load(product())).rejects.toMatchObject({ code: "UNAVAILABLE" });
  await engine.close();
});
