// Loads one partition onto the device in bounded steps. After each chunk the event loop of the compute thread
// runs once, and starts scans that wait. A load therefore delays a scan by one chunk at most.

import type { Accelerator, Resident } from "@winnow/accelerator";
import { nextLoopTurn } from "@winnow/core";
import type { TableSpec } from "@winnow/core";

import type { PartitionSource } from "./reader/model-reader.ts";
import type { ProgressCounter } from "./progress-counter.ts";

/** What a load needs. */
export interface LoadParts {
  readonly accelerator: Accelerator;
  readonly progress: ProgressCounter;
}

/** Loads one partition. @throws WinnowError as the source's chunks and `Accelerator.load` do */
export function loadPartition(
  source: PartitionSource,
  kind: TableSpec["kind"],
  { accelerator, progress }: LoadParts,
): Promise<Resident> {
  const { rows, dim, firstRow } = source;
  const use = kind === "candidate" ? "search" : "gather";
  return accelerator.load({ rows, dim, firstRow, use }, inSteps(source.chunks(), progress));
}

async function* inSteps(
  chunks: AsyncIterable<Float32Array>,
  progress: ProgressCounter,
): AsyncGenerator<Float32Array, void, undefined> {
  for await (const chunk of chunks) {
    progress.raise();
    yield chunk;
    await nextLoopTurn();
  }
}
