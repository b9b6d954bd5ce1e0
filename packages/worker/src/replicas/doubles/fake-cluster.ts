// Several replica controls on one virtual clock, joined by a membership that is a Map: the control
// logic as it is, without processes, sockets or files.

import type { Announcement, MembershipView } from "@winnow/cluster";
import { WinnowError, incarnation, silentLogger, workerId } from "@winnow/core";
import { ManualClock } from "../../../../../test/doubles/manual-clock.ts";
import type { Environment, Logger, WorkerId } from "@winnow/core";

import type { OpenedTable } from "../../compute/compute.ts";
import { FakeCompute, contentPrint, fakePlan } from "../../compute/doubles/fake-compute.ts";
import type { FakePlan } from "../../compute/doubles/fake-compute.ts";
import { ReplicaControl } from "../replica-control.ts";
import type { ReplicaSettings } from "../replica-control.ts";
import type { VersionPolicy } from "../../models/version-policy.ts";
import type { FoundModel } from "../../models/version-watch.ts";
import type { FoundVersion } from "../../models/directory-stillness.ts";

/** One worker of a fake cluster. */
export interface FakeWorker {
  readonly id: WorkerId;
  readonly compute: FakeCompute;
  readonly control: ReplicaControl;
  announcement(): Announcement;
  isDraining: boolean;
}

/** Workers, the disk that they share, and time. */
export class FakeCluster {
  readonly clock: ManualClock;
  readonly plan: FakePlan = fakePlan();
  readonly workers = new Map<WorkerId, FakeWorker>();
  /** Of workers that are added from now on. */
  settings: Partial<ReplicaSettings>;
  policy: VersionPolicy = { kind: "latest", count: 1 };
  /** Announcements that every view names beside those of the workers: forged ones, or of the dead. */
  readonly claims: Announcement[] = [];
  /** Workers that do not answer when they are asked what they hold. */
  readonly mute = new Set<WorkerId>();
  /** How often workers were asked. */
  questions = 0;
  /** As with a fixed list of members: partitions stay placed on a worker in drain. */
  isListed = false;
  #versions: readonly FoundVersion[] = [];
  #copying: readonly FoundVersion[] = [];
  readonly #unseen = new Map<string, string>();
  #stamp = "";

  constructor(settings: Partial<ReplicaSettings> = {}, clock: ManualClock = new ManualClock()) {
    this.settings = settings;
    this.clock = clock;
  }

  /** Puts version directories `/m/<n>` of model `m` on the shared disk. */
  setVersions(tables: Readonly<Record<number, readonly OpenedTable[]>>, stamp = "a"): void {
    const before = new Map(this.#versions.map((found) => [found.version, found.stamp]));
    const isSameStamp = stamp === this.#stamp;
    this.#stamp = stamp;
    this.#versions = Object.entries(tables).map(([number, ofVersion]) => {
      const directory = `/m/${number}`;
      const version = Number(number);
      this.plan.directories.set(directory, ofVersion);
      // A directory that was replaced keeps the stamp of its replacement.
      const kept = isSameStamp ? before.get(version) : undefined;
      return { version, directory, stamp: kept ?? stamp };
    });
    this.#tell();
  }

  /** Replaces the content of `/m/<version>` in place. */
  replace(version: number, content: string): void {
    this.plan.contents.set(`/m/${version}`, content);
    this.touch(version, `stamp of ${content}`);
  }

  /** Gives the files of a version another stamp, but the same content. */
  touch(version: number, stamp: string): void {
    this.#versions = this.#versions.map((found) =>
      found.version === version ? { ...found, stamp } : found,
    );
    this.#tell();
  }

  /** `/m/<version>` is being written; its files have this stamp by now. */
  copy(version: number, stamp: string): void {
    this.#copying = [{ version, directory: `/m/${version}`, stamp }];
    this.#tell();
  }

  /** Has files that are being written opened as last seen; `isStill`: they are complete. */
  openCopy(tables: readonly OpenedTable[], isStill: boolean): void {
    for (const { directory } of this.#copying) this.plan.directories.set(directory, tables);
    this.#versions = [...this.#versions, ...this.#copying];
    if (isStill) this.#copying = [];
    this.#tell();
  }

  #tell(): void {
    for (const worker of this.workers.values()) worker.control.setModels(this.#models());
  }

  add(name: string, plan: Partial<FakePlan> = {}, log: Logger = silentLogger): FakeWorker {
    const id = workerId(name);
    // The cluster's plan is the prototype, so that later changes of it count for this worker too.
    const own = Object.assign(Object.create(this.plan) as FakePlan, plan);
    const compute = new FakeCompute(own, this.clock);
    const environment: Environment = { clock: this.clock, random: () => 0.5, log };
    const announcement = (): Announcement => ({
      workerId: id,
      incarnation: incarnation(1),
      address: name,
      state: worker.isDraining ? "draining" : "ready",
      accelerator: "fake",
      device: "",
      memoryUsedBytes: compute.memory.usedBytes,
      memoryCapacityBytes: compute.memory.capacityBytes,
      versions: control.holdings(),
    });
    const control: ReplicaControl = new ReplicaControl(
      {
        environment,
        compute,
        stampOf: async (directory) => this.#stampOf(directory),
        announcement,
        describe: async (address) => this.#answerAt(address),
        onChange: () => undefined,
      },
      {
        workerId: id,
        replication: 2,
        extraMemoryRatio: 0.25,
        smallLoadsBytes: 0,
        placementQuietMs: 0,
        maxLoadRetries: 1,
        loadRetryIntervalMs: 1000,
        replicaGraceMs: 500,
        versionGraceMs: 700,
        ...this.settings,
      },
    );
    const worker: FakeWorker = { id, compute, control, announcement, isDraining: false };
    this.workers.set(id, worker);
    control.setModels(this.#models());
    return worker;
  }

  /** Kills a worker: its announcement is missing from the next view on. */
  kill(worker: FakeWorker): void {
    this.workers.delete(worker.id);
    worker.control.close();
  }

  drain(worker: FakeWorker): void {
    worker.isDraining = true;
    worker.control.drain();
  }

  /** The view every worker gets. */
  view(): MembershipView {
    const workers = [...this.workers.values()];
    const announcements = [...workers.map((worker) => worker.announcement()), ...this.claims];
    announcements.sort((a, b) => (a.workerId < b.workerId ? -1 : 1));
    return {
      workers: announcements,
      contacts: announcements,
      readAtMs: this.clock.nowMs(),
      healthy: true,
      silent: [],
      placementWorkers: announcements
        .filter(({ state }) => this.isListed || state !== "draining")
        .map(({ workerId: id }) => id),
    };
  }

  /** Time passes; every 50 ms each worker gets a new view, and `check` looks at the state. */
  async run(durationMs: number, check: () => void = () => undefined): Promise<void> {
    for (let passedMs = 0; passedMs < durationMs; passedMs += 50) {
      const view = this.view();
      for (const worker of this.workers.values()) worker.control.setView(view);
      await this.clock.advanceSettled(50);
      check();
    }
  }

  /** How many workers announce each partition of a table of a version, by number or by content. */
  coverage(version: number | string, table = 0): number[] {
    const counts: number[] = [];
    for (const worker of this.workers.values()) {
      const holding = worker
        .announcement()
        .versions.find((each) =>
          typeof version === "number"
            ? each.version === version
            : each.fingerprint === contentPrint(version),
        );
      const found = holding?.tables.find((each) => each.table === table);
      for (let partition = 0; partition < (found?.partitions ?? 0); partition += 1) {
        const isHeld = found?.held.some((each) => each.partition === partition) === true;
        counts[partition] = (counts[partition] ?? 0) + Number(isHeld);
      }
    }
    return counts;
  }

  /** Gives the files of a version another stamp, which no look of the watch has found yet. */
  changeUnseen(version: number, stamp: string): void {
    this.#unseen.set(`/m/${version}`, stamp);
  }

  /** What the worker at an address says. @throws WinnowError UNAVAILABLE where none is, or none that answers */
  #answerAt(address: string): Announcement {
    this.questions += 1;
    const worker = this.workers.get(workerId(address));
    if (worker === undefined || this.mute.has(worker.id)) {
      throw new WinnowError("UNAVAILABLE", "nobody answers");
    }
    return worker.announcement();
  }

  #stampOf(directory: string): string | undefined {
    const unseen = this.#unseen.get(directory);
    if (unseen !== undefined) return unseen;
    return this.#versions.find((found) => found.directory === directory)?.stamp;
  }

  #models(): FoundModel[] {
    const { policy } = this;
    const versions = this.#versions;
    return [{ model: "m", policy, versions, copying: this.#copying, problem: undefined }];
  }
}
