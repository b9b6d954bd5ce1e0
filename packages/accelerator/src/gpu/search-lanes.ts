// Batches on the device at once: each lane works through its searches one after the other, in working
// memory of its own, so that one batch computes while another is prepared or read. Gathering has a lane
// for itself. All of them together stay within what is set aside of the capacity (scratch.ts).

import { WorkQueue } from "../work-queue.ts";
import type { GpuDevice } from "./device.ts";
import { Scratch } from "./scratch.ts";

/** Bytes of working memory for gathering at most, and its part of all working memory. */
const GATHER_BYTES_MAX = 2 ** 24;
const GATHER_SHARE = 8;

/** How much goes on at once, in how much memory. */
export interface LaneLimits {
  readonly lanes: number;
  readonly scratchBytes: number;
}

interface Lane {
  readonly scratch: Scratch;
  readonly queue: WorkQueue;
  waiting: number;
}

/** All work on a device beside loading. */
export class SearchLanes {
  readonly #searches: readonly Lane[];
  readonly #gathers: Lane;

  constructor(device: GpuDevice, { lanes, scratchBytes }: LaneLimits) {
    const lane = (bytesMax: number): Lane => ({
      scratch: new Scratch(device, bytesMax),
      queue: new WorkQueue(),
      waiting: 0,
    });
    const gatherBytes = Math.min(GATHER_BYTES_MAX, Math.floor(scratchBytes / GATHER_SHARE));
    const laneBytes = Math.floor((scratchBytes - gatherBytes) / lanes);
    this.#searches = Array.from({ length: lanes }, () => lane(laneBytes));
    this.#gathers = lane(gatherBytes);
  }

  /** Searches in the lane where the least is waiting. Rejects with the signal's reason. */
  search<T>(work: (scratch: Scratch) => Promise<T>, signal: AbortSignal | undefined): Promise<T> {
    const idlest = this.#searches.reduce((best, lane) =>
      lane.waiting < best.waiting ? lane : best,
    );
    return runIn(idlest, work, signal);
  }

  /** Gathers after what is being gathered. */
  gather<T>(work: (scratch: Scratch) => Promise<T>): Promise<T> {
    return runIn(this.#gathers, work);
  }

  /** Resolves when all that was asked so far has ended, well or not. */
  async ended(): Promise<void> {
    await Promise.all([...this.#searches, this.#gathers].map(({ queue }) => queue.idle()));
  }

  /** Frees the working memory. */
  close(): void {
    for (const { scratch } of [...this.#searches, this.#gathers]) scratch.close();
  }
}

async function runIn<T>(
  lane: Lane,
  work: (scratch: Scratch) => Promise<T>,
  signal?: AbortSignal,
): Promise<T> {
  lane.waiting += 1;
  try {
    return await lane.queue.run(() => work(lane.scratch), signal);
  } finally {
    lane.waiting -= 1;
  }
}
