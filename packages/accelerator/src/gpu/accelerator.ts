// The GPU accelerator filters in three steps: int8 codes bound the best score of each group of
// rows, then that of each row of the groups left, and integers give the exact scores of the last
// few rows. A pass of queries is one submission, and less than a kilobyte per query comes back (k =
// 100). docs/gpu.md has the proof. Scores have the same bits as those of the reference.
//
// Rows to be searched are on the device alone and are gathered by a copy, because keeping them on
// the host too would double the memory of a worker for a rare operation. Rows that are only
// gathered (keyed tables) stay on the host, where a lookup takes microseconds and no device memory.

import { WinnowError } from "@winnow/core";
import type { TopKBlock } from "@winnow/core";
import type {
  Accelerator,
  AcceleratorMemory,
  LoadShape,
  Resident,
  RowFilter,
  TopKQuery,
} from "../accelerator.ts";
import { resolveAcceleratorOptions } from "../accelerator-options.ts";
import { gatherHostRows, takeHostRows } from "../residents/host-rows.ts";
import { MemoryBudget } from "../residents/memory-budget.ts";
import { ResidentStore } from "../residents/resident-store.ts";
import { BitmapFilter, admittedQuery } from "../queries/row-admission.ts";
import type { RowSource } from "../residents/row-taking.ts";
import {
  checkLoadShape,
  checkLocalRows,
  checkTopKQuery,
  emptyBlock,
} from "../queries/top-k-request.ts";
import type { GpuDevice } from "./device/device.ts";
import { readRows } from "./search/exact-path.ts";
import { resolveGpuOptions } from "./gpu-settings.ts";
import type { GpuAcceleratorOptions, GpuSettings } from "./gpu-settings.ts";
import { rowLayout } from "./codes.ts";
import { uploadRows } from "./rows-upload.ts";
import { DeviceFilters, filterBytesOf } from "./search/device-filters.ts";
import { MatrixScans } from "./search/matrix-scans.ts";
import { scratchBytesOf } from "./search/scratch.ts";
import { searchTopK } from "./search/search.ts";
import { SearchLanes } from "./search/search-lanes.ts";
import { scopeOf } from "./search/search-scope.ts";
import { groupsOf } from "./memory/slab.ts";
import { SlabPool } from "./memory/slab-pool.ts";
import type { SearchRows } from "./memory/slab-pool.ts";

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

/** Where the rows of a resident are: on the device, or on the host if they are only gathered. */
type Held =
  | { readonly on: "device"; readonly pool: SlabPool; readonly rows: SearchRows }
  | { readonly on: "host"; readonly values: Float32Array };

class GpuAccelerator implements Accelerator {
  readonly kind = "gpu";
  readonly device: string;
  readonly lost: Promise<WinnowError>;
  readonly #gpu: GpuDevice;
  readonly #settings: Settings;
  readonly #budget: MemoryBudget;
  /** Slab pools by dim. */
  readonly #pools = new Map<number, SlabPool>();
  readonly #matrixScans: MatrixScans;
  readonly #lanes: SearchLanes;
  readonly #filters: DeviceFilters;
  readonly #residents: ResidentStore<Held>;
  #closing: Promise<void> | undefined;

  constructor(gpu: GpuDevice, settings: Settings) {
    const { capacityBytes, scratchBytesMax, lanes } = settings;
    const scratchBytes = scratchBytesOf(capacityBytes, scratchBytesMax);
    this.device = `GPU ${gpu.name}`;
    this.lost = gpu.lost;
    this.#gpu = gpu;
    this.#settings = settings;
    this.#budget = new MemoryBudget(capacityBytes - scratchBytes);
    const filterBytes = filterBytesOf(scratchBytes);
    this.#filters = new DeviceFilters(gpu, filterBytes);
    this.#matrixScans = new MatrixScans(gpu);
    this.#lanes = new SearchLanes(gpu, { lanes, scratchBytes: scratchBytes - filterBytes });
    this.#residents = new ResidentStore({
      budget: this.#budget,
      idle: () => this.#lanes.ended(),
      free: (held) => this.#free(held),
    });
  }

  memory(): AcceleratorMemory {
    return this.#residents.memory();
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
    const source = { shape, chunks, signal };
    if (shape.use === "gather") {
      const occupied = shape.rows * shape.dim * Float32Array.BYTES_PER_ELEMENT;
      return this.#residents.add(shape, { occupied }, async () => {
        return { on: "host", values: await takeHostRows(source) };
      });
    }
    const pool = this.#poolOf(shape.dim);
    const bytes = { occupied: groupsOf(shape.rows) * pool.groupBytes, isByDevice: true };
    const resident = await this.#residents.add(shape, bytes, () => this.#upload(pool, source));
    await pool.tidy();
    return resident;
  }

  async topK(query: TopKQuery, signal?: AbortSignal): Promise<TopKBlock> {
    this.#checkOpen();
    const checked = admittedQuery(checkTopKQuery(query));
    const parts = query.residents.map((resident) => this.#searchRows(resident));
    const { queries, room } = checked;
    if (queries === 0 || room === 0) return emptyBlock(queries);
    const scope = scopeOf(parts);
    return this.#lanes.search(async (scratch) => {
      const { exactStepProducts: stepProducts } = this.#settings;
      const matrixScans = this.#matrixScans;
      const means = {
        device: this.#gpu,
        scratch,
        filters: this.#filters,
        matrixScans,
        stepProducts,
      };
      const { block, cost } = await searchTopK(means, { query: checked, scope }, signal);
      this.#settings.onSearch?.(cost);
      return block;
    }, signal);
  }

  filter(resident: Resident, admittedRows: Uint8Array): RowFilter {
    this.#searchRows(resident);
    const filter = new BitmapFilter(resident, admittedRows);
    this.#filters.add(BitmapFilter.bitsOf(filter));
    return filter;
  }

  releaseFilter(filter: RowFilter): void {
    const bits = filter instanceof BitmapFilter ? filter.release() : undefined;
    if (bits !== undefined) this.#filters.release(bits);
  }

  async gather(resident: Resident, localRows: Uint32Array): Promise<Float32Array> {
    this.#checkOpen();
    const held = this.#residents.held(resident);
    const { dim, firstRow } = resident;
    checkLocalRows(resident, localRows);
    if (held.on === "host") return gatherHostRows(held.values, dim, localRows);
    const gathered = new Float32Array(localRows.length * dim);
    await this.#lanes.gather(async (scratch) => {
      for (const extent of held.rows.extents) {
        const from = extent.firstRow - firstRow;
        const places = [...localRows.keys()].filter((place) => {
          const row = localRows[place]!;
          return row >= from && row < from + extent.rows;
        });
        const wanted = Uint32Array.from(places, (place) => localRows[place]! - from);
        const values = await readRows({ device: this.#gpu, scratch }, { extent, dim }, wanted);
        for (const [index, place] of places.entries()) {
          gathered.set(values.subarray(index * dim, (index + 1) * dim), place * dim);
        }
      }
    });
    return gathered;
  }

  release(resident: Resident): Promise<void> {
    return this.#residents.release(resident);
  }

  close(): Promise<void> {
    this.#closing ??= this.#close();
    return this.#closing;
  }

  async #close(): Promise<void> {
    await this.#residents.close();
    this.#lanes.close();
    this.#filters.close();
    if (this.#settings.ownsDevice) await this.#gpu.close();
  }

  /** Loads rows that will be searched into slabs that they share with others of their dim. */
  async #upload(pool: SlabPool, source: RowSource): Promise<Held> {
    const { shape } = source;
    await this.#matrixScans.prepare(pool.layout);
    const extents = await pool.take(shape).catch(async (error) => {
      // A join under way holds its memory twice; when it has ended, the rows may fit.
      await Promise.all([...this.#pools.values()].map((each) => each.tidy()));
      if (!(error instanceof WinnowError && error.code === "RESOURCE_EXHAUSTED")) throw error;
      return pool.take(shape);
    });
    const { uploadBytesMax } = this.#settings;
    const target = { device: this.#gpu, layout: pool.layout, extents, uploadBytesMax };
    try {
      const scale = await uploadRows(source, target);
      this.#checkOpen();
      return { on: "device", pool, rows: pool.keep(extents, scale) };
    } catch (error) {
      await pool.giveBack(extents);
      throw error;
    }
  }

  async #free(held: Held): Promise<void> {
    if (held.on === "host") return;
    await held.pool.release(held.rows);
    if (this.#closing === undefined) await held.pool.tidy();
  }

  #poolOf(dim: number): SlabPool {
    const known = this.#pools.get(dim);
    if (known !== undefined) return known;
    const pool = new SlabPool(rowLayout(dim), {
      device: this.#gpu,
      budget: this.#budget,
      slabBytesMax: this.#settings.slabBytesMax,
      searchesEnded: () => this.#lanes.ended(),
    });
    this.#pools.set(dim, pool);
    return pool;
  }

  #searchRows(resident: Resident): SearchRows {
    const held = this.#residents.searchable(resident);
    if (held.on === "device") return held.rows;
    throw new RangeError("rows to be searched lie on the device");
  }

  #checkOpen(): void {
    this.#residents.checkOpen();
    this.#gpu.checkAlive();
  }
}

function checkDim({ dim }: LoadShape): void {
  if (dim <= GPU_DIM_MAX) return;
  const message = `Cannot load rows of dim ${dim} on a GPU: it must be from 1 to ${GPU_DIM_MAX}`;
  throw new WinnowError("INVALID_ARGUMENT", message);
}
