// Memory and uploads: a load is refused before anything is allocated, released memory is really
// freed, and bytes in flight stay within their bound, so that a search beside a load waits for no
// more than that.

import { afterEach, describe, expect, test, vi } from "vitest";
import { normalValues, seededRandom } from "../../cases/exactness.cases.ts";
import { createGpuAccelerator } from "../accelerator.ts";
import { softwareGpuForOneQuery } from "../fixtures/software-gpu.ts";

const { device, reason } = await softwareGpuForOneQuery();
const DIM = 64;
const MIB = 2 ** 20;
/** Rows of one MiB of values. */
const MIB_ROWS = MIB / DIM / 4;
const PIECE = normalValues(seededRandom(4), MIB_ROWS * DIM);

afterEach(() => vi.restoreAllMocks());

function shapeOf(mib: number) {
  return { rows: mib * MIB_ROWS, dim: DIM, firstRow: 0, use: "search" } as const;
}

/** Chunks of one MiB; `before` is called ahead of each. */
function* chunksOf(mib: number, before: (index: number) => void = () => undefined) {
  for (let index = 0; index < mib; index += 1) {
    before(index);
    yield PIECE;
  }
}

/** Counts bytes sent to the device, and of these the bytes not known to have arrived. */
function watchQueue() {
  const { queue } = device!.connection;
  const watch = { sent: 0, underWay: 0, underWayMost: 0 };
  const writeBuffer = queue.writeBuffer.bind(queue);
  const onSubmittedWorkDone = queue.onSubmittedWorkDone.bind(queue);
  vi.spyOn(queue, "writeBuffer").mockImplementation((...args) => {
    const [, , data] = args;
    watch.sent += data.byteLength;
    watch.underWay += data.byteLength;
    watch.underWayMost = Math.max(watch.underWayMost, watch.underWay);
    writeBuffer(...args);
  });
  vi.spyOn(queue, "onSubmittedWorkDone").mockImplementation(async () => {
    const { underWay } = watch;
    await onSubmittedWorkDone();
    watch.underWay -= underWay;
  });
  return watch;
}

describe.skipIf(device === undefined)(`a GPU's memory ${reason}`, () => {
  test("beyond the capacity is refused before anything is allocated or read", async () => {
    const accelerator = createGpuAccelerator(device!, { capacityBytes: 8 * MIB });
    const created = vi.spyOn(device!.connection, "createBuffer");
    const read = vi.fn();

    const load = accelerator.load(shapeOf(8), chunksOf(8, read));

    await expect(load).rejects.toMatchObject({ code: "RESOURCE_EXHAUSTED" });
    expect(created).not.toHaveBeenCalled();
    expect(read).not.toHaveBeenCalled();
    await accelerator.close();
  });

  test.skipIf(device?.isSoftware === false)("is free as soon as rows are released", async () => {
    const accelerator = createGpuAccelerator(device!, { capacityBytes: 256 * MIB });
    const resident = await accelerator.load(shapeOf(64), chunksOf(64));
    const before = process.memoryUsage.rss();

    await accelerator.release(resident);

    // A software device's memory is in this process: 64 MiB of values and 16 MiB of codes are freed, by a thread of the
    // device, which a busy machine lets wait.
    await expect.poll(() => (before - process.memoryUsage.rss()) / MIB).toBeGreaterThan(48);
    await accelerator.close();
  });

  test("comes back: 30 times loaded and released, a process does not grow", async () => {
    const accelerator = createGpuAccelerator(device!, { capacityBytes: 64 * MIB });
    const turn = async (): Promise<void> => {
      const resident = await accelerator.load(shapeOf(4), chunksOf(4));
      await accelerator.topK({ residents: [resident], vectors: PIECE.slice(0, DIM), k: 10 });
      await accelerator.release(resident);
    };
    for (let warmUp = 0; warmUp < 6; warmUp += 1) await turn();
    const before = process.memoryUsage.rss();

    for (let round = 0; round < 30; round += 1) await turn();

    // If the device kept what was loaded, the process would grow by 150 MiB.
    expect((process.memoryUsage.rss() - before) / MIB).toBeLessThan(75);
    expect(accelerator.memory().usedBytes).toBe(0);
    await accelerator.close();
  }, 240_000);
});

describe.skipIf(device === undefined)(`the way to a GPU ${reason}`, () => {
  test("never holds more than it may and one block", async () => {
    const settings = { capacityBytes: 2 ** 28, uploadBytesMax: 6 * MIB };
    const accelerator = createGpuAccelerator(device!, settings);
    const watch = watchQueue();

    await accelerator.load(shapeOf(30), [new Float32Array(30 * MIB_ROWS * DIM).fill(1)]);

    expect(watch.sent).toBeGreaterThan(30 * MIB);
    expect(watch.underWayMost).toBeLessThan((6 + 4) * MIB);
    await accelerator.close();
  });

  test("lets a search beside a large load wait for little more than that", async () => {
    const settings = { capacityBytes: 2 ** 28, uploadBytesMax: 2 * MIB };
    const accelerator = createGpuAccelerator(device!, settings);
    const resident = await accelerator.load(shapeOf(1), chunksOf(1));
    const watch = watchQueue();
    let search: Promise<number> = Promise.resolve(0);
    const ask = (index: number): void => {
      if (index !== 4) return;
      const { sent } = watch;
      const query = { residents: [resident], vectors: PIECE.slice(0, DIM), k: 10 };
      search = accelerator.topK(query).then(() => watch.sent - sent);
    };

    await accelerator.load(shapeOf(24), chunksOf(24, ask));

    // Bytes in flight when the search was called, and bytes sent while its answer came back.
    expect((await search) / MIB).toBeLessThan(3 * 2);
    expect(watch.sent / MIB).toBeGreaterThan(24);
    await accelerator.close();
  });
});
