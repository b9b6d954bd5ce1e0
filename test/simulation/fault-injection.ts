// Makes the faults of a scenario happen, and undoes all of them in the end. In liveness mode a fault
// that takes a replica away waits until the cluster has recovered from the one before.

import type { FaultKind, PlannedFault } from "./scenario.ts";
import { harmsWorker } from "./scenario.ts";
import { forgeRecords } from "./forged-records.ts";
import type { Writing } from "./simulated-disk.ts";
import type { Flaw } from "./simulated-models.ts";
import type { Link } from "./simulated-network.ts";
import type { WorkerPlace } from "./simulated-workers.ts";
import type { SimulatedWorld } from "./simulated-world.ts";

const FLAWS: readonly Flaw[] = [
  "flipped",
  "unreadable",
  "truncated",
  "notANumber",
  "cutVocabulary",
];
const LAST_VERSION = 9;
const LEAST_WORKERS = 3;
const WAIT_MS = 250;
const BURST_REQUESTS = 300;
const BURST_HALT_MS = 400;
const FLOOD_REQUESTS = 1500;
const CLOCK_ERROR_MS_MAX = 3_600_000;
/** Pieces that a directory is written in. */
const COPY_STEPS = 5;
const COPY_MS_MAX = 3000;

type Injection = (fault: PlannedFault) => void;

/** Injects faults. */
export class FaultInjection {
  readonly #world: SimulatedWorld;
  readonly #burst: (requests: number) => void;
  /** Worker faults under way. */
  #harms = 0;
  #isOver = false;
  readonly #injections: Readonly<Record<FaultKind, Injection>>;

  /** `burst` asks so many requests at once. */
  constructor(world: SimulatedWorld, burst: (requests: number) => void) {
    this.#world = world;
    this.#burst = burst;
    this.#injections = { ...this.#ofWorkers(), ...this.#ofLinks(), ...this.#ofTheRest() };
  }

  /** Plans all faults of the scenario. */
  plan(faults: readonly PlannedFault[]): void {
    for (const fault of faults) this.#world.time.at(fault.atMs, () => this.#inject(fault));
  }

  /** Undoes every fault; what is under way ends by itself. */
  heal(): void {
    this.#isOver = true;
    const { disk, network, redis, routers, staff } = this.#world;
    for (const version of this.#copies) disk.put(version);
    this.#copies.clear();
    redis.isUp = true;
    redis.latencyMs = 0.5;
    redis.cutOff.clear();
    for (const place of staff) {
      Object.assign(place.health, { slowness: 1, isWedged: false, isFull: false });
      place.isDiskReadable = true;
      place.isMisreading = false;
      place.copyFlaw = undefined;
      place.process?.resume();
      place.start();
    }
    for (const place of routers) {
      place.process?.resume();
      place.start();
    }
    for (const link of this.#links()) {
      link.extraMs = 0;
      network.mend(link);
    }
  }

  #inject(fault: PlannedFault): void {
    if (this.#isOver) return;
    const { scenario, time } = this.#world;
    if (scenario.mode === "liveness" && harmsWorker(fault.kind) && !this.#isSteady()) {
      const isInTime = time.nowMs + WAIT_MS < scenario.calmMs + scenario.faultsMs;
      if (isInTime) time.after(WAIT_MS, () => this.#inject(fault));
      return;
    }
    this.#world.note("world", `fault: ${fault.kind}`, fault);
    this.#injections[fault.kind](fault);
  }

  /** Whether every partition has its replicas, and every router knows and trusts them. */
  #isSteady(): boolean {
    const { routers, staff, time } = this.#world;
    if (this.#harms > 0 || !staff.every(({ isWell }) => isWell)) return false;
    if (time.nowMs - this.#harmedMs < SETTLE_MS) return false;
    // A router that stands still, or did until a moment ago, knows only an old state; if none is running,
    // nobody knows the current one.
    const isLate = routers.some(
      ({ process }) =>
        process !== undefined &&
        (process.state === "paused" || time.nowMs - process.resumedMs < SETTLE_MS),
    );
    const atWork = routers.flatMap(({ router, process, isDraining }) =>
      router !== undefined && process?.state === "running" && !isDraining ? [router] : [],
    );
    if (isLate || atWork.length === 0) return false;
    return atWork.every((router) => {
      const statuses = router.workers();
      const isKnown = staff.every(({ name }) =>
        statuses.some(({ id, askable, trusted }) => id === name && askable && trusted),
      );
      const [model] = router.clusterStatus().models;
      if (!isKnown || model === undefined) return false;
      return model.partitions.lost === 0 && model.partitions.underreplicated === 0;
    });
  }

  #harmedMs = -Infinity;
  /** Versions that are being written. */
  readonly #copies = new Set<number>();

  /** A fault with an end. */
  #during(durationMs: number, begin: () => void, end: () => void): void {
    this.#harms += 1;
    begin();
    this.#world.time.after(durationMs, () => {
      this.#harms -= 1;
      this.#harmedMs = this.#world.time.nowMs;
      if (!this.#isOver) end();
    });
  }

  #worker({ victim }: PlannedFault): WorkerPlace {
    const { staff } = this.#world;
    return staff[Math.floor(victim * staff.length)]!;
  }

  #links(): Link[] {
    const { network, routers, workers } = this.#world;
    const clients = [...routers, ...workers].map(({ name }) => name);
    return clients.flatMap((name) => workers.map(({ address }) => network.link(name, address)));
  }

  /** A link of the victim, of one router or one worker. */
  #link(fault: PlannedFault): Link {
    const { network, routers, workers } = this.#world;
    const clients = [...routers, ...routers, ...workers];
    const client = clients[Math.floor(fault.variant * clients.length)]!;
    return network.link(client.name, this.#worker(fault).address);
  }

  #ofWorkers() {
    const crash = (fault: PlannedFault, isSilent: boolean): void => {
      const place = this.#worker(fault);
      this.#during(
        fault.durationMs,
        () => place.crash(isSilent),
        () => place.start(),
      );
    };
    const ill = (fault: PlannedFault, change: Partial<WorkerPlace["health"]>): void => {
      const { health } = this.#worker(fault);
      const sound = { slowness: 1, isWedged: false, isFull: false };
      this.#during(
        fault.durationMs,
        () => Object.assign(health, change),
        () => Object.assign(health, sound),
      );
    };
    return {
      "crash worker": (fault) => crash(fault, false),
      "vanish worker": (fault) => crash(fault, true),
      // More requests than the budget for second attempts has room for, after seconds of few.
      "crash worker in a burst": (fault) => {
        const place = this.#worker(fault);
        const haltMs = BURST_HALT_MS * fault.variant;
        this.#during(
          haltMs + fault.durationMs,
          () => {
            this.#burst(BURST_REQUESTS);
            if (fault.variant < 0.5) place.process?.pause();
            this.#world.time.after(haltMs, () => {
              if (!this.#isOver) place.crash(false);
            });
          },
          () => place.start(),
        );
      },
      "pause worker": (fault) => {
        const { process } = this.#worker(fault);
        this.#during(
          fault.durationMs,
          () => process?.pause(),
          () => process?.resume(),
        );
      },
      "drain worker": (fault) => this.#worker(fault).drain(),
      "drain two workers": (fault) => {
        const { staff } = this.#world;
        const first = staff.indexOf(this.#worker(fault));
        for (const at of [first, first + 1]) staff[at % staff.length]!.drain();
      },
      "slow device": (fault) => ill(fault, { slowness: 2 + 50 * fault.variant }),
      "wedge device": (fault) => ill(fault, { isWedged: true }),
      "fill device": (fault) => ill(fault, { isFull: true }),
      "lose device": (fault) => {
        this.#harmedMs = this.#world.time.nowMs; // The worker itself has not noticed yet.
        this.#worker(fault).device?.lose();
      },
      // Like a machine that is restored from an older snapshot.
      "set clock back": (fault) => {
        const place = this.#worker(fault);
        place.clockErrorMs -= CLOCK_ERROR_MS_MAX * fault.variant;
        crash(fault, false);
      },
      "spoil disk": (fault) => {
        const place = this.#worker(fault);
        this.#during(
          fault.durationMs,
          () => (place.isDiskReadable = false),
          () => (place.isDiskReadable = true),
        );
      },
      "misread disk": (fault) => {
        const place = this.#worker(fault);
        this.#during(
          fault.durationMs,
          () => {
            place.isMisreading = true;
            // What it held was read before the fault; it starts anew to read the file again.
            place.crash(false);
            place.start();
          },
          () => (place.isMisreading = false),
        );
      },
      // Only its own copy of the files; replicas that it already holds stay as they were.
      "spoil assets": (fault) => {
        const place = this.#worker(fault);
        this.#during(
          fault.durationMs,
          () => {
            place.copyFlaw = fault.variant < 0.5 ? "cutVocabulary" : "swappedVocabulary";
            if (fault.variant % 0.5 < 0.25) place.crash(false);
            place.start();
          },
          () => (place.copyFlaw = undefined),
        );
      },
      "scale down": (fault) => {
        const place = this.#worker(fault);
        if (this.#world.staff.length <= LEAST_WORKERS || !place.isWell) return;
        place.drain();
        if (place.isLeaving) place.isGone = true;
      },
    } satisfies Partial<Record<FaultKind, Injection>>;
  }

  /** Writes a directory file by file, so that its content is mixed until the last file is written. */
  #copy(version: number, { durationMs }: PlannedFault, first: Writing = {}): void {
    const { disk, time } = this.#world;
    const stepMs = Math.min(durationMs, COPY_MS_MAX) / COPY_STEPS;
    const write = (steps: number, writing: Writing): void => {
      if (steps === 0 || this.#isOver) {
        this.#copies.delete(version);
        disk.put(version);
        return;
      }
      disk.put(version, {
        ...writing,
        flaw: steps > 2 ? "unreadable" : "truncated",
        isChanging: true,
      });
      time.after(stepMs, () => {
        if (this.#copies.has(version)) write(steps - 1, {});
      });
    };
    if (this.#copies.has(version)) return;
    this.#copies.add(version);
    write(COPY_STEPS, first);
  }

  #ofLinks() {
    const { network } = this.#world;
    const cut = (fault: PlannedFault, ways: Partial<Link["cut"]>): void => {
      const link = this.#link(fault);
      this.#during(
        fault.durationMs,
        () => Object.assign(link.cut, ways),
        () => network.mend(link),
      );
    };
    return {
      "cut link": (fault) => cut(fault, { toWorker: true, toClient: true }),
      "cut half a link": (fault) =>
        cut(fault, fault.victim * 7 < 3 ? { toWorker: true } : { toClient: true }),
      "slow link": (fault) => {
        const link = this.#link(fault);
        this.#during(
          fault.durationMs,
          () => (link.extraMs = 200 * fault.variant),
          () => (link.extraMs = 0),
        );
      },
    } satisfies Partial<Record<FaultKind, Injection>>;
  }

  #ofTheRest() {
    const { disk, redis, routers, time } = this.#world;
    const during = (fault: PlannedFault, begin: () => void, end: () => void): void => {
      begin();
      time.after(fault.durationMs, () => {
        if (!this.#isOver) end();
      });
    };
    const router = ({ victim }: PlannedFault) => routers[Math.floor(victim * routers.length)]!;
    const put = (flaw: Flaw | undefined): void => {
      if (disk.newest < LAST_VERSION) disk.put(disk.newest + 1, { flaw });
    };
    return {
      "scale up": () => {
        if (this.#world.staff.length < 6) this.#world.addWorker();
      },
      "stop store": (fault) =>
        during(
          fault,
          () => redis.stop(),
          () => (redis.isUp = true),
        ),
      "slow store": (fault) =>
        during(
          fault,
          () => (redis.latencyMs = 1000 * fault.variant),
          () => (redis.latencyMs = 0.5),
        ),
      "flush store": () => redis.flush(),
      "fail store over": () => redis.failOver(),
      "cut off from store": (fault) => {
        const { name } = fault.variant < 0.5 ? this.#worker(fault) : router(fault);
        during(
          fault,
          () => redis.cutOff.add(name),
          () => redis.cutOff.delete(name),
        );
      },
      "publish version": () => put(undefined),
      "publish flawed version": ({ variant }) => put(FLAWS[Math.floor(variant * FLAWS.length)]),
      "remove version": ({ variant }) => {
        const { sound, flawed } = disk;
        const removable = sound.length > 1 ? [...sound, ...flawed] : flawed;
        if (removable.length > 0) disk.remove(removable[Math.floor(variant * removable.length)]!);
      },
      "mend version": () => {
        const last = disk.flawed.at(-1);
        if (last !== undefined) disk.put(last);
      },
      "copy version": (fault) => {
        if (disk.newest < LAST_VERSION) this.#copy(disk.newest + 1, fault);
      },
      // In place, piece by piece.
      "replace version": (fault) => {
        const { sound } = disk;
        const version = sound[Math.floor(fault.variant * sound.length)];
        if (version !== undefined) this.#copy(version, fault, { isNew: true });
      },
      "forge store records": (fault) => forgeRecords(this.#world, fault),
      flood: () => this.#burst(FLOOD_REQUESTS),
      "move label": ({ variant }) => {
        const { sound } = disk;
        const version = sound[Math.floor(variant * sound.length)];
        if (version !== undefined) this.#world.setLabel(version);
      },
      "order models": (fault) => {
        const { sound } = disk;
        const version = sound[Math.floor(fault.variant * sound.length)];
        if (version !== undefined) void this.#world.orders.give(router(fault), version);
      },
      "withdraw order": (fault) => void this.#world.orders.give(router(fault), undefined),
      "drain router": (fault) => router(fault).restart(),
      "crash router": (fault) => {
        const place = router(fault);
        during(
          fault,
          () => place.crash(),
          () => place.start(),
        );
      },
      "pause router": (fault) => {
        const { process } = router(fault);
        const { mode, requestDeadlineMsMax } = this.#world.scenario;
        // A router that stands still for longer than versions are kept finds that its own versions are gone.
        const longestMs = mode === "safety" ? Infinity : requestDeadlineMsMax;
        during(
          { ...fault, durationMs: Math.min(fault.durationMs, longestMs) },
          () => process?.pause(),
          () => process?.resume(),
        );
      },
    } satisfies Partial<Record<FaultKind, Injection>>;
  }
}

/** Time for links and routers to notice that a fault is over. */
const SETTLE_MS = 1000;
