// How long sums over all rows go on; what they are is compared in top-k-batch.test.ts.

import { createReferenceAccelerator } from "@winnow/accelerator";
import { WinnowError } from "@winnow/core";
import { expect, test } from "vitest";

import type { ResidentPartition } from "../resident-table.ts";
import { sumsOfQueries } from "./score-sums.ts";

const DIM = 64;
/** Some pieces of one query. */
const ROWS = 40_000;

test("sums end soon after nobody waits for them any more, and others have their turn between pieces", async () => {
  const accelerator = createReferenceAccelerator({ capacityBytes: 2 ** 26 });
  const shape = { rows: ROWS, dim: DIM, firstRow: 0, use: "search" } as const;
  const resident = await accelerator.load(shape, [new Float32Array(ROWS * DIM).fill(1)]);
  const held = { partition: 0, resident } as unknown as ResidentPartition;
  const client = new AbortController();
  const left = new WinnowError("CANCELLED", "Nobody waits for this answer");
  let steps = 0;
  const onStep = (): void => {
    steps += 1;
    // What another client's message would do: it is handled although the sums are not done.
    if (steps === 1) setImmediate(() => client.abort(left));
  };
  const table = { holds: () => true, spec: { dim: DIM, name: "items" } };
  const parts = { accelerator, table, onStep, signal: client.signal };

  const sums = sumsOfQueries(
    { vectors: new Float32Array(DIM), name: "$sums" },
    [held],
    parts as never,
  );

  await expect(sums).rejects.toBe(left);
  expect(steps).toBeLessThanOrEqual(2);
  await accelerator.close();
});
