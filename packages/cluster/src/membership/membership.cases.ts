// What every membership store does. Times are short but real, because a store is a separate
// process.

import { silentLogger, systemClock } from "@winnow/core";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { eventually } from "../fixtures/eventually.ts";
import { announced } from "../fixtures/announcement-words.ts";
import type { WorkerWords } from "../fixtures/announcement-words.ts";
import { RefusedRecords } from "../trust/refused-records.ts";
import type { MembershipStore, MembershipView } from "./membership.ts";

/** A store with two places for workers, `w0` and `w1`. */
export interface MembershipSetup {
  /** A worker announces what it holds, or announces it again; resolves when it can be found. */
  announce(words: WorkerWords): Promise<void>;
  /** A worker leaves in order. */
  leave(id: string): Promise<void>;
  /** A worker dies. */
  kill(id: string): Promise<void>;
  /** A store as a router opens it. */
  watcher(refused?: RefusedRecords): MembershipStore;
  /** The store, or every listed worker, stops answering. */
  breakStore(): Promise<void>;
  mendStore(): Promise<void>;
  /** Puts a text that is no announcement of `w1` where its announcement belongs. */
  poison(): Promise<void>;
  /** Whether placement follows a fixed list. */
  readonly isListed: boolean;
  close(): Promise<void>;
}

/** A watcher and the views that it was told, newest last. */
export class Watcher {
  readonly views: MembershipView[] = [];
  readonly end: () => void;

  constructor(store: MembershipStore) {
    this.end = store.watch((view) => this.views.push(view));
  }

  get last(): MembershipView | undefined {
    return this.views.at(-1);
  }

  get ids(): string {
    return (this.last?.workers ?? []).map((worker) => worker.workerId).join(" ");
  }

  /** Waits until the view shows these workers. */
  async sees(ids: string, healthy = true): Promise<void> {
    await eventually(() => {
      if (this.ids === ids && this.last?.healthy === healthy) return;
      throw new Error(`sees "${this.ids}", healthy: ${String(this.last?.healthy)}`);
    });
  }
}

/** Runs the cases against a store. */
export function membershipCases(name: string, setUp: () => Promise<MembershipSetup>): void {
  describe(`membership (${name})`, () => {
    let setup: MembershipSetup;
    let store: MembershipStore;
    let refused: RefusedRecords;
    let watcher: Watcher;

    beforeEach(async () => {
      setup = await setUp();
      refused = new RefusedRecords(silentLogger);
      store = setup.watcher(refused);
      watcher = new Watcher(store);
    });
    afterEach(async () => {
      await store.close();
      await setup.close();
    });

    test("tells when it was last read, and nothing before", async () => {
      const fresh = setup.watcher();
      const startMs = systemClock.nowMs();
      expect(fresh.readAtMs()).toBeUndefined();

      await setup.announce({ id: "w0" });
      await watcher.sees("w0");

      expect(store.readAtMs()).toBeLessThanOrEqual(systemClock.nowMs());
      await eventually(() => expect(store.readAtMs()).toBeGreaterThan(startMs));
      await fresh.close();
    });

    test("shows the workers that announced, ascending by id, and what they hold", async () => {
      await setup.announce({ id: "w1", versions: [{ version: 7 }] });
      await setup.announce({ id: "w0" });
      await watcher.sees("w0 w1");

      const [first, second] = watcher.last!.workers;
      expect(first!.workerId).toBe("w0");
      expect(second!.versions).toEqual(
        announced({ id: "w1", versions: [{ version: 7 }] }).versions,
      );
      expect(watcher.last!.placementWorkers).toEqual(["w0", "w1"]);
    });

    test("tells a change of what a worker holds", async () => {
      await setup.announce({ id: "w0", versions: [{ version: 1 }] });
      await setup.announce({ id: "w1" });
      await watcher.sees("w0 w1");

      await setup.announce({ id: "w0", versions: [{ version: 1 }, { version: 2 }] });

      await eventually(() => expect(watcher.last!.workers[0]!.versions).toHaveLength(2));
    });

    test("lets a worker that left go", async () => {
      await setup.announce({ id: "w0" });
      await setup.announce({ id: "w1" });
      await watcher.sees("w0 w1");

      await setup.leave("w1");
      await watcher.sees("w0");

      expect(watcher.last!.placementWorkers).toEqual(setup.isListed ? ["w0", "w1"] : ["w0"]);
    });

    test("lets a worker that died go, but keeps its place", async () => {
      await setup.announce({ id: "w0" });
      await setup.announce({ id: "w1" });
      await watcher.sees("w0 w1");

      await setup.kill("w1");
      await watcher.sees("w0");

      expect(watcher.last!.placementWorkers).toEqual(["w0", "w1"]);
    });

    test("shows a worker that came back in its new life", async () => {
      await setup.announce({ id: "w0" });
      await setup.announce({ id: "w1" });
      await watcher.sees("w0 w1");
      await setup.kill("w1");
      await watcher.sees("w0");

      await setup.announce({ id: "w1", incarnation: 2 });
      await watcher.sees("w0 w1");

      expect(watcher.last!.workers[1]!.incarnation).toBe(2);
    });

    test("L1: keeps the last view while nobody can be asked, and goes on afterwards", async () => {
      await setup.announce({ id: "w0" });
      await setup.announce({ id: "w1" });
      await watcher.sees("w0 w1");

      await setup.breakStore();
      await watcher.sees("w0 w1", false);
      await setup.mendStore();
      await watcher.sees("w0 w1");

      const complete = watcher.views.findIndex((view) => view.workers.length === 2);
      const later = watcher.views.slice(complete);
      expect(later.filter((view) => view.workers.length < 2)).toEqual([]);
    });

    test("ignores and counts what is no announcement of that worker", async () => {
      await setup.announce({ id: "w0" });
      await setup.poison();
      await eventually(() => {
        const counts = Object.values(refused.counts);
        expect(counts.some((count) => count > 0)).toBe(true);
      });

      await eventually(() => expect(watcher.ids).toBe("w0"));
    });

    test("tells a late watcher the view it has, and nobody after the end", async () => {
      await setup.announce({ id: "w0" });
      await setup.announce({ id: "w1" });
      await watcher.sees("w0 w1");

      const late = new Watcher(store);
      await late.sees("w0 w1");
      late.end();
      const told = late.views.length;
      await setup.announce({ id: "w0", versions: [{ version: 9 }] });
      await eventually(() => expect(watcher.last!.workers[0]!.versions).toHaveLength(1));

      expect(late.views).toHaveLength(told);
    });
  });
}
