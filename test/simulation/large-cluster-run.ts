// One large cluster without a fault, on virtual time: how many messages its members exchange at rest, at the
// start, and when one of them leaves and one joins; and whether every answer is exact meanwhile. Workers,
// router and membership are the real ones.

import type { WorkerConnector } from "@winnow/cluster";
import { CheckedRequests } from "./checked-requests.ts";
import { scenarioOf } from "./scenario.ts";
import type { Scenario } from "./scenario.ts";
import { SimulatedWorld } from "./simulated-world.ts";

/** The cluster, and how it is watched. */
export interface LargeCluster {
  readonly workers: number;
  readonly partitions: number;
  readonly membership: Scenario["membership"];
  /** Rest that is watched, virtual seconds. */
  readonly restSeconds: number;
  readonly print: (line: string) => void;
  /** CPU time of this process so far. */
  readonly cpuMs: () => number;
}

/** By default the seed draws how much clocks and network vary. */
const SEED = 1;
const ITEMS_PER_PARTITION = 2;
const STEP_MS = 100;
/** Longer than any activity after a start or a leave. */
const SETTLE_MS = 10_000;
const READY_MS_MAX = 120_000;
/** Longer than the time for which the place of a lost worker is kept, plus the time that others take to load. */
const LEAVE_MS = 15_000;

/** Runs it. The violations are requests that failed or got a wrong answer. */
export async function runLargeCluster(cluster: LargeCluster): Promise<readonly string[]> {
  const world = new SimulatedWorld(scenarioOfLarge(cluster));
  const { counts, reset } = countTraffic(world);
  const { print, cpuMs, membership } = cluster;
  const requests = new CheckedRequests(world);
  const { time } = world;
  const watch = async (title: string, run: () => Promise<void>): Promise<void> => {
    reset();
    const before = { cpuMs: cpuMs(), virtualMs: time.nowMs };
    await run();
    const seconds = (time.nowMs - before.virtualMs) / 1000;
    const all = [...counts].map(
      ([kind, count]) => `${kind} ${count} (${(count / seconds).toFixed(0)}/s)`,
    );
    const cpu = (cpuMs() - before.cpuMs) / 1000;
    print(`${title}: ${seconds.toFixed(1)} s, simulated in ${cpu.toFixed(1)} s; ${all.join(", ")}`);
  };
  for (const place of world.staff) place.start();
  for (const place of world.routers) place.start();
  await watch("start", () => untilReady(world));
  await time.runUntil(time.nowMs + SETTLE_MS);
  await watch("rest", () => time.runUntil(time.nowMs + cluster.restSeconds * 1000));
  requests.isSuccessDue = true;
  requests.run();
  await watch("requests", () => time.runUntil(time.nowMs + cluster.restSeconds * 1000));
  const held = heldBy(world);
  await watch("one worker ends", async () => {
    world.workers[1]?.crash(false);
    await time.runUntil(time.nowMs + LEAVE_MS);
  });
  print(`replicas loaded by others: ${heldBy(world).loaded(held)}`);
  if (membership === "redis") {
    const before = heldBy(world);
    await watch("one worker joins", async () => {
      world.addWorker();
      await time.runUntil(time.nowMs + LEAVE_MS);
    });
    print(`replicas loaded: ${heldBy(world).loaded(before)}`);
  }
  requests.stop();
  await time.runUntil(time.nowMs + SETTLE_MS);
  const { asked, exact, failed } = requests.counts;
  // Some requests pin versions that do not exist, or are cancelled early.
  print(`${asked} requests: ${exact} exact, ${failed} failed as they should`);
  return world.violations.map(({ invariant, what }) => `${invariant}: ${what}`);
}

function scenarioOfLarge({ workers, partitions, membership }: LargeCluster): Scenario {
  return {
    ...scenarioOf(SEED, "liveness"),
    workers,
    routers: 1,
    replication: 2,
    membership,
    size: { users: 20, items: partitions * ITEMS_PER_PARTITION, dim: 2, partitions },
    clock: { readingMs: 0.002, hiccupMs: 0, lateMs: 0.2 },
    latencyMs: 0.3,
    requestsPerSecond: 10,
    scanMs: 1,
    loadMs: 10,
    pollIntervalMs: 1000,
    versionsKept: 1,
    hedge: true,
    inlineTables: true,
    faults: [],
  };
}

async function untilReady(world: SimulatedWorld): Promise<void> {
  const { time } = world;
  const endMs = time.nowMs + READY_MS_MAX;
  const isReady = (): boolean =>
    world.staff.every(({ isWell }) => isWell) &&
    world.routers.every(({ takesRequests }) => takesRequests);
  while (!isReady() && time.nowMs < endMs) await time.runUntil(time.nowMs + STEP_MS);
  if (!isReady()) world.violate("L3", "the cluster does not become ready");
}

/** Counts messages on the network and to the store from now on, by kind. */
function countTraffic(world: SimulatedWorld): {
  readonly counts: ReadonlyMap<string, number>;
  readonly reset: () => void;
} {
  const counts = new Map<string, number>();
  const count = (kind: string): void => void counts.set(kind, (counts.get(kind) ?? 0) + 1);
  const { network, redis } = world;
  const connectorOf = network.connectorOf.bind(network);
  network.connectorOf = (process, client) => counted(connectorOf(process, client), count);
  const [read, write] = [redis.get.bind(redis), redis.set.bind(redis)];
  redis.get = (key) => {
    count("record read");
    return read(key);
  };
  redis.set = (...record) => {
    count("record written");
    write(...record);
  };
  return { counts, reset: () => counts.clear() };
}

function counted(connector: WorkerConnector, count: (kind: string) => void): WorkerConnector {
  return {
    ...connector,
    describe: (address, timeoutMs) => {
      count("describe");
      return connector.describe(address, timeoutMs);
    },
    open: (address, handlers) => {
      count("stream opened");
      const channel = connector.open(address, {
        onFrame: (frame) => {
          count(`worker's ${frame.kind}`);
          handlers.onFrame(frame);
        },
        onWritable: () => handlers.onWritable(),
        onClose: (error) => handlers.onClose(error),
      });
      return {
        send: (frame) => {
          count(`router's ${frame.kind}`);
          return channel.send(frame);
        },
        end: () => channel.end(),
        cancel: () => channel.cancel(),
      };
    },
  };
}

/** Which worker holds which partitions of the items; `loaded` counts those that are held now and were not before. */
class Held {
  readonly #names: ReadonlySet<string>;

  constructor(names: ReadonlySet<string>) {
    this.#names = names;
  }

  loaded(before: Held): number {
    return [...this.#names].filter((name) => !before.#names.has(name)).length;
  }
}

function heldBy(world: SimulatedWorld): Held {
  const names = world.staff.flatMap(({ name, worker }) =>
    (worker?.announcement().versions ?? []).flatMap(({ tables }) =>
      tables.flatMap(({ table, held }) =>
        held.map(({ partition }) => `${name} ${table} ${partition}`),
      ),
    ),
  );
  return new Held(new Set(names));
}
