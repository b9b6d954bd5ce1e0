// A version leaves arrays behind in the thread that read its files and in the one that held it.

import { nextLoopTurn } from "@winnow/core";
import { expect, test, vi } from "vitest";
import { computeInProcess } from "./doubles/compute-in-process.ts";
import { MemoryModel } from "./doubles/memory-model.ts";
import { candidates } from "./fixtures/loaded-tables.ts";
import { freeUnheldArrays } from "./unheld-arrays.ts";

const MIB = 2 ** 20;
const arrayBytes = (): number => process.memoryUsage().arrayBuffers;

function leaveBehind(bytes: number): WeakRef<Float32Array> {
  const array = new Float32Array(bytes / 4);
  array[0] = 1;
  return new WeakRef(array);
}

test("arrays that nothing holds are freed, others are kept", async () => {
  const held = new Float32Array((64 * MIB) / 4).fill(3);
  const before = arrayBytes();
  const left = Array.from({ length: 4 }, () => leaveBehind(64 * MIB));
  // What a weak reference was made of is held until the end of the turn.
  await nextLoopTurn();

  freeUnheldArrays();

  expect(left.every((array) => array.deref() === undefined)).toBe(true);
  // A thread of V8 gives their memory back.
  await vi.waitFor(() => {
    expect(arrayBytes()).toBeLessThan(before + MIB);
  });
  expect(held.at(-1)).toBe(3);
});

test("both threads do so when a version has been closed, first the one that read it", async () => {
  const closed: string[] = [];
  const client = computeInProcess({
    openModel: () => new MemoryModel([candidates(4, undefined)]),
    onClosed: (side) => closed.push(side),
  });
  const { handle } = await client.open({ model: "m", version: 1, directory: "/m/1" }, []);
  const before = [...closed];

  await client.close(handle);
  await client.shutdown();

  expect([before, closed]).toEqual([[], ["reader", "compute"]]);
});
