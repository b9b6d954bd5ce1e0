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
import { nextLoopTurn } from "../loop-turn.ts";
import { MemoryBudget } from "../memory-budget.ts";
import {
  checkChunk,
  checkComplete,
  checkLoadShape,
  checkSearched,
  checkTopKQuery,
} from "../top-k-request.ts";
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
  readonly #budget: MemoryBudget;
  readonly #queue = new WorkQueue();
  /** float32 `[rows, dim]` of each resident. */
  readonly #values = new Map<Resident, Float32Array>();
  /** Those loaded for gathering only. */
  readonly #gathered = new WeakSet<Resident>();
  #isClosed = false;

  constructor(capacityBytes: number) {
    this.#budget = new MemoryBudget(capacityBytes);
  }

  memory(): AcceleratorMemory {
    return this.#budget.memory();
  }

  async load(
    shape: LoadShape,
    chunks: Iterable<Float32Array> | AsyncIterable<Float32Array>,
    signal?: AbortSignal,
  ): Promise<Resident> {
    this.#checkOpen();
    checkLoadShape(shape);
    signal?.throwIfAborted();
    const bytes = shape.rows * shape.dim * Float32Array.BYTES_PER_ELEMENT;
    this.#budget.reserve(bytes);
    try {
      const values = allocate(shape.rows * shape.dim);
      await fill(values, { shape, chunks, signal });
      this.#checkOpen();
      const { rows, dim, firstRow } = shape;
      const resident: Resident = Object.freeze({ rows, dim, firstRow, bytes });
      this.#values.set(resident, values);
      if (shape.use === "gather") this.#gathered.add(resident);
      return resident;
    } catch (error) {
      this.#budget.giveBack(bytes);
      throw error;
    }
  }

  async topK(query: TopKQuery, signal?: AbortSignal): Promise<TopKBlock> {
    this.#checkOpen();
    const checked = checkTopKQuery(query);
    const parts = query.residents.map((resident) => ({
      values: this.#valuesOf(resident),
      rows: resident.rows,
      firstRow: resident.firstRow,
    }));
    checkSearched(query.residents, this.#gathered);
    return this.#queue.run(() => scanTopK(checked, parts, signal), signal);
  }

  async gather(resident: Resident, localRows: Uint32Array): Promise<Float32Array> {
    this.#checkOpen();
    const values = this.#valuesOf(resident);
    const { rows, dim } = resident;
    const gathered = new Float32Array(localRows.length * dim);
    for (const [index, row] of localRows.entries()) {
      if (row >= rows) throw new RangeError(`row ${row} of a resident of ${rows}`);
      gathered.set(values.subarray(row * dim, (row + 1) * dim), index * dim);
    }
    return gathered;
  }

  async release(resident: Resident): Promise<void> {
    this.#valuesOf(resident);
    this.#values.delete(resident);
    await this.#queue.idle();
    this.#budget.giveBack(resident.bytes);
  }

  async close(): Promise<void> {
    this.#isClosed = true;
    await this.#queue.idle();
    await Promise.all([...this.#values.keys()].map((resident) => this.release(resident)));
  }

  #valuesOf(resident: Resident): Float32Array {
    const values = this.#values.get(resident);
    if (values === undefined) throw new RangeError("the resident is not on this accelerator");
    return values;
  }

  #checkOpen(): void {
    if (this.#isClosed) throw new WinnowError("UNAVAILABLE", "The accelerator is closed");
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

interface Filling {
  readonly shape: LoadShape;
  readonly chunks: Iterable<Float32Array> | AsyncIterable<Float32Array>;
  readonly signal: AbortSignal | undefined;
}

async function fill(values: Float32Array, { shape, chunks, signal }: Filling): Promise<void> {
  const progress = { shape, taken: 0 };
  for await (const chunk of chunks) {
    signal?.throwIfAborted();
    const at = progress.taken;
    checkChunk(progress, chunk);
    values.set(chunk, at);
    await nextLoopTurn();
  }
  signal?.throwIfAborted();
  checkComplete(progress);
}
