// Workers of a fixed list among themselves: what each asks while nothing changes, how soon a change
// or a death has reached all of them, and which view a process keeps that is cut off.

import { WinnowError, silentLogger, workerId } from "@winnow/core";
import { ManualClock } from "../../../../test/doubles/manual-clock.ts";
import { describe, expect, test } from "vitest";
import { announced } from "../fixtures/announcement-words.ts";
import { MemoryNetwork } from "../rpc/doubles/memory-network.ts";
import type { LinkHandlers, WorkerLink, WorkerService } from "../rpc/worker-link.ts";
import type { WorkerConnector } from "../rpc/worker-connector.ts";
import { Watcher } from "./membership.cases.ts";
import { StaticMembership } from "./static-membership.ts";

/** A worker whose announcement the test sets; its pongs name the workers that it hears. */
class ListedWorker implements WorkerService {
  readonly address: string;
  readonly network: MemoryNetwork;
  readonly store: StaticMembership;
  readonly watcher: Watcher;
  readonly asked = { describe: 0, ping: 0 };
  /** Addresses that refuse streams: of members in drain, for example. */
  readonly refusing = new Set<string>();
  said: ReturnType<WorkerService["announcement"]>;
  readonly #links = new Set<WorkerLink>();
  readonly #clock: ManualClock;

  constructor(index: number, cluster: { readonly clock: ManualClock; readonly ids: string[] }) {
    const { clock, ids } = cluster;
    const id = ids[index]!;
    this.address = `${id}:7600`;
    this.said = announced({ id });
    this.network = new MemoryNetwork(clock, () => 1);
    this.#clock = clock;
    let state = index + 1;
    const random = (): number => (state = (state * 48_271) % 0x7fffffff) / 0x7fffffff;
    this.store = new StaticMembership(
      {
        environment: { clock, random, log: silentLogger },
        describe: (address, timeoutMs) => {
          this.asked.describe += 1;
          return this.network.describe(address, timeoutMs);
        },
        streams: { connector: this.#counted(), own: workerId(id) },
      },
      { members: ids.map((each) => ({ workerId: workerId(each), address: `${each}:7600` })) },
    );
    this.watcher = new Watcher(this.store);
  }

  announcement(): ReturnType<WorkerService["announcement"]> {
    return this.said;
  }

  say(version: number, incarnation = 1): void {
    this.said = announced({ id: this.said.workerId, incarnation, versions: [{ version }] });
    for (const link of this.#links) link.announce(this.said);
  }

  accept(link: WorkerLink): LinkHandlers {
    this.#links.add(link);
    return {
      onQueries: () => undefined,
      onCancel: () => undefined,
      onPing: (sequence, wantsHeard, inDoubt) => {
        if (inDoubt) this.store.doubt();
        const heard = wantsHeard ? this.store.heard() : [];
        link.pong({ sequence, queueRows: 0, progress: 0, stalled: false, heard });
      },
      onPredecessor: () => undefined,
      onClose: () => this.#links.delete(link),
    };
  }

  program = (): Promise<Uint8Array> => Promise.reject(new WinnowError("NOT_FOUND", "none"));

  followOrder = (): Promise<void> => Promise.resolve();

  drainOnOrder(): void {
    throw new WinnowError("UNIMPLEMENTED", "not here");
  }

  knownOrder(): undefined {
    return undefined;
  }

  /** The version that this worker's view shows for a member. */
  seen(id: string): number | undefined {
    const worker = this.watcher.last?.workers.find((each) => each.workerId === id);
    return worker?.versions[0]?.version;
  }

  #counted(): WorkerConnector {
    return new Proxy<WorkerConnector>(this.network, {
      get: (network, name) => {
        if (name !== "open") return Reflect.get(network, name) as unknown;
        const open: WorkerConnector["open"] = (address, handlers) => {
          if (this.refusing.has(address)) {
            const refusal = new WinnowError("UNAVAILABLE", "The worker is draining");
            this.#clock.setTimer(1, () => handlers.onClose(refusal));
            return { send: () => false, end: () => undefined, cancel: () => undefined };
          }
          const stream = network.open(address, handlers);
          return {
            send: (frame) => {
              if (frame.kind === "ping") this.asked.ping += 1;
              return stream.send(frame);
            },
            end: () => stream.end(),
            cancel: () => stream.cancel(),
          };
        };
        return open;
      },
    });
  }
}

/** A cluster of which all begin to ask at once. */
function startedCluster(count: number) {
  const clock = new ManualClock();
  const ids = Array.from({ length: count }, (_, index) => `w${String(index).padStart(2, "0")}`);
  const workers = ids.map((_, index) => new ListedWorker(index, { clock, ids }));
  for (const { network } of workers) {
    for (const worker of workers) network.listen(worker.address, worker);
  }
  return { clock, workers, ids };
}

/** A cluster that has been at rest for a while. */
async function restedCluster(count: number) {
  const { clock, workers, ids } = startedCluster(count);
  await clock.advanceSettled(3000);
  clock.advance(5000);
  for (const { asked } of workers) Object.assign(asked, { describe: 0, ping: 0 });
  const [first, ...others] = workers;
  return { clock, workers, first: first!, others, all: ids.join(" ") };
}

/** Advances the clock until `isSeen`; the ms that it took. */
async function timeUntil(clock: ManualClock, isSeen: () => boolean): Promise<number> {
  const startMs = clock.nowMs();
  while (!isSeen() && clock.nowMs() < startMs + 20_000) await clock.advanceSettled(20);
  return clock.nowMs() - startMs;
}

describe("workers of a fixed list", () => {
  test("where all start at once, each hears all others over its streams and asks nobody besides", async () => {
    const { clock, workers, ids } = startedCluster(16);

    await clock.advanceSettled(20);

    expect(new Set(workers.map(({ watcher }) => watcher.ids))).toEqual(new Set([ids.join(" ")]));
    expect(workers.map(({ asked }) => asked.describe)).toEqual(ids.map(() => 0));
  });

  test("one that takes no streams is heard all the same, and over a stream once it takes them", async () => {
    const { clock, workers, ids } = startedCluster(4);
    const [first, ...others] = workers;
    for (const { refusing } of others) refusing.add(first!.address);

    const tookMs = await timeUntil(clock, () =>
      others.every(({ watcher }) => watcher.ids === ids.join(" ")),
    );
    first!.say(5);
    for (const { refusing } of others) refusing.clear();
    await clock.advanceSettled(1500);
    const asked = others.map(({ asked: { describe: count } }) => count);
    first!.say(6);
    await clock.advanceSettled(20);

    expect(tookMs).toBeLessThanOrEqual(400);
    expect(others.map((other) => other.seen("w00"))).toEqual([6, 6, 6]);
    expect(others.map(({ asked: { describe: count } }) => count)).toEqual(asked);
  });

  test.each([4, 16, 32])("%i of them at rest: each asks one other a second", async (count) => {
    const { clock, workers, all } = await restedCluster(count);

    clock.advance(60_000);

    const calls = workers.map(({ asked }) => asked);
    // Besides, a stream without a ping for a minute gets one.
    const pingsMax = (60_000 / 1100) * 1.1 + count;
    expect(calls.filter(({ describe: asked }) => asked > 0)).toEqual([]);
    expect(Math.max(...calls.map(({ ping }) => ping))).toBeLessThan(pingsMax);
    expect(new Set(workers.map(({ watcher }) => watcher.ids))).toEqual(new Set([all]));
  });

  test("a change reaches everybody at once", async () => {
    const { clock, workers, first } = await restedCluster(16);

    first.say(7);
    const tookMs = await timeUntil(clock, () => workers.every((each) => each.seen("w00") === 7));

    expect(tookMs).toBeLessThanOrEqual(20);
  });

  test.each(["stop", "freeze"] as const)(
    "one that is gone (%s) is left out by everybody within 4.3 s, and soon back",
    async (how) => {
      const { clock, first, others, all } = await restedCluster(16);
      for (const { network } of others) network[how](first.address);

      const leastMs = how === "stop" ? 2900 : 1600;
      await clock.advanceSettled(leastMs);
      expect(others.every(({ watcher }) => watcher.ids === all)).toBe(true);
      const leftMs = await timeUntil(clock, () =>
        others.every(({ watcher }) => !watcher.ids.includes("w00")),
      );
      await clock.advanceSettled(8000);
      first.say(1, 2);
      for (const { network } of others) {
        network.thaw(first.address);
        network.listen(first.address, first);
      }
      const backMs = await timeUntil(clock, () =>
        others.every(({ watcher }) => watcher.last!.workers[0]!.incarnation === 2),
      );

      expect(leastMs + leftMs).toBeLessThanOrEqual(4300);
      // A Describe that hangs times out after a second, and the next one follows at most a second
      // later.
      expect(backMs).toBeLessThanOrEqual(how === "stop" ? 1100 : 2200);
    },
  );

  test("who is told of a doubt asks at once, although it heard of the member a moment ago", async () => {
    const { clock, first, others } = await restedCluster(16);
    await clock.advanceSettled(3000);
    for (const { network } of others) network.freeze(first.address);

    const tookMs = await timeUntil(clock, () =>
      others.every(({ watcher }) => !watcher.ids.includes("w00")),
    );

    expect(tookMs).toBeLessThanOrEqual(3500);
  });

  test("several that fall silent at once, neighbours in the list, are left out within 4.3 s", async () => {
    const { clock, workers } = await restedCluster(16);
    const frozen = workers.slice(4, 9);
    const others = workers.filter((worker) => !frozen.includes(worker));
    for (const { network } of workers) for (const { address } of frozen) network.freeze(address);

    await clock.advanceSettled(4300);

    const left = others.map(({ said }) => said.workerId).join(" ");
    expect(new Set(others.map(({ watcher }) => watcher.ids))).toEqual(new Set([left]));
  });

  test("both sides of a cut leave out the other within 4.3 s", async () => {
    const { clock, workers } = await restedCluster(12);
    const sides = [workers.slice(0, 7), workers.slice(7)];
    for (const [side, other] of [sides, sides.toReversed()]) {
      for (const { network } of side!) for (const { address } of other!) network.freeze(address);
    }

    await clock.advanceSettled(4300);

    for (const side of sides) {
      const left = side.map(({ said }) => said.workerId).join(" ");
      expect(new Set(side.map(({ watcher }) => watcher.ids))).toEqual(new Set([left]));
    }
  });

  test("a hiccup of one is asked about by all, and they are at rest again", async () => {
    const { clock, workers, first, others, all } = await restedCluster(16);
    for (const { network } of others) network.freeze(first.address);
    await clock.advanceSettled(1550);
    for (const { network } of others) network.thaw(first.address);
    await clock.advanceSettled(8000);
    const whileAsked = workers.reduce((sum, { asked }) => sum + asked.ping, 0);
    for (const { asked } of workers) asked.ping = 0;
    clock.advance(20_000);

    const atRest = Math.max(...workers.map(({ asked }) => asked.ping));
    expect(new Set(workers.map(({ watcher }) => watcher.ids))).toEqual(new Set([all]));
    expect(whileAsked).toBeGreaterThan(16 * 15);
    expect(atRest).toBeLessThan((20_000 / 1100) * 1.1 + 16);
  });

  test("doubts that a stranger pings all the time hide no silence", async () => {
    const { clock, workers, first, others } = await restedCluster(16);
    const watcher = workers.at(-1)!;
    let isFlooded = true;
    const flood = (): void => {
      watcher.store.doubt();
      if (isFlooded) clock.setTimer(100, flood);
    };
    flood();
    await clock.advanceSettled(10_000);
    for (const { network } of others) network.freeze(first.address);

    const tookMs = await timeUntil(clock, () =>
      others.every(({ watcher: seen }) => !seen.ids.includes("w00")),
    );
    isFlooded = false;

    expect(tookMs).toBeLessThanOrEqual(4300);
  });

  test("who is cut off from all accuses nobody, and the others leave nobody else out", async () => {
    const { clock, workers, first, others, all } = await restedCluster(8);
    for (const { address } of workers) first.network.freeze(address);
    for (const { network } of others) network.freeze(first.address);

    await clock.advanceSettled(10_000);

    expect(others.every(({ watcher }) => watcher.ids === all.replace("w00 ", ""))).toBe(true);
    expect([first.watcher.ids, first.watcher.last!.healthy]).toEqual([all, false]);
  });

  test("the word of others keeps one that this process cannot reach, until it has said something new", async () => {
    const { clock, workers, first, all } = await restedCluster(8);
    first.network.freeze("w03:7600");

    await clock.advanceSettled(10_000);
    const unchanged = first.watcher.ids;
    workers[3]!.say(5);
    await clock.advanceSettled(4300);

    expect(unchanged).toBe(all);
    expect(first.watcher.ids).toBe(all.replace("w03 ", ""));
    expect(workers[4]!.seen("w03")).toBe(5);
  });

  test("leaves nothing behind", async () => {
    const { clock, workers } = await restedCluster(4);

    for (const { store, network } of workers) {
      await store.close();
      network.close();
    }
    await clock.advanceSettled(0);

    expect(clock.pendingTimers).toBe(0);
  });
});
