// All slabs that hold rows of one dim. Partitions share slabs, so that a search needs one dispatch
// for many of them, and can still be loaded and released one by one:
//
//   take      holes first, for the rest new slabs of exactly the missing size
//   giveBack  the groups are free; a slab without rows is freed
//   tidy      small slabs are joined and holes closed: a copy on the device into one new slab, if
//             memory for it is free (slab-join.ts)
//
// A search uses the extents as they are when it is called. Therefore the old slabs of a join are
// freed only after all searches called before the join have ended; later searches use the new slab.

import type { MemoryBudget } from "../../residents/memory-budget.ts";
import { WorkQueue } from "../../work-queue.ts";
import type { RowLayout, RowScale } from "../codes.ts";
import type { GpuDevice } from "../device/device.ts";
import { groupsIn, takeGroups, withSpan } from "./group-space.ts";
import type { Span } from "./group-space.ts";
import { allocateSlab, freeSlabs, groupBytes, groupsOf } from "./slab.ts";
import type { Extent, Slab } from "./slab.ts";
import { planJoin } from "./slab-join.ts";
import { GROUP_ROWS } from "../shaders/prelude.ts";

/** Rows that can be searched. */
export interface SearchRows {
  readonly layout: RowLayout;
  readonly scale: RowScale;
  /** Where the rows lie, ascending by row; replaced by another list when they move. */
  readonly extents: readonly Extent[];
}

/** What a pool needs of its accelerator. */
export interface PoolMeans {
  readonly device: GpuDevice;
  readonly budget: MemoryBudget;
  /** Bytes of one buffer at most; the device's limits may be lower. */
  readonly slabBytesMax: number;
  /** Resolves when all searches called so far have ended. */
  readonly searchesEnded: () => Promise<void>;
}

/** A slab, its free groups, and what happens to it. */
interface Place {
  readonly slab: Slab;
  free: readonly Span[];
  /** Number of loads that write into the slab; until they end it is not moved. */
  loads: number;
  /** Whether the slab's rows are being moved; no load may take groups in it then. */
  isMoving: boolean;
}

/** Groups of a slab that a load has taken. */
interface Room {
  readonly place: Place;
  readonly span: Span;
}

type Tenant = { -readonly [Key in keyof SearchRows]: SearchRows[Key] };

/** The slabs of one dim. */
export class SlabPool {
  readonly layout: RowLayout;
  /** Bytes of one group in a slab. */
  readonly groupBytes: number;
  readonly #means: PoolMeans;
  readonly #slabGroupsMax: number;
  readonly #tenants = new Set<Tenant>();
  readonly #tidying = new WorkQueue();
  #places: Place[] = [];

  constructor(layout: RowLayout, means: PoolMeans) {
    const { maxBufferSize, maxStorageBufferBindingSize } = means.device.limits;
    const bytesMax = Math.min(means.slabBytesMax, maxBufferSize, maxStorageBufferBindingSize);
    const { values, codes } = groupBytes(layout);
    this.layout = layout;
    this.groupBytes = values + codes;
    this.#means = means;
    this.#slabGroupsMax = Math.max(1, Math.floor(bytesMax / Math.max(values, codes)));
  }

  /** Number of slabs. */
  get slabs(): number {
    return this.#places.length;
  }

  /**
   * Takes groups for rows, to be passed to `keep` or `giveBack`. On failure nothing is taken.
   * @throws WinnowError RESOURCE_EXHAUSTED
   */
  async take(shape: { readonly rows: number; readonly firstRow: number }): Promise<Extent[]> {
    const groups = groupsOf(shape.rows);
    const holes = this.#takeHoles(groups);
    try {
      const places = await this.#newPlaces(groups - groupsIn(holes.map(({ span }) => span)));
      const whole = places.map((place) => ({
        place,
        span: { first: 0, groups: place.slab.groups },
      }));
      return extentsIn([...holes, ...whole], shape);
    } catch (error) {
      await this.giveBack(extentsIn(holes, shape));
      throw error;
    }
  }

  /** Ends a load that has filled its extents; from here on its rows can be searched. */
  keep(extents: readonly Extent[], scale: RowScale): SearchRows {
    const tenant: Tenant = { layout: this.layout, scale, extents };
    this.#endLoad(extents);
    this.#tenants.add(tenant);
    return tenant;
  }

  /** Frees the extents of a load that has failed. */
  async giveBack(extents: readonly Extent[]): Promise<void> {
    this.#endLoad(extents);
    await this.#free(extents);
  }

  /** Frees rows that no search under way uses. */
  async release(rows: SearchRows): Promise<void> {
    this.#tenants.delete(rows);
    await this.#free(rows.extents);
  }

  /**
   * Runs joins one after the other, as long as one is planned. A join that fails is given up
   * silently.
   */
  async tidy(): Promise<void> {
    await this.#tidying.run(async () => {
      let isJoined = true;
      while (isJoined) isJoined = await this.#join();
    });
  }

  #takeHoles(groups: number): Room[] {
    const holes: Room[] = [];
    let missing = groups;
    for (const place of this.#places) {
      if (place.isMoving || missing === 0) continue;
      const { taken, free } = takeGroups(place.free, missing);
      place.free = free;
      place.loads += taken.length;
      missing -= groupsIn(taken);
      holes.push(...taken.map((span) => ({ place, span })));
    }
    return holes;
  }

  /** Allocates slabs for this many groups, all of them taken by one load. */
  async #newPlaces(groups: number): Promise<Place[]> {
    const { budget, device } = this.#means;
    budget.reserve(groups * this.groupBytes);
    const slabs: Slab[] = [];
    try {
      for (let missing = groups; missing > 0; missing -= slabs.at(-1)!.groups) {
        const own = Math.min(missing, this.#slabGroupsMax);
        slabs.push(await allocateSlab(device, this.layout, own));
      }
    } catch (error) {
      await freeSlabs(slabs, device).catch(() => undefined);
      budget.giveBack(groups * this.groupBytes);
      throw error;
    }
    const places = slabs.map((slab) => ({ slab, free: [], loads: 1, isMoving: false }));
    this.#places.push(...places);
    return places;
  }

  #placeOf({ slab }: Extent): Place {
    return this.#places.find((place) => place.slab === slab)!;
  }

  #endLoad(extents: readonly Extent[]): void {
    for (const extent of extents) this.#placeOf(extent).loads -= 1;
  }

  async #free(extents: readonly Extent[]): Promise<void> {
    for (const extent of extents) {
      const place = this.#placeOf(extent);
      const span = { first: extent.firstGroup, groups: extent.groups };
      place.free = withSpan(place.free, span);
    }
    await this.#drop(this.#places.filter((place) => liveGroups(place) === 0 && !place.isMoving));
  }

  /** Frees slabs and their memory in the budget; errors of a lost device are ignored. */
  async #drop(places: readonly Place[]): Promise<void> {
    this.#places = this.#places.filter((place) => !places.includes(place));
    const slabs = places.map(({ slab }) => slab);
    await freeSlabs(slabs, this.#means.device).catch(() => undefined);
    const groups = slabs.reduce((sum, slab) => sum + slab.groups, 0);
    this.#means.budget.giveBack(groups * this.groupBytes);
  }

  /** Runs one join; false if none is planned, or there is no memory for it. */
  async #join(): Promise<boolean> {
    const { budget, device, searchesEnded } = this.#means;
    const movable = this.#places.filter(({ loads }) => loads === 0);
    const { capacityBytes, usedBytes } = budget.memory();
    const spareGroups = Math.floor((capacityBytes - usedBytes) / this.groupBytes);
    const limits = { slabGroupsMax: this.#slabGroupsMax, spareGroups };
    const fills = movable.map((place) => ({
      place,
      groups: place.slab.groups,
      live: liveGroups(place),
    }));
    const planned = planJoin(fills, limits);
    if (planned.length === 0) return false;
    const members = planned.map(({ place }) => place);
    const groups = planned.reduce((sum, { live }) => sum + live, 0);
    budget.reserve(groups * this.groupBytes);
    for (const place of members) place.isMoving = true;
    try {
      const slab = await allocateSlab(device, this.layout, groups);
      this.#places.push(this.#moved(members, slab));
    } catch {
      for (const place of members) place.isMoving = false;
      budget.giveBack(groups * this.groupBytes);
      await this.#drop(members.filter((place) => liveGroups(place) === 0));
      return false;
    }
    await searchesEnded();
    await this.#drop(members);
    await this.#drop(this.#places.filter((place) => liveGroups(place) === 0 && !place.isMoving));
    return true;
  }

  /**
   * Copies the live groups of these slabs into the new slab and moves their tenants to it at once.
   */
  #moved(members: readonly Place[], slab: Slab): Place {
    const { device } = this.#means;
    device.checkAlive();
    const encoder = device.connection.createCommandEncoder();
    const bytes = groupBytes(this.layout);
    const slabs = new Set(members.map((place) => place.slab));
    let next = 0;
    const moves: (() => void)[] = [];
    for (const tenant of this.#tenants) {
      const extents = tenant.extents.map((extent) => {
        if (!slabs.has(extent.slab)) return extent;
        for (const name of ["values", "codes"] as const) {
          const [from, to] = [extent.firstGroup * bytes[name], next * bytes[name]];
          const size = extent.groups * bytes[name];
          encoder.copyBufferToBuffer(extent.slab[name], from, slab[name], to, size);
        }
        const moved = { ...extent, slab, firstGroup: next };
        next += extent.groups;
        return moved;
      });
      moves.push(() => (tenant.extents = merged(extents)));
    }
    device.connection.queue.submit([encoder.finish()]);
    for (const move of moves) move();
    const free = next < slab.groups ? [{ first: next, groups: slab.groups - next }] : [];
    return { slab, free, loads: 0, isMoving: false };
  }
}

function liveGroups({ slab, free }: Place): number {
  return slab.groups - groupsIn(free);
}

/** Extents for rows in order, over the groups that were taken for them. */
function extentsIn(
  room: readonly Room[],
  { rows, firstRow }: { readonly rows: number; readonly firstRow: number },
): Extent[] {
  let done = 0;
  return room.map(({ place, span }) => {
    const own = Math.min(rows - done, span.groups * GROUP_ROWS);
    const at = { firstGroup: span.first, groups: span.groups };
    const extent = { slab: place.slab, ...at, firstRow: firstRow + done, rows: own };
    done += own;
    return extent;
  });
}

/** The extents, with neighbours in a slab merged into one. */
function merged(extents: readonly Extent[]): Extent[] {
  const joined: Extent[] = [];
  for (const extent of extents) {
    const last = joined.at(-1);
    const isNext =
      last?.slab === extent.slab && last.firstGroup + last.groups === extent.firstGroup;
    if (last === undefined || !isNext) joined.push(extent);
    else {
      const [groups, rows] = [last.groups + extent.groups, last.rows + extent.rows];
      joined[joined.length - 1] = { ...last, groups, rows };
    }
  }
  return joined;
}
