// The GPU accelerator: int8 codes bound every group of rows, float32 the rows of what remains,
// integers give the exact scores of the last few; one submission per batch, a kilobyte or two back
// per query. docs/gpu.md has the proof. Bits equal those of the reference.
//
// Rows to be searched live on the device alone, gathered by a copy: keeping them on the host too would
// double the memory of a worker for something rare. Rows that are only gathered (keyed tables) stay on
// the host, where a lookup takes microseconds and no device memory.

import { WinnowError } from "@winnow/core";
import type { TopKBlock } from "@winnow/core";
import type {
  Accelerator,
  AcceleratorMemory,
  LoadShape,
  Resident,
  TopKQuery,
} from "../accelerator.ts";
import { resolveAcceleratorOptions } from "../accelerator-options.ts";
import { createReferenceAccelerator } from "../reference/accelerator.ts";
import { MemoryBudget } from "../memory-budget.ts";
import { checkLoadShape, checkTopKQuery } from "../top-k-request.ts";
import { WorkQueue } from "../work-queue.ts";
import type { GpuDevice } from "./device.ts";
import { readRows } from "./exact-path.ts";
import { resolveGpuOptions } from "./gpu-settings.ts";
import type { GpuAcceleratorOptions, GpuSettings } from "./gpu-settings.ts";
import { freeSlabs, planSlabs, uploadRows } from "./rows-upload.ts";
import type { SearchRows } from "./rows-upload.ts";
import { Scratch } from "./scratch.ts";
import { searchTopK } from "./search.ts";
import { scopeOf } from "./search-scope.ts";

/** Values per row at most. */
const GPU_DIM_MAX = 4096;

/** An accelerator on an opened GPU. */
export function createGpuAccelerator(
  device: GpuDevice,
  options: GpuAcceleratorOptions,
): Accelerator {
  const { capacityBytes } = resolveAcceleratorOptions(options);
  return new GpuAccelerator(device, { ...resolveGpuOptions(options), capacityBytes });
}

interface Settings extends GpuSettings {
  readonly capacityBytes: number;
}

/** Where rows are: on the device, or on the host if they are only gathered. */
type Held =
  | { readonly on: "device"; readonly rows: SearchRows }
  | { readonly on: "host"; readonly rows: Resident };

/** Searches that run one after the other in one scratch. */
interface Lane {
  readonly scratch: Scratch;
  readonly queue: WorkQueue;
  waiting: number;
}

class GpuAccelerator implements Accelerator {
  readonly kind = "gpu";
  readonly device: string;
  readonly lost: Promise<WinnowError>;
  readonly #gpu: GpuDevice;
  readonly #settings: Settings;
  readonly #budget: MemoryBudget;
  readonly #lanes: readonly Lane[];
  readonly #gathers: Lane;
  readonly #host: Accelerator;
  readonly #held = new Map<Resident, Held>();
  #closing: Promise<void> | undefined;

  constructor(gpu: GpuDevice, settings: Settings) {
    const lane = (): Lane => ({ scratch: new Scratch(gpu), queue: new WorkQueue(), waiting: 0 });
    this.device = `GPU ${gpu.name}`;
    this.lost = gpu.lost;
    this.#gpu = gpu;
    this.#settings = settings;
    this.#budget = new MemoryBudget(settings.capacityBytes);
    this.#lanes = Array.from({ length: settings.lanes }, lane);
    this.#gathers = lane();
    this.#host = createReferenceAccelerator({ capacityBytes: Infinity });
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
    checkDim(shape);
    signal?.throwIfAborted();
    const { rows, dim, firstRow } = shape;
    const plan = planSlabs(shape, this.#gpu, this.#settings);
    const bytes = shape.use === "search" ? plan.bytes : rows * dim * Float32Array.BYTES_PER_ELEMENT;
    this.#budget.reserve(bytes);
    try {
      const to = { device: this.#gpu, uploadBytesMax: this.#settings.uploadBytesMax };
      const held: Held =
        shape.use === "search"
          ? { on: "device", rows: await uploadRows({ shape, chunks, signal }, plan, to) }
          : { on: "host", rows: await this.#host.load(shape, chunks, signal) };
      if (this.#closing !== undefined) await this.#free(held);
      this.#checkOpen();
      const resident: Resident = Object.freeze({ rows, dim, firstRow, bytes });
      this.#held.set(resident, held);
      return resident;
    } catch (error) {
      this.#budget.giveBack(bytes);
      throw error;
    }
  }

  async topK(query: TopKQuery, signal?: AbortSignal): Promise<TopKBlock> {
    this.#checkOpen();
    const checked = checkTopKQuery(query);
    const parts = query.residents.map((resident) => this.#searchable(resident));
    const { queries, room } = checked;
    if (queries === 0 || room === 0) return emptyBlock(queries);
    const scope = scopeOf(parts);
    return this.#inLane(this.#idlestLane(), signal, async ({ scratch }) => {
      const { lanes, scratchBytesMax, exactStepProducts: stepProducts } = this.#settings;
      const scratchBytes = Math.floor(scratchBytesMax / lanes);
      const means = { device: this.#gpu, scratch, scratchBytes, stepProducts };
      const { block, cost } = await searchTopK(means, { query: checked, scope }, signal);
      this.#settings.onSearch?.(cost);
      return block;
    });
  }

  async gather(resident: Resident, localRows: Uint32Array): Promise<Float32Array> {
    this.#checkOpen();
    const held = this.#heldOf(resident);
    if (held.on === "host") return this.#host.gather(held.rows, localRows);
    const { rows, dim, firstRow } = resident;
    for (const row of localRows) {
      if (row >= rows) throw new RangeError(`row ${row} of a resident of ${rows}`);
    }
    const gathered = new Float32Array(localRows.length * dim);
    await this.#inLane(this.#gathers, undefined, async ({ scratch }) => {
      for (const slab of held.rows.slabs) {
        const from = slab.firstRow - firstRow;
        const places = [...localRows.keys()].filter((place) => {
          const row = localRows[place]!;
          return row >= from && row < from + slab.rows;
        });
        const wanted = Uint32Array.from(places, (place) => localRows[place]! - from);
        const values = await readRows({ device: this.#gpu, scratch }, { slab, dim }, wanted);
        for (const [index, place] of places.entries()) {
          gathered.set(values.subarray(index * dim, (index + 1) * dim), place * dim);
        }
      }
    });
    return gathered;
  }

  async release(resident: Resident): Promise<void> {
    const held = this.#heldOf(resident);
    this.#held.delete(resident);
    await this.#idle();
    await this.#free(held);
    this.#budget.giveBack(resident.bytes);
  }

  close(): Promise<void> {
    this.#closing ??= this.#close();
    return this.#closing;
  }

  async #close(): Promise<void> {
    await this.#idle();
    await Promise.all([...this.#held.keys()].map((resident) => this.release(resident)));
    for (const { scratch } of [...this.#lanes, this.#gathers]) scratch.close();
    await this.#host.close();
    if (this.#settings.ownsDevice) await this.#gpu.close();
  }

  /** Ends what `load` made. A lost device has no memory left to give back. */
  async #free(held: Held): Promise<void> {
    if (held.on === "host") await this.#host.release(held.rows);
    else await freeSlabs(held.rows.slabs, this.#gpu).catch(() => undefined);
  }

  #idlestLane(): Lane {
    return this.#lanes.reduce((best, lane) => (lane.waiting < best.waiting ? lane : best));
  }

  async #inLane<T>(
    lane: Lane,
    signal: AbortSignal | undefined,
    work: (lane: Lane) => Promise<T>,
  ): Promise<T> {
    lane.waiting += 1;
    try {
      return await lane.queue.run(() => work(lane), signal);
    } finally {
      lane.waiting -= 1;
    }
  }

  async #idle(): Promise<void> {
    await Promise.all([...this.#lanes, this.#gathers].map(({ queue }) => queue.idle()));
  }

  #heldOf(resident: Resident): Held {
    const held = this.#held.get(resident);
    if (held === undefined) throw new RangeError("the resident is not on this accelerator");
    return held;
  }

  #searchable(resident: Resident): SearchRows {
    const held = this.#heldOf(resident);
    if (held.on === "host") throw new RangeError("the resident was loaded to be gathered only");
    return held.rows;
  }

  #checkOpen(): void {
    if (this.#closing !== undefined) {
      throw new WinnowError("UNAVAILABLE", "The accelerator is closed");
    }
    this.#gpu.checkAlive();
  }
}

function checkDim({ dim }: LoadShape): void {
  if (dim <= GPU_DIM_MAX) return;
  const message = `Cannot load rows of dim ${dim} on a GPU: it must be from 1 to ${GPU_DIM_MAX}`;
  throw new WinnowError("INVALID_ARGUMENT", message);
}

function emptyBlock(queries: number): TopKBlock {
  return {
    queries,
    k: 0,
    counts: new Uint32Array(queries),
    scores: new Float32Array(0),
    rows: new Uint32Array(0),
  };
}
