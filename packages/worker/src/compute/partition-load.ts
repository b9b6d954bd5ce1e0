// Reads one partition onto the device in bounded steps: one chunk, then a turn of the event loop, in
// which waiting scans start first. A load therefore delays a scan by one chunk at most.

import type { Accelerator, Resident } from "@winnow/accelerator";
import type { ModelVersion, PartitionReader } from "@winnow/model";

import type { ProgressCounter } from "./progress-counter.ts";

/** What loading needs. */
export interface LoadParts {
  readonly accelerator: Accelerator;
  readonly progress: ProgressCounter;
}

/** A partition on the device and the reader that knows the rest of it. */
export interface LoadedPartition {
  readonly resident: Resident;
  readonly reader: PartitionReader;
}

/** Loads one partition. @throws WinnowError as `PartitionReader.chunks` and `Accelerator.load` do */
export async function loadPartition(
  version: ModelVersion,
  at: { readonly table: number; readonly partition: number },
  { accelerator, progress }: LoadParts,
): Promise<LoadedPartition> {
  const reader = version.openPartition(at.table, at.partition);
  const use = version.program.tables[at.table]?.kind === "candidate" ? "search" : "gather";
  const { rows, dim, firstRow } = reader;
  const chunks = inSteps(reader.chunks(), progress);
  const resident = await accelerator.load({ rows, dim, firstRow, use }, chunks);
  return { resident, reader };
}

async function* inSteps(
  chunks: Iterable<Float32Array>,
  progress: ProgressCounter,
): AsyncGenerator<Float32Array, void, undefined> {
  for (const chunk of chunks) {
    progress.raise();
    yield chunk;
    await eventLoopTurn();
  }
}

/** Lets messages that have arrived (scans, lookups) be handled first. */
function eventLoopTurn(): Promise<void> {
  return new Promise((resolve) => {
    setImmediate(resolve);
  });
}
