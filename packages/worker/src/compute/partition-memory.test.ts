// A partition for which the container has no memory left. The memory is faked: what a test machine has must not matter.

import { createReferenceAccelerator } from "@winnow/accelerator";
import type { Accelerator } from "@winnow/accelerator";
import { WinnowError, systemClock, systemMemory } from "@winnow/core";
import { afterEach, expect, test, vi } from "vitest";

import { ComputeHost } from "./compute-host.ts";
import { MemoryModel } from "./doubles/memory-model.ts";
import { candidates } from "./fixtures/loaded-tables.ts";
import { ProgressCounter } from "./progress-counter.ts";
import { LocalModelReader } from "./reader/model-reader.ts";

afterEach(() => vi.restoreAllMocks());

async function loading(kind: Accelerator["kind"]): Promise<unknown> {
  vi.spyOn(systemMemory, "freeBytes").mockReturnValue(2 ** 20);
  const accelerator = createReferenceAccelerator({ capacityBytes: 2 ** 30 });
  const load = vi.spyOn(accelerator, "load");
  const host = new ComputeHost({
    accelerator: Object.assign(accelerator, { kind }),
    reader: new LocalModelReader(() => new MemoryModel([candidates(640, undefined)])),
    progress: new ProgressCounter(),
    clock: systemClock,
    exclusionBytesMax: 0,
    filterBytesMax: 0,
  });
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
