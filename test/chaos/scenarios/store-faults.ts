// Redis killed, frozen, flushed, failed over, slow, and away while other things go wrong.

import { pause } from "../../cluster/running-cluster.ts";
import { redisCommand } from "../redis-command.ts";
import { type Scenario, type Stage, drawn } from "../scenario.ts";

const REDIS_LINKS = />redis$/;

function redisScenario(
  name: string,
  title: string,
  rest: Pick<Scenario, "seconds" | "run"> & Partial<Scenario>,
): Scenario {
  return { name, title, group: "Redis", topology: "redis", ...rest };
}

/** A replica of Redis that is asked instead of it, in the state in which it is. */
async function failOver(stage: Stage): Promise<void> {
  const { cluster } = stage;
  const port = await cluster.startRedis("replica");
  await redisCommand(port, ["REPLICAOF", "127.0.0.1", String(cluster.redisPort)]);
  await stage.until("the replica is in step", async () => {
    const info = await redisCommand(port, ["INFO", "replication"]);
    return info.includes("master_link_status:up");
  });
  await stage.hold(2);
  // Replication ends some time before the failover: what is written meanwhile is lost.
  await redisCommand(port, ["REPLICAOF", "NO", "ONE"]);
  const victim = drawn(cluster.workers, stage.random);
  stage.inject(
    `kill -9 ${victim}, which comes back: its new life is written to the old Redis alone`,
  );
  await cluster.process(victim).kill();
  cluster.process(victim).restart();
  await stage.hold(2);
  stage.inject("failover to the replica, writes lost");
  await cluster.process("redis").kill();
  await stage.links.retarget(REDIS_LINKS, { host: "127.0.0.1", port });
  await stage.hold(4);
}

/** Everything as before: the first Redis, empty. */
async function failBack(stage: Stage): Promise<void> {
  const { cluster } = stage;
  if (!cluster.process("redis").isRunning) await cluster.startRedis("redis");
  await stage.links.retarget(REDIS_LINKS, { host: "127.0.0.1", port: cluster.redisPort });
  await cluster.process("replica").kill();
}

/** Scenarios of this theme. */
export const STORE_FAULTS: readonly Scenario[] = [
  redisScenario("redis-kill", "Redis killed, then started empty", {
    seconds: 9,
    isBrief: true,
    run: async (stage) => {
      stage.inject("kill -9 redis");
      await stage.cluster.process("redis").kill();
      await stage.hold(4);
      stage.inject("an empty Redis");
      await stage.cluster.startRedis("redis");
      await stage.hold(2);
    },
  }),
  redisScenario("redis-freeze", "Redis frozen (SIGSTOP)", {
    seconds: 8,
    run: async (stage) => {
      stage.inject("SIGSTOP redis");
      stage.cluster.process("redis").signal("SIGSTOP");
      await stage.hold(5);
      stage.inject("SIGCONT redis");
      stage.cluster.process("redis").signal("SIGCONT");
      await stage.hold(2);
    },
  }),
  redisScenario("redis-flush", "FLUSHALL, four times", {
    seconds: 6,
    isBrief: true,
    run: async (stage) => {
      for (let count = 0; count < 4 * stage.rounds; count += 1) {
        stage.inject("FLUSHALL");
        await redisCommand(stage.cluster.redisPort, ["FLUSHALL"]);
        await pause(1200);
      }
    },
  }),
  redisScenario("redis-failover", "Redis fails over to a replica that lacks the last writes", {
    seconds: 14,
    run: failOver,
    heal: failBack,
  }),
  redisScenario("redis-full", "Redis has no memory for another write", {
    seconds: 9,
    run: async (stage) => {
      const { redisPort } = stage.cluster;
      stage.inject("maxmemory 1 byte");
      await redisCommand(redisPort, ["CONFIG", "SET", "maxmemory", "1"]);
      await stage.hold(7);
      await redisCommand(redisPort, ["CONFIG", "SET", "maxmemory", "0"]);
      await stage.hold(1);
    },
  }),
  redisScenario("redis-slow", "Redis answers 300 ms late, at 1 MB/s", {
    seconds: 7,
    run: async (stage) => {
      stage.inject("Redis is slow");
      await stage.links.set(REDIS_LINKS, { delayMs: 150, bytesPerSecond: 1_000_000 });
      await stage.hold(6);
    },
  }),
  redisScenario("redis-away", "Redis away for minutes; a worker dies and returns meanwhile", {
    seconds: 32,
    run: async (stage) => {
      stage.inject("Redis is cut off");
      await stage.links.set(REDIS_LINKS, { hold: "both" });
      await stage.hold(15);
      const victim = drawn(stage.cluster.workers, stage.random);
      stage.inject(`kill -9 ${victim}`);
      await stage.cluster.process(victim).kill();
      await stage.hold(5);
      stage.cluster.process(victim).restart();
      await stage.hold(10);
      stage.inject("Redis is back");
      await stage.links.heal();
      await stage.hold(1);
    },
  }),
  redisScenario("redis-away-router", "a router restarted while Redis is away", {
    seconds: 12,
    resends: true,
    run: async (stage) => {
      stage.inject("kill -9 redis");
      await stage.cluster.process("redis").kill();
      await stage.hold(2);
      stage.inject("kill -9 router0, started again");
      await stage.cluster.process("router0").kill();
      stage.cluster.process("router0").restart();
      await stage.until("router0 answers without Redis", async () => {
        const { rest } = stage.cluster.ports("router0");
        const answer = await fetch(`http://127.0.0.1:${rest}/readyz`).catch(() => undefined);
        return answer?.status === 200;
      });
      await stage.hold(4);
      stage.inject("Redis is back, empty");
      await stage.cluster.startRedis("redis");
    },
    heal: async (stage) => {
      if (!stage.cluster.process("redis").isRunning) await stage.cluster.startRedis("redis");
    },
  }),
  redisScenario(
    "redis-cut-one-router",
    "a router cut off from Redis while all workers are replaced",
    {
      seconds: 60,
      rateShare: 0.6,
      wholeWithinMs: 120_000,
      run: async (stage) => {
        stage.inject("router0 is cut off from Redis");
        await stage.links.set(/^router0>redis$/, { hold: "both" });
        const former = [...stage.cluster.workers];
        await Promise.all(["w3", "w4", "w5"].map((name) => stage.cluster.addWorker(name)));
        await stage.hold(6);
        for (const name of former) {
          stage.inject(`SIGTERM ${name}`);
          await stage.terminate(name);
        }
        await stage.hold(2);
        await stage.links.heal();
        await stage.hold(2);
        stage.inject("the former workers return");
        for (const name of former) stage.cluster.process(name).restart();
        stage.expectWorkers(6);
        await stage.whole();
      },
      heal: async (stage) => {
        await Promise.all(["w3", "w4", "w5"].map((name) => stage.terminate(name)));
        stage.expectWorkers(3);
      },
    },
  ),
];
