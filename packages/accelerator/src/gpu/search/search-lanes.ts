// Lanes let several batches be on the device at once: each lane runs its searches one after the
// other, in working memory of its own, so that one batch computes while another is prepared or
// read. Gathering has a lane for itself. All lanes together stay within the bytes set aside of the
// capacity (scratch.ts).

import { WorkQueue } from "../../work-queue.ts";
import type { GpuDevice } from "../device/device.ts";
import { Scratch } from "./scratch.ts";

/** Bytes of working memory for gathering, at most, and its share: one byte of this many. */
const GATHER_BYTES_MAX = 2 ** 24;
const GATHER_SHARE = 8;

/** Number of lanes for searches, and bytes of working memory of all lanes together. */
export interface LaneLimits {
  readonly lanes: number;
  readonly scratchBytes: number;
}

interface Lane {
  readonly scratch: Scratch;
  readonly queue: WorkQueue;
  waiting: number;
}

/** Runs all work on a device other than loading. */
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

  /** Searches in the lane with the fewest waiting searches. Rejects with the signal's reason. */
  search<T>(work: (scratch: Scratch) => Promise<T>, signal: AbortSignal | undefined): Promise<T> {
    const idlest = this.#searches.reduce((best, lane) =>
      lane.waiting < best.waiting ? lane : best,
    );
    return runIn(idlest, work, signal);
  }

  /** Gathers once all earlier gathers have ended. */
  gather<T>(work: (scratch: Scratch) => Promise<T>): Promise<T> {
    return runIn(this.#gathers, work);
  }

  /** Resolves when all work added so far has ended, with or without success. */
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
