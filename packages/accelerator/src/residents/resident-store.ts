// The life cycle of residents, the same on every device: memory is reserved before the first byte
// arrives, a load that fails gives it back, a release waits until no query under way can still read
// the rows, and closing releases all that are left. Each device defines what it holds for a
// resident (`Held`).

import { WinnowError } from "@winnow/core";
import type { AcceleratorMemory, LoadShape, Resident } from "../accelerator.ts";
import type { MemoryBudget } from "./memory-budget.ts";

/** What the store needs of its device. */
export interface ResidentStoreParts<Held> {
  /** The account that residents are charged to. */
  readonly budget: MemoryBudget;
  /** Resolves when no work that was begun so far reads what is held. */
  readonly idle: () => Promise<void>;
  /** Frees what the `make` of a load returned. */
  readonly free: (held: Held) => unknown;
}

/** Bytes of a load. */
export interface LoadBytes {
  /** Kept until the release. */
  readonly occupied: number;
  /** Bytes needed in addition while the resident is made. */
  readonly building?: number;
  /** Whether the device itself reserves `occupied` in the same budget, and gives it back. */
  readonly isByDevice?: boolean;
}

interface Entry<Held> {
  readonly held: Held;
  readonly use: LoadShape["use"];
  /** Bytes to give back to the budget on release. */
  readonly reserved: number;
}

/** The residents of one device. */
export class ResidentStore<Held> {
  readonly #parts: ResidentStoreParts<Held>;
  readonly #entries = new Map<Resident, Entry<Held>>();
  #closing: Promise<void> | undefined;

  constructor(parts: ResidentStoreParts<Held>) {
    this.#parts = parts;
  }

  /** Reserved bytes and capacity. */
  memory(): AcceleratorMemory {
    return this.#parts.budget.memory();
  }

  /** @throws WinnowError UNAVAILABLE once `close` was called */
  checkOpen(): void {
    if (this.#closing !== undefined) {
      throw new WinnowError("UNAVAILABLE", "The accelerator is closed");
    }
  }

  /**
   * Reserves memory and adds the resident that `make` builds. A `make` that throws has freed what
   * it allocated.
   * @throws WinnowError RESOURCE_EXHAUSTED when the bytes do not fit, UNAVAILABLE if closed
   * meanwhile
   */
  async add(shape: LoadShape, bytes: LoadBytes, make: () => Promise<Held>): Promise<Resident> {
    const { rows, dim, firstRow, use } = shape;
    const { occupied, building = 0, isByDevice = false } = bytes;
    const { budget } = this.#parts;
    const reserved = isByDevice ? 0 : occupied;
    this.checkOpen();
    budget.reserve(reserved + building);
    try {
      const held = await make();
      if (this.#closing !== undefined) await this.#parts.free(held);
      this.checkOpen();
      const resident: Resident = Object.freeze({ rows, dim, firstRow, bytes: occupied });
      this.#entries.set(resident, { held, use, reserved });
      budget.giveBack(building);
      return resident;
    } catch (error) {
      budget.giveBack(reserved + building);
      throw error;
    }
  }

  /** What the device holds for a resident. @throws RangeError for one that is not on this device */
  held(resident: Resident): Held {
    return this.#entry(resident).held;
  }

  /** The same, to be searched. @throws RangeError also if it was loaded for `gather` alone */
  searchable(resident: Resident): Held {
    const { held, use } = this.#entry(resident);
    if (use === "search") return held;
    throw new RangeError("a resident was loaded for gathering only");
  }

  /** Frees the rows once nothing under way reads them. @throws RangeError as `held` */
  async release(resident: Resident): Promise<void> {
    const { held, reserved } = this.#entry(resident);
    this.#entries.delete(resident);
    await this.#parts.idle();
    await this.#parts.free(held);
    this.#parts.budget.giveBack(reserved);
  }

  /** Accepts no more loads, waits for the work under way, releases everything. Idempotent. */
  close(): Promise<void> {
    this.#closing ??= this.#close();
    return this.#closing;
  }

  async #close(): Promise<void> {
    await this.#parts.idle();
    await Promise.all([...this.#entries.keys()].map((resident) => this.release(resident)));
  }

  #entry(resident: Resident): Entry<Held> {
    const entry = this.#entries.get(resident);
    if (entry === undefined) throw new RangeError("the resident is not on this accelerator");
    return entry;
  }
}
