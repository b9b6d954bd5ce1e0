// The dense engine against tiny models: values of every element type, damaged models, a full queue, and
// requests that end ONNX Runtime's process. The process is the compiled one, as Node 20 runs no TypeScript.

import { cpSync, existsSync, mkdtempSync, readdirSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { pathToFileURL } from "node:url";
import { tensor } from "@winnow/core";
import type { Tensor } from "@winnow/core";
import { afterEach, describe, expect, onTestFinished, test, vi } from "vitest";
import type { DenseEngine, DenseModel, DenseOwner } from "./dense-engine.ts";
import { createDenseEngine } from "./onnx-engine.ts";
import { concatModel, identityModel, matMulModel, quotientModel } from "./fixtures/onnx-writer.ts";
import { startDenseProcess } from "./process-start.ts";
import type { DenseProcess } from "./process-start.ts";

const isBuilt = existsSync(new URL("../../dist/dense/dense-process.js", import.meta.url));
const bundle = path.resolve(import.meta.dirname, "../../../winnow/dist/bundle");
const opened: DenseEngine[] = [];

const OWNER: DenseOwner = { model: "movies", version: 3 };

function open(options: Parameters<typeof createDenseEngine>[0] = {}) {
  const processes: DenseProcess[] = [];
  const ended: string[][] = [];
  const apart: string[] = [];
  const observer = {
    processEnded: (...told: [string, string, string]) => void ended.push(told),
    setApart: (title: string, why: string) => void apart.push(`${title}: ${why}`),
  };
  const engine = createDenseEngine({ ...options, observer }, (threads, listener) => {
    const started = startDenseProcess(threads, listener);
    processes.push(started);
    return started;
  });
  opened.push(engine);
  return { engine, processes, ended, apart };
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

// The process is compiled by `tsc -b`, which `npm test` runs first.
describe.skipIf(!isBuilt)("dense engine", () => {
  test("runs a model and gives the asked outputs by name, with their shape", async () => {
    const { engine } = open();
    const model = await engine.load(product(), OWNER);

    const outputs = await model.run(vectors(), ["scores"]);

    expect([...outputs.keys()]).toEqual(["scores"]);
    expect(outputs.get("scores")).toEqual(tensor("float32", [1, 3], Float32Array.of(11, 22, 33)));
  });

  test("leaves no file behind, and no identifier of the machine", async () => {
    const folder = mkdtempSync(path.join(tmpdir(), "winnow-dense-"));
    onTestFinished(() => rmSync(folder, { recursive: true }));
    for (const name of ["HOME", "XDG_CACHE_HOME", "TMPDIR"]) vi.stubEnv(name, folder);
    vi.stubEnv("ORT_DISABLE_TELEMETRY", undefined);
    onTestFinished(() => void vi.unstubAllEnvs());
    const { engine } = open();

    await scoresOf(await engine.load(product(), OWNER));
    await engine.close();

    expect(readdirSync(folder, { recursive: true })).toEqual([]);
  });

  test("tells the shapes of a loaded model, -1 where a size is known at a run only", async () => {
    const { engine } = open();

    const { shapes } = await engine.load(product(), OWNER);

    expect(shapes).toEqual({ inputs: { vectors: [-1, -1] }, outputs: { scores: [-1, 3] } });
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
    const { engine } = open();
    const model = await engine.load(identityModel(value.dtype as "float32"), OWNER);

    const outputs = await model.run(new Map([["x", value]]), ["y"]);

    expect(outputs.get("y")).toEqual(value);
  });

  test("leaves the caller's inputs as they are, also views of larger arrays", async () => {
    const { engine } = open();
    const model = await engine.load(identityModel("float32"), OWNER);
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
    const { engine } = open();

    await expect(engine.load(bytes, OWNER)).rejects.toMatchObject({ code: "INVALID_ARGUMENT" });

    const model = await engine.load(product(), OWNER);
    expect(await scoresOf(model)).toEqual([11, 22, 33]);
  });

  test("refuses inputs and outputs the model does not have, and goes on", async () => {
    const { engine } = open();
    const model = await engine.load(product(), OWNER);
    const wrong = new Map([["vectors", tensor("float32", [1, 5], new Float32Array(5))]]);

    const refused = { code: "INVALID_ARGUMENT" };
    await expect(model.run(new Map(), ["scores"])).rejects.toMatchObject(refused);
    await expect(model.run(wrong, ["scores"])).rejects.toMatchObject(refused);
    await expect(model.run(vectors(), ["nothing"])).rejects.toMatchObject(refused);
    expect(await scoresOf(model)).toEqual([11, 22, 33]);
  });

  test("refuses a run beyond the queue's limit instead of growing", async () => {
    const { engine } = open({ queueRunsMax: 1 });
    const model = await engine.load(product(), OWNER);

    // The first is under way; of no model is known before its first run how long it takes.
    const runs = [scoresOf(model), scoresOf(model), scoresOf(model)];

    const settled = await Promise.allSettled(runs);
    expect(settled.map(({ status }) => status)).toEqual(["fulfilled", "fulfilled", "rejected"]);
    await expect(runs[2]).rejects.toMatchObject({ code: "RESOURCE_EXHAUSTED" });
    expect(await scoresOf(model)).toEqual([11, 22, 33]);
  });

  test("a process that is killed fails no run; the next one finds its models", async () => {
    const { engine, processes, ended } = open();
    const first = await engine.load(product(), OWNER);
    const second = await engine.load(identityModel("int32"), { model: "other", version: 1 });
    const running = scoresOf(first);
    void processes[0]?.kill();

    const input = tensor("int32", [1], Int32Array.of(5));
    const outputs = await second.run(new Map([["x", input]]), ["y"]);

    expect(await running).toEqual([11, 22, 33]);
    expect(await scoresOf(first)).toEqual([11, 22, 33]);
    expect(outputs.get("y")).toEqual(input);
    expect(ended).toEqual([["main", "ended with SIGKILL", "model movies version 3"]]);
  });

  test("a released model is gone, others stay", async () => {
    const { engine } = open();
    const first = await engine.load(product(), OWNER);
    const second = await engine.load(product(), OWNER);
    const running = scoresOf(first);

    await first.release();

    expect(await running).toEqual([11, 22, 33]);
    await expect(first.run(vectors(), ["scores"])).rejects.toThrow(RangeError);
    await expect(first.release()).rejects.toThrow(RangeError);
    expect(await scoresOf(second)).toEqual([11, 22, 33]);
  });

  test("loads the same bytes of a version once, and lets go of them with the last that holds them", async () => {
    const { engine, processes } = open();
    const first = await engine.load(product(), OWNER);
    const send = vi.spyOn(processes[0]!, "send");

    const second = await engine.load(product(), OWNER);
    expect(send).not.toHaveBeenCalled();
    const other = await engine.load(product(), { ...OWNER, version: OWNER.version + 1 });
    expect(send).toHaveBeenCalledOnce();

    await first.release();
    expect(await scoresOf(second)).toEqual([11, 22, 33]);
    await second.release();

    await expect(second.run(vectors(), ["scores"])).rejects.toThrow(RangeError);
    expect(await scoresOf(other)).toEqual([11, 22, 33]);
  });

  test("a closed engine refuses", async () => {
    const { engine } = open();
    const model = await engine.load(product(), OWNER);
    await engine.close();

    const refused = { code: "UNAVAILABLE" };
    await expect(engine.load(product(), OWNER)).rejects.toMatchObject(refused);
    await expect(model.run(vectors(), ["scores"])).rejects.toMatchObject(refused);
    await engine.close();
  });

  test("a run that nobody waits for never begins, and its place is free again", async () => {
    const { engine } = open({ queueRunsMax: 4 });
    const model = await engine.load(product(), OWNER);
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

const quotient = (x: number, y: number): ReadonlyMap<string, Tensor> =>
  new Map([
    ["x", tensor("int32", [1], Int32Array.of(x))],
    ["y", tensor("int32", [1], Int32Array.of(y))],
  ]);

describe.skipIf(!isBuilt)("a request that ends ONNX Runtime's process", () => {
  const fatal = [
    {
      name: "a division that the processor traps",
      onnx: quotientModel(),
      inputs: quotient(-(2 ** 31), -1),
      ends: "SIGFPE",
    },
    {
      name: "a Concat with an empty tensor of another rank",
      onnx: concatModel(),
      inputs: new Map<string, Tensor>([
        ["x", tensor("float32", [0], new Float32Array(0))],
        ["s", tensor("int64", [1], BigInt64Array.of(0n))],
        ["y", tensor("float32", [1, 2], Float32Array.of(1, 2))],
      ]),
      ends: "SIGABRT",
    },
  ];

  test.each(fatal)(
    "is refused, and ends two processes at most: $name",
    async ({ onnx, inputs, ends }) => {
      // On a busy machine the first run of the other model is a slow one.
      const { engine, ended, apart } = open({ slowRunMs: Number.POSITIVE_INFINITY });
      const model = await engine.load(onnx, OWNER);
      const other = await engine.load(product(), { model: "other", version: 1 });
      const run = (): Promise<unknown> => model.run(inputs, ["z"]);

      const [outcome, ...scores] = await Promise.allSettled([
        run(),
        ...Array.from({ length: 20 }, () => scoresOf(other)),
      ]);
      const again = await Promise.allSettled(Array.from({ length: 5 }, run));

      const refused = {
        code: "INTERNAL",
        message: expect.stringContaining(
          "A run of model movies version 3 with these inputs has ended 2 times the process",
        ) as string,
      };
      expect(outcome).toMatchObject({ reason: refused });
      expect(again).toMatchObject(again.map(() => ({ reason: refused })));
      expect(scores).toEqual(scores.map(() => ({ status: "fulfilled", value: [11, 22, 33] })));
      expect(await scoresOf(other)).toEqual([11, 22, 33]);
      expect(ended.map(([lane]) => lane)).toEqual(["main", "apart"]);
      expect(ended.every(([, how]) => how?.startsWith(`ended with ${ends}`))).toBe(true);
      expect(apart).toEqual(["model movies version 3: it ended the process that it was in"]);
    },
  );

  test("leaves other requests of its model served, and inputs invented anew pause it", async () => {
    const { engine, ended } = open();
    const model = await engine.load(quotientModel(), OWNER);
    const ask = async (x: number, y: number): Promise<unknown> =>
      (await model.run(quotient(x, y), ["z"])).get("z")?.data;
    const invented = (at: number): Promise<unknown> =>
      model.run(
        new Map([
          ["x", tensor("int32", [2], Int32Array.of(-(2 ** 31), at))],
          ["y", tensor("int32", [2], Int32Array.of(-1, 1))],
        ]),
        ["z"],
      );

    await expect(invented(0)).rejects.toMatchObject({ code: "INTERNAL" });
    const pausing = await invented(1).catch((error: unknown) => error);
    await expect.poll(() => ask(6, 3).catch(() => undefined)).toEqual(Int32Array.of(2));

    expect(pausing).toMatchObject({
      code: "UNAVAILABLE",
      message: expect.stringMatching(
        /Runs of model movies version 3 .* pauses for \d+ ms/,
      ) as string,
    });
    expect(ended).toHaveLength(2);
  });
});

describe.skipIf(!isBuilt)("a model whose runs take long", () => {
  test("goes to a process apart, and both answer as before", async () => {
    const { engine, processes, apart } = open({ slowRunMs: 0 });
    const slow = await engine.load(product(), OWNER);

    const before = await scoresOf(slow);
    await expect.poll(() => apart.length).toBe(1);
    const after = await scoresOf(slow);
    const quick = await engine.load(product(), { model: "quick", version: 1 });

    expect([before, after, await scoresOf(quick)]).toEqual([
      [11, 22, 33],
      [11, 22, 33],
      [11, 22, 33],
    ]);
    expect(processes).toHaveLength(2);
    expect(apart[0]).toMatch(/^model movies version 3: its runs take \d+ ms$/);
    await slow.release();
    await expect(slow.run(vectors(), ["scores"])).rejects.toThrow(RangeError);
  });

  test.skipIf(process.platform !== "linux")(
    "refuses a run that makes more of its inputs than the process may have, and goes on",
    async () => {
      const memoryBytes = 512 * 2 ** 20;
      const engine = createDenseEngine({}, (threads, listener) =>
        startDenseProcess(threads, listener, { memoryBytes }),
      );
      opened.push(engine);
      const model = await engine.load(matMulModel(new Float32Array(2000), 2, 1000), OWNER);
      const many = tensor("float32", [1_000_000, 2], new Float32Array(2_000_000));

      const grown = model.run(new Map([["vectors", many]]), ["scores"]);

      await expect(grown).rejects.toMatchObject({ code: "RESOURCE_EXHAUSTED" });
      // The arena's next growth begins at what that run asked for, and may leave too little for all else the first times.
      await expect.poll(() => scoresOf(model).catch(String)).toEqual(Array(1000).fill(0));
    },
  );
});

test("a process that cannot start makes requests fail, not hang", async () => {
  const nowhere = new URL("./nowhere.js", import.meta.url);
  const engine = createDenseEngine({}, (threads, listener) =>
    startDenseProcess(threads, listener, { entry: nowhere }),
  );

  await expect(engine.load(product(), OWNER)).rejects.toMatchObject({
    code: "UNAVAILABLE",
    message: expect.stringContaining("ended with exit code 1") as string,
  });
  await engine.close();
});

test.skipIf(!existsSync(bundle))(
  "the process keeps what V8 compiled of the bundle, though it is killed (needs a build)",
  async () => {
    // Beside the bundle, so that ONNX Runtime is found as it is from there.
    const copy = mkdtempSync(`${bundle}-`);
    onTestFinished(() => rmSync(copy, { recursive: true }));
    const filter = (file: string): boolean => file !== path.join(bundle, "cache");
    cpSync(bundle, copy, { recursive: true, filter });
    const entry = pathToFileURL(path.join(copy, "dense-process.js"));
    const engine = createDenseEngine({}, (threads, listener) =>
      startDenseProcess(threads, listener, { entry }),
    );
    opened.push(engine);

    const model = await engine.load(product(), OWNER);
    const scores = await scoresOf(model);
    await engine.close();
    const kept = readdirSync(path.join(copy, "cache"), { encoding: "utf8", recursive: true });

    expect(scores).toEqual([11, 22, 33]);
    expect(kept).toContainEqual(expect.stringMatching(/\/dense-process\/dense-process-[^/]+\.js$/));
  },
);
