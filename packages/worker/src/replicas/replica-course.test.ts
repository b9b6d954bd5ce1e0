// Random sequences of events over several workers' replica control: whatever happens, workers never
// lose coverage of the serving version by what they do, and when events end every worker holds what
// it should.

import { WinnowError } from "@winnow/core";
import fc from "fast-check";
import { describe, expect, test } from "vitest";

import { FakeCluster } from "./doubles/fake-cluster.ts";
import type { FakeWorker } from "./doubles/fake-cluster.ts";
import { contentPrint, fakeTable } from "../compute/doubles/fake-compute.ts";

type Step =
  | { readonly kind: "join" | "leave" | "kill" | "publish" | "publishBroken" | "mend" }
  | { readonly kind: "replace" | "replaceBroken" | "touch" }
  | { readonly kind: "pass"; readonly passMs: number };

const swapping: fc.Arbitrary<Step> = fc.oneof(
  fc.constantFrom<Step>({ kind: "join" }, { kind: "leave" }, { kind: "publish" }),
  fc.constantFrom<Step>({ kind: "publishBroken" }, { kind: "mend" }, { kind: "touch" }),
  fc.record({ kind: fc.constant("pass" as const), passMs: fc.integer({ min: 50, max: 900 }) }),
);
const calm: fc.Arbitrary<Step> = fc.oneof(swapping, fc.constant<Step>({ kind: "replace" }));
const spoiling: fc.Arbitrary<Step> = fc.oneof(calm, fc.constant<Step>({ kind: "replaceBroken" }));
const rough: fc.Arbitrary<Step> = fc.oneof(calm, fc.constant<Step>({ kind: "kill" }));

/** How replicas are counted during swaps, and what memory workers have. */
interface Sharing {
  readonly name: string;
  readonly swapReplicas?: number;
  readonly capacityBytes?: number;
  /** Steps after which coverage may not be lost, and those before which it may. */
  readonly harmless: fc.Arbitrary<Step>;
  readonly any: fc.Arbitrary<Step>;
}

const SHARINGS: readonly Sharing[] = [
  { name: "all replicas", harmless: spoiling, any: rough },
  { name: "one replica during swaps", swapReplicas: 1, harmless: spoiling, any: rough },
  {
    name: "one replica during swaps and little memory",
    swapReplicas: 1,
    // All twelve partitions of one version, and one more of each table.
    capacityBytes: 1400,
    harmless: swapping,
    any: fc.oneof(swapping, fc.constant<Step>({ kind: "kill" })),
  },
];

const TABLES = [fakeTable("movies", 8), fakeTable("users", 4)];

/** A cluster to which steps happen, and what must always hold. */
class Course {
  readonly cluster: FakeCluster;
  readonly #capacityBytes: number | undefined;
  readonly #versions: Record<number, typeof TABLES> = { 1: TABLES };
  readonly #leaving = new Map<FakeWorker, number>();
  readonly #broken = new Set<number>();
  /** All contents that any directory has held. */
  readonly #contents = ["/m/1", "/m/2", "/m/3", "/m/4", "/m/5"];
  #joined = 0;
  #stamp = 0;

  constructor({ swapReplicas, capacityBytes }: Sharing) {
    this.cluster = new FakeCluster({ loadRetryIntervalMs: 300, swapReplicas });
    this.#capacityBytes = capacityBytes;
  }

  async begin(): Promise<void> {
    this.cluster.setVersions(this.#versions);
    this.#join();
    this.#join();
    this.#join();
    await this.run(1500);
  }

  async take(step: Step): Promise<void> {
    const workers = this.#staying();
    const isCrowd = workers.length > 2;
    const acts: Readonly<Record<Exclude<Step["kind"], "pass">, () => void>> = {
      join: () => workers.length < 6 && this.#join(),
      leave: () => isCrowd && this.#leave(workers[0]!),
      kill: () => isCrowd && this.cluster.kill(workers.at(-1)!),
      publish: () => this.#publish(false),
      publishBroken: () => this.#publish(true),
      mend: () => this.#mend(),
      touch: () => this.#touch(),
      replace: () => this.#replace(false),
      replaceBroken: () => this.#replace(true),
    };
    if (step.kind !== "pass") acts[step.kind]();
    await this.run(step.kind === "pass" ? step.passMs : 50);
  }

  /** Time passes; workers in drain leave as soon as they may. */
  async run(durationMs: number): Promise<void> {
    await this.cluster.run(durationMs, () => {
      for (const { compute, id } of this.cluster.workers.values()) {
        if (compute.pending > 2) throw new Error(`${id} does ${compute.pending} things at once`);
      }
      for (const [worker, sinceMs] of this.#leaving) {
        const settings = { drainSettleMs: 100, drainAbsentMs: 100, drainHoldMsMax: 1e9 };
        if (!worker.control.drainHold(sinceMs, settings).isOver) continue;
        this.#leaving.delete(worker);
        this.cluster.kill(worker);
      }
    });
  }

  /** Fewest replicas of any partition of the version that the first worker takes for serving. */
  servingReplicas(): number {
    const [first] = this.#staying();
    const print = first?.control.serving.get("m")?.fingerprint;
    const content = this.#contents.find((each) => contentPrint(each) === print) ?? "none";
    return Math.min(...this.cluster.coverage(content, 0), ...this.cluster.coverage(content, 1));
  }

  /** What the directory of a version holds. */
  contentOf(version: number): string {
    return this.cluster.plan.contents.get(`/m/${version}`) ?? `/m/${version}`;
  }

  get newestGood(): number {
    const good = Object.keys(this.#versions).map(Number);
    return Math.max(...good.filter((version) => !this.#broken.has(version)));
  }

  #staying(): FakeWorker[] {
    return [...this.cluster.workers.values()].filter(({ isDraining }) => !isDraining);
  }

  #join(): void {
    this.#joined += 1;
    const capacityBytes = this.#capacityBytes;
    this.cluster.add(`w${this.#joined}`, capacityBytes === undefined ? {} : { capacityBytes });
  }

  #leave(worker: FakeWorker): void {
    this.cluster.drain(worker);
    this.#leaving.set(worker, this.cluster.clock.nowMs());
  }

  #publish(isBroken: boolean): void {
    const version = Math.max(...Object.keys(this.#versions).map(Number)) + 1;
    if (version > 5) return;
    this.#versions[version] = TABLES;
    if (isBroken) {
      this.#broken.add(version);
      const error = new WinnowError("DATA_LOSS", "a data file is cut short");
      this.cluster.plan.failures.set(`/m/${version}#0/3`, error);
    }
    this.#announce();
  }

  /** The newest good version's directory is written anew, in place. */
  #replace(isBroken: boolean): void {
    const version = this.newestGood;
    const content = `/m/${version}~${this.#contents.length}`;
    this.#contents.push(content);
    if (isBroken) {
      const error = new WinnowError("DATA_LOSS", "a data file is cut short");
      this.cluster.plan.failures.set(`${content}#0/3`, error);
    }
    this.cluster.replace(version, content);
  }

  #touch(): void {
    this.#stamp += 1;
    this.cluster.touch(this.newestGood, `touched ${this.#stamp}`);
  }

  /** Every broken version is replaced by a good one. */
  #mend(): void {
    this.#broken.clear();
    this.cluster.plan.failures.clear();
    this.#stamp += 1;
    this.#announce();
  }

  #announce(): void {
    this.cluster.setVersions(this.#versions, `stamp ${this.#stamp}`);
  }
}

describe.each(SHARINGS)("a random course of events with $name", (sharing) => {
  test("(I4, I5) joins, drains, swaps, replacements and broken versions never take a partition of the serving version away", async () => {
    await fc.assert(
      fc.asyncProperty(fc.array(sharing.harmless, { maxLength: 12 }), async (steps) => {
        const course = new Course(sharing);
        await course.begin();

        for (const step of steps) {
          await course.take(step);
          expect(course.servingReplicas()).toBeGreaterThanOrEqual(1);
        }
      }),
      { numRuns: 20 },
    );
  });

  test("when all is calm again, the newest good version is whole everywhere and nothing else is held", async () => {
    await fc.assert(
      fc.asyncProperty(fc.array(sharing.any, { maxLength: 12 }), async (steps) => {
        const course = new Course(sharing);
        await course.begin();
        for (const step of steps) await course.take(step);

        await course.run(12_000);

        const workers = [...course.cluster.workers.values()];
        for (const { control, compute } of workers) {
          const good = course.contentOf(course.newestGood);
          expect(control.serving.get("m")).toMatchObject({ fingerprint: contentPrint(good) });
          // A worker may hold its assignment of a newer version that another worker cannot load.
          const newer = [1, 2, 3, 4, 5].filter((version) => version > course.newestGood);
          const allowed = new Set([good, ...newer.map((version) => course.contentOf(version))]);
          expect(compute.openContents).toContain(good);
          expect(compute.openContents.filter((each) => !allowed.has(each))).toEqual([]);
          expect(new Set(compute.openContents).size).toBe(compute.openContents.length);
          for (const [table, { partitionBytes }] of TABLES.entries()) {
            expect(course.cluster.coverage(good, table)).toEqual(partitionBytes.map(() => 2));
          }
        }
        for (const { control } of workers) control.close();
        await course.cluster.clock.advanceSettled(1000);
        expect(course.cluster.clock.pendingTimers).toBe(0);
      }),
      { numRuns: 20 },
    );
  });
});
