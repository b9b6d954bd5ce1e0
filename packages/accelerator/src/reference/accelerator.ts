// The accelerator in plain TypeScript: the oracle that the others are compared with, and the
// fallback where no compiler exists. It runs on the caller's thread and yields to the event loop
// between blocks.

import type { TopKBlock } from "@winnow/core";
import type { WinnowError } from "@winnow/core";
import type {
  Accelerator,
  AcceleratorMemory,
  LoadShape,
  Resident,
  RowFilter,
  TopKQuery,
} from "../accelerator.ts";
import { resolveAcceleratorOptions } from "../accelerator-options.ts";
import type { AcceleratorOptions } from "../accelerator-options.ts";
import { gatherHostRows, takeHostRows } from "../residents/host-rows.ts";
import { MemoryBudget } from "../residents/memory-budget.ts";
import { ResidentStore } from "../residents/resident-store.ts";
import { BitmapFilter, admittedQuery } from "../queries/row-admission.ts";
import { checkLoadShape, checkLocalRows, checkTopKQuery } from "../queries/top-k-request.ts";
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
    const budget = new MemoryBudget(capacityBytes);
    this.#residents = new ResidentStore({ budget, idle, free: () => undefined });
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
    const occupied = shape.rows * shape.dim * Float32Array.BYTES_PER_ELEMENT;
    return this.#residents.add(shape, { occupied }, () => takeHostRows({ shape, chunks, signal }));
  }

  async topK(query: TopKQuery, signal?: AbortSignal): Promise<TopKBlock> {
    this.#residents.checkOpen();
    const admitted = admittedQuery(checkTopKQuery(query));
    const parts = query.residents.map((resident) => ({
      values: this.#residents.searchable(resident),
      rows: resident.rows,
      firstRow: resident.firstRow,
    }));
    return this.#queue.run(() => scanTopK(admitted, parts, signal), signal);
  }

  filter(resident: Resident, admittedRows: Uint8Array): RowFilter {
    this.#residents.searchable(resident);
    return new BitmapFilter(resident, admittedRows);
  }

  releaseFilter(filter: RowFilter): void {
    if (filter instanceof BitmapFilter) filter.release();
  }

  async gather(resident: Resident, localRows: Uint32Array): Promise<Float32Array> {
    this.#residents.checkOpen();
    const values = this.#residents.held(resident);
    checkLocalRows(resident, localRows);
    return gatherHostRows(values, resident.dim, localRows);
  }

  release(resident: Resident): Promise<void> {
    return this.#residents.release(resident);
  }

  close(): Promise<void> {
    return this.#residents.close();
  }
}
