// A version leaves arrays behind in the thread that read its files and in the one that held it.

import { expect, test } from "vitest";
import { computeInProcess } from "./doubles/compute-in-process.ts";
import { MemoryModel } from "./doubles/memory-model.ts";
import { candidates } from "./fixtures/loaded-tables.ts";
import { freeUnheldArrays } from "./unheld-arrays.ts";

const MIB = 2 ** 20;
const arrayBytes = (): number => process.memoryUsage().arrayBuffers;

function leaveBehind(bytes: number): void {
  const array = new Float32Array(bytes / 4);
  array[0] = 1;
}

test("arrays that nothing holds are freed, others are kept", () => {
  const held = new Float32Array((64 * MIB) / 4).fill(3);
  const before = arrayBytes();
  for (let time = 0; time < 4; time += 1) leaveBehind(64 * MIB);

  freeUnheldArrays();

  expect(arrayBytes()).toBeLessThan(before + MIB);
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
