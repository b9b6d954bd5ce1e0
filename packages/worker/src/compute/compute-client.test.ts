// How the compute side loads and how it ends, through its message channel.

import { createReferenceAccelerator } from "@winnow/accelerator";
import { WinnowError } from "@winnow/core";
import { ManualClock } from "../../../../test/doubles/manual-clock.ts";
import { describe, expect, test } from "vitest";

import { computeInProcess } from "./doubles/compute-in-process.ts";
import { MemoryModel } from "./doubles/memory-model.ts";
import { ComputeClient } from "./compute-client.ts";
import type { ComputeFailure } from "./compute.ts";
import { ProgressCounter } from "./progress-counter.ts";
import {
  DIM,
  DIRECTORY,
  NAME,
  candidates,
  computeOf,
  everyPartition,
  loaded,
} from "./fixtures/loaded-tables.ts";

const memory = { usedBytes: 0, capacityBytes: 1 };

describe("the compute side", () => {
  test("a scan that arrives during a load is answered before the load ends", async () => {
    const model = new MemoryModel([candidates(4000, undefined)]);
    const client = computeOf(model);
    await client.open(DIRECTORY, []);
    await client.load({ ...NAME, table: 0, partition: 0 });
    const order: string[] = [];

    const load = client.load({ ...NAME, table: 0, partition: 1 }).then(() => order.push("load"));
    const scan = client
      .topK({
        target: { ...NAME, table: 0, partitions: Uint16Array.of(0) },
        asks: [{ queries: 1, k: 5, excluded: [], rowsOnly: false }],
        vectors: Float32Array.of(1, 2, 3),
      })
      .then(() => order.push("scan"));
    await Promise.all([load, scan]);

    expect(order).toEqual(["scan", "load"]);
  });

  test("the progress counter moves with every chunk, and memory returns on release and close", async () => {
    const model = new MemoryModel([candidates(64, undefined)]);
    const client = computeOf(model);
    await client.open(DIRECTORY, []);
    const before = client.progress;

    const replica = await client.load({ ...NAME, table: 0, partition: 0 });
    await client.load({ ...NAME, table: 0, partition: 1 });

    expect(client.progress).toBeGreaterThanOrEqual(before + 2);
    expect(replica.bytesRead).toBe(4 * DIM * 4);
    expect(client.memory.usedBytes).toBe(2 * replica.bytes);
    await client.release({ ...NAME, table: 0, partition: 0 });
    expect(client.memory.usedBytes).toBe(replica.bytes);
    await client.close(NAME.handle);
    expect(client.memory.usedBytes).toBe(0);
    expect(model.isClosed).toBe(true);
  });

  test("(S7) a file that ends too early fails the load, gives the memory back, and harms nothing else", async () => {
    const model = new MemoryModel([candidates(640, undefined)]);
    const whole = model.openPartition.bind(model);
    const broken = new WinnowError("DATA_LOSS", "variables.data-00000-of-00001 is cut short");
    model.openPartition = (table, partition) => {
      const reader = whole(table, partition);
      const chunks = reader.chunks();
      function* cutShort(): Generator<Float32Array, void, undefined> {
        yield* [
          chunks.next().value ?? new Float32Array(),
          chunks.next().value ?? new Float32Array(),
        ];
        throw broken;
      }
      return partition === 1 ? { ...reader, chunks: cutShort } : reader;
    };
    const client = computeOf(model);
    await client.open(DIRECTORY, []);

    const cut = client.load({ ...NAME, table: 0, partition: 1 });

    await expect(cut).rejects.toMatchObject({ code: "DATA_LOSS", message: broken.message });
    expect(client.memory.usedBytes).toBe(0);
    const good = await client.load({ ...NAME, table: 0, partition: 2 });
    expect(client.memory.usedBytes).toBe(good.bytes);
  });

  test("a version that is closed while it is loaded leaves nothing on the device", async () => {
    const model = new MemoryModel([candidates(640, undefined)]);
    const client = computeOf(model);
    await client.open(DIRECTORY, []);

    const load = client.load({ ...NAME, table: 0, partition: 1 });
    const other = client.load({ ...NAME, table: 0, partition: 2 });
    await client.close(NAME.handle);

    await expect(load).rejects.toMatchObject({ code: "NOT_FOUND" });
    await expect(other).rejects.toMatchObject({ code: "NOT_FOUND" });
    expect(client.memory.usedBytes).toBe(0);
    await client.shutdown();
  });

  test("partitions that are read side by side, in memory that is filled again, keep their own rows", async () => {
    const client = computeOf(new MemoryModel([candidates(640, undefined)]));
    await client.open(DIRECTORY, []);
    const partitions = everyPartition(16);

    await Promise.all(
      Array.from(partitions, (partition) => client.load({ ...NAME, table: 0, partition })),
    );

    const oneByOne = await loaded(candidates(640, undefined));
    const scanOf = (compute: ComputeClient) =>
      compute.topK({
        target: { ...NAME, table: 0, partitions: Uint16Array.from(partitions) },
        asks: [{ queries: 1, k: 640, excluded: [], rowsOnly: false }],
        vectors: Float32Array.of(1, -2, 3),
      });
    const [found, expected] = [await scanOf(client), await scanOf(oneByOne)];
    expect(found.answers).toEqual(expected.answers);
  });

  test("a device without room lets go of the file, and takes a smaller share afterwards", async () => {
    const model = new MemoryModel([candidates(640, undefined)]);
    const accelerator = createReferenceAccelerator({ capacityBytes: 40 * DIM * 4 });
    const client = computeInProcess({ openModel: () => model, accelerator });
    await client.open(DIRECTORY, []);
    await client.load({ ...NAME, table: 0, partition: 0 });

    const second = client.load({ ...NAME, table: 0, partition: 1 });

    await expect(second).rejects.toMatchObject({ code: "RESOURCE_EXHAUSTED" });
    await client.release({ ...NAME, table: 0, partition: 0 });
    await client.load({ ...NAME, table: 0, partition: 1 });
    await client.shutdown();
  });

  test("what a model's reader throws comes back with its code", async () => {
    const client = computeInProcess({
      openModel: () => {
        throw new WinnowError("DATA_LOSS", "variables.index is cut short");
      },
    });

    await expect(client.open(DIRECTORY, [])).rejects.toMatchObject({
      code: "DATA_LOSS",
      message: "variables.index is cut short",
    });
  });

  test("a thread that stands still is ended all the same, and what waits for it fails", async () => {
    const clock = new ManualClock();
    let isEnded = false;
    const client = new ComputeClient({
      port: { postMessage: () => undefined, on: () => undefined },
      progress: new ProgressCounter(),
      device: { accelerator: "cpu", device: "wedged" },
      memory: { usedBytes: 0, capacityBytes: 1 },
      clock,
      end: async () => void (isEnded = true),
    });
    const waiting = client.open(DIRECTORY, []).catch((error: unknown) => error);

    const ended = client.shutdown();
    await clock.advanceSettled(1999);
    expect(isEnded).toBe(false);
    await clock.advanceSettled(1);
    await ended;

    expect(isEnded).toBe(true);
    expect(await waiting).toMatchObject({ code: "UNAVAILABLE" });
  });

  test("(R5) a thread that ends when asked to leaves no timer behind", async () => {
    const clock = new ManualClock();
    let answer: (message: unknown) => void = () => undefined;
    const client = new ComputeClient({
      port: {
        postMessage: (message) => answer({ ...(message as object), aside: { memory } }),
        on: (_, listener) => (answer = listener),
      },
      progress: new ProgressCounter(),
      device: { accelerator: "cpu", device: "obedient" },
      memory,
      clock,
      end: async () => undefined,
    });

    await client.shutdown();

    expect(clock.pendingTimers).toBe(0);
  });

  test("when the thread dies, what waits for it fails with UNAVAILABLE, and so does what follows", async () => {
    const client = await loaded(candidates(20, undefined));
    const failures: ComputeFailure[] = [];
    client.onFailure((error) => failures.push(error));
    const waiting = client.load({ ...NAME, table: 0, partition: 0 });

    client.fail(new Error("exit code 9"));

    await expect(waiting).rejects.toMatchObject({ code: "UNAVAILABLE" });
    await expect(client.close(NAME.handle)).rejects.toMatchObject({ code: "UNAVAILABLE" });
    expect(failures).toMatchObject([{ lost: "thread", error: { code: "UNAVAILABLE" } }]);
  });
});
