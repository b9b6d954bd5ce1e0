// The memory of partitions: one for which the container has none left (which is faked: what a test machine has must not
// matter), and the figures that go with every answer.

import { createReferenceAccelerator } from "@winnow/accelerator";
import type { Accelerator } from "@winnow/accelerator";
import { WinnowError, systemClock, systemMemory, tensor } from "@winnow/core";
import { afterEach, expect, test, vi } from "vitest";

import type { ContentHandle } from "./compute.ts";
import { ComputeHost } from "./compute-host.ts";
import { MemoryModel } from "./doubles/memory-model.ts";
import { candidates } from "./fixtures/loaded-tables.ts";
import { ProgressCounter } from "./progress-counter.ts";
import { LocalModelReader } from "./reader/model-reader.ts";

afterEach(() => vi.restoreAllMocks());

function hostOf(accelerator: Accelerator, model: MemoryModel): ComputeHost {
  return new ComputeHost({
    accelerator,
    reader: new LocalModelReader(() => model),
    progress: new ProgressCounter(),
    clock: systemClock,
    exclusionBytesMax: 0,
    filterBytesMax: 0,
  });
}

async function loading(kind: Accelerator["kind"]): Promise<unknown> {
  vi.spyOn(systemMemory, "freeBytes").mockReturnValue(2 ** 20);
  const accelerator = createReferenceAccelerator({ capacityBytes: 2 ** 30 });
  const load = vi.spyOn(accelerator, "load");
  const host = hostOf(
    Object.assign(accelerator, { kind }),
    new MemoryModel([candidates(640, undefined)]),
  );
  const { handle } = await host.open({ model: "m", version: 1, directory: "/m/1" }, []);
  const outcome = await host
    .load({ handle, table: 0, partition: 0 })
    .catch((error: unknown) => error);
  await host.shutdown();
  return outcome instanceof WinnowError
    ? [outcome.message, load.mock.calls.length]
    : load.mock.calls.length;
}

test("is refused before a row is read", async () => {
  expect(await loading("cpu")).toEqual([
    expect.stringMatching(/^A partition of \d+ rows takes/),
    0,
  ]);
});

test("is no matter where rows are held by a GPU", async () => {
  expect(await loading("gpu")).toBe(1);
});

test("is known of all contents without going through them, as each answer tells it", async () => {
  const accelerator = createReferenceAccelerator({ capacityBytes: 2 ** 30 });
  const ids = tensor(
    "int64",
    [64],
    BigInt64Array.from({ length: 64 }, (_, row) => BigInt(row)),
  );
  const host = hostOf(accelerator, new MemoryModel([candidates(64, ids)]));
  const bytes: number[] = [];
  const handles: ContentHandle[] = [];
  for (let version = 1; version <= 3; version += 1) {
    const { handle } = await host.open({ model: "m", version, directory: "/m" }, []);
    handles.push(handle);
    bytes.push((await host.load({ handle, table: 0, partition: 0 })).bytes);
  }
  const walked = vi.spyOn(Map.prototype, "values");

  const { usedBytes } = host.memory;

  const walks = walked.mock.calls.length;
  walked.mockRestore();
  expect([usedBytes, walks]).toEqual([bytes.reduce((sum, each) => sum + each, 0), 0]);
  expect(usedBytes).toBeGreaterThan(accelerator.memory().usedBytes);
  await host.release({ handle: handles[0]!, table: 0, partition: 0 });
  await host.release({ handle: handles[0]!, table: 0, partition: 0 });
  for (const handle of handles) await host.close(handle);
  expect(host.memory.usedBytes).toBe(0);
});
