// Loads, releases, searches and lookups in any order, several under way at once: each answer equals
// the reference's for the residents at the time of the call, and no byte of memory is lost.

import fc from "fast-check";
import { describe, expect, test } from "vitest";
import type { Accelerator, Resident } from "../../accelerator.ts";
import { createGpuAccelerator } from "../accelerator.ts";
import { VALUE_BYTES, bytesOf, gatherFault, load, searchFault } from "../fixtures/shared-table.ts";
import { sharedSoftwareGpu } from "../fixtures/software-gpu.ts";

const { device, reason } = await sharedSoftwareGpu();

/** Courses by chance; a device in software takes a second for one. `npm run fuzz:gpu` has more of them. */
const COURSES = Number(process.env["FUZZ_SEARCHES"] ?? 8);
const COURSES_MS_MAX = 120_000 + COURSES * 6000;

/** Parts of the table begin at multiples of this; each is on the accelerator at most once. */
const PART_ROWS = 800;
const PARTS = 10;

interface Step {
  readonly what: "load" | "release" | "search" | "gather" | "turn" | "wait";
  readonly pick: number;
  readonly rows: number;
}

/** Runs all steps; only the step "wait" waits, and only for loads and releases. */
class Play {
  readonly #accelerator: Accelerator;
  readonly #ready = new Map<number, Resident>();
  readonly #busy = new Set<number>();
  readonly #faults: Promise<string | undefined>[] = [];
  readonly #changes: Promise<unknown>[] = [];

  constructor(accelerator: Accelerator) {
    this.#accelerator = accelerator;
  }

  async step({ what, pick, rows }: Step): Promise<void> {
    const part = pick % PARTS;
    const held = this.#ready.get(part);
    if (what === "turn") await new Promise((resolve) => void setImmediate(resolve));
    if (what === "wait") await Promise.all(this.#changes);
    if (what === "load" && held === undefined) this.#load(part, rows);
    if (what === "release" && held !== undefined) this.#release(part, held);
    if (what === "gather" && held !== undefined) {
      this.#faults.push(gatherFault(this.#accelerator, held));
    }
    if (what === "search" && this.#ready.size > 0) {
      const some = [...this.#ready.values()].filter((_, at) => at === 0 || (pick >> at) % 2 === 1);
      this.#faults.push(searchFault(this.#accelerator, some));
    }
  }

  /** What was wrong with any answer, once all steps have ended. */
  async faults(): Promise<readonly string[]> {
    await Promise.all(this.#changes);
    const faults = await Promise.all(this.#faults);
    return faults.filter((fault) => fault !== undefined);
  }

  get residents(): readonly Resident[] {
    return [...this.#ready.values()];
  }

  #load(part: number, rows: number): void {
    if (this.#busy.has(part)) return;
    this.#busy.add(part);
    this.#changes.push(this.#loaded(part, rows));
  }

  async #loaded(part: number, rows: number): Promise<void> {
    const resident = await load(this.#accelerator, part * PART_ROWS, rows);
    this.#busy.delete(part);
    this.#ready.set(part, resident);
  }

  #release(part: number, resident: Resident): void {
    this.#ready.delete(part);
    this.#busy.add(part);
    const released = this.#accelerator.release(resident).then(() => this.#busy.delete(part));
    this.#changes.push(released);
  }
}

const STEP = fc.record({
  what: fc.constantFrom("load", "load", "release", "search", "search", "gather", "turn", "wait"),
  pick: fc.nat(),
  rows: fc.integer({ min: 3, max: PART_ROWS }),
} as const);

describe.skipIf(device === undefined)(`a GPU that does many things at once ${reason}`, () => {
  test(
    "answers each search and lookup rightly, whatever comes and goes beside it",
    async () => {
      const settings = fc.record({
        groups: fc.constantFrom(1, 3, 1000),
        lanes: fc.integer({ min: 1, max: 4 }),
        uploadBytesMax: fc.constantFrom(1, 2 ** 26),
      });
      await fc.assert(
        fc.asyncProperty(
          settings,
          fc.array(STEP, { minLength: 10, maxLength: 60 }),
          async ({ groups, ...others }, steps) => {
            const accelerator = createGpuAccelerator(device!, {
              capacityBytes: 2 ** 26,
              slabBytesMax: groups * VALUE_BYTES,
              ...others,
            });
            const play = new Play(accelerator);

            for (const step of steps) await play.step(step);

            expect(await play.faults()).toEqual([]);
            expect(accelerator.memory().usedBytes).toBe(bytesOf(play.residents));
            await accelerator.close();
            expect(accelerator.memory().usedBytes).toBe(0);
          },
        ),
        { numRuns: COURSES },
      );
    },
    COURSES_MS_MAX,
  );
});
