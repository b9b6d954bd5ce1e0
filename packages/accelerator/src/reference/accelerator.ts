// The accelerator in plain TypeScript: the oracle the others are compared with, and the fallback
// where no compiler exists. It runs on the thread it is called on and gives way between blocks.

import type { TopKBlock } from "@winnow/core";
import { WinnowError } from "@winnow/core";
import type {
  Accelerator,
  AcceleratorMemory,
  LoadShape,
  Resident,
  TopKQuery,
} from "../accelerator.ts";
import { resolveAcceleratorOptions } from "../accelerator-options.ts";
import type { AcceleratorOptions } from "../accelerator-options.ts";
import { ResidentStore } from "../resident-store.ts";
import { takeRows } from "../row-taking.ts";
import { checkFinite, checkLoadShape, checkLocalRows, checkTopKQuery } from "../top-k-request.ts";
import { WorkQueue } from "../work-queue.ts";
import { scanTopK } from "./scan.ts";

/** Opens the reference accelerator; it uses one thread, the caller's. */
export function createReferenceAccelerator(options: AcceleratorOptions): Accelerator {
  return new ReferenceAccelerator(resolveAcceleratorOptions(options).capacityBytes);
}

class ReferenceAccelerator implements Accelerator {
  readonly kind = "reference";
  readonly device = "plain JavaScript, 1 thread";
  readonly lost: Promise<WinnowError> = new Promise(() => undefined);
  readonly #queue = new WorkQueue();
  /** float32 `[rows, dim]` of each resident. */
  readonly #residents: ResidentStore<Float32Array>;

  constructor(capacityBytes: number) {
    const idle = (): Promise<void> => this.#queue.idle();
    this.#residents = new ResidentStore({ capacityBytes, idle, free: () => undefined });
  }

  memory(): AcceleratorMemory {
    return this.#residents.memory();
  }

  async load(
    shape: LoadShape,
    chunks: Iterable<Float32Array> | AsyncIterable<Float32Array>,
    signal?: AbortSignal,
  ): Promise<Resident> {
    this.#residents.checkOpen();
    checkLoadShape(shape);
    signal?.throwIfAborted();
    const length = shape.rows * shape.dim;
    const occupied = length * Float32Array.BYTES_PER_ELEMENT;
    return this.#residents.add(shape, { occupied }, async () => {
      const values = allocate(length);
      await takeRows({ shape, chunks, signal }, (chunk, progress) => {
        checkFinite(progress, chunk);
        values.set(chunk, progress.taken);
      });
      return values;
    });
  }

  async topK(query: TopKQuery, signal?: AbortSignal): Promise<TopKBlock> {
    this.#residents.checkOpen();
    const checked = checkTopKQuery(query);
    const parts = query.residents.map((resident) => ({
      values: this.#residents.searchable(resident),
      rows: resident.rows,
      firstRow: resident.firstRow,
    }));
    return this.#queue.run(() => scanTopK(checked, parts, signal), signal);
  }

  async gather(resident: Resident, localRows: Uint32Array): Promise<Float32Array> {
    this.#residents.checkOpen();
    const values = this.#residents.held(resident);
    checkLocalRows(resident, localRows);
    const { dim } = resident;
    const gathered = new Float32Array(localRows.length * dim);
    for (const [index, row] of localRows.entries()) {
      gathered.set(values.subarray(row * dim, (row + 1) * dim), index * dim);
    }
    return gathered;
  }

  release(resident: Resident): Promise<void> {
    return this.#residents.release(resident);
  }

  close(): Promise<void> {
    return this.#residents.close();
  }
}

/** Zeros. @throws WinnowError RESOURCE_EXHAUSTED when the engine cannot give that many */
function allocate(length: number): Float32Array {
  try {
    return new Float32Array(length);
  } catch (cause) {
    const message = `Cannot allocate ${length} float32 values`;
    throw new WinnowError("RESOURCE_EXHAUSTED", message, { cause });
  }
}
