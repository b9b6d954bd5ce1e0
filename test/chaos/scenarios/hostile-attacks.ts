// Hostile clients beside a checked load, each attack in a process of its own; and a store in which
// anybody may write.

import { redisCommand } from "../redis-command.ts";
import type { Scenario, Stage } from "../scenario.ts";

async function attacked(stage: Stage, attack: string, seconds: number): Promise<void> {
  stage.inject(attack);
  const end = await stage.hostile(attack);
  await stage.hold(seconds);
  await end();
}

function hostile(attack: string, title: string, more: Partial<Scenario> = {}): Scenario {
  return {
    name: `hostile-${attack}`,
    title,
    group: "hostile clients",
    topology: "list",
    seconds: 8,
    rateShare: 0.7,
    run: (stage) => attacked(stage, attack, 6),
    ...more,
  };
}

/** A record as a worker stores it; made up. */
function strayRecord(id: string, more: object): string {
  return JSON.stringify({
    worker_id: id,
    incarnation: 1,
    address: "127.0.0.1:9",
    state: "ready",
    accelerator: "cpu",
    device: "",
    memory_used_bytes: 0,
    memory_capacity_bytes: 1,
    versions: [],
    ...more,
  });
}

const KEYS = "winnow:default:";

async function writeRecord(port: number, id: string, record: string): Promise<void> {
  await redisCommand(port, ["SET", `${KEYS}worker:${id}`, record, "PX", "60000"]);
  await redisCommand(port, ["ZADD", `${KEYS}members`, "0", id]);
}

async function strayRecords(stage: Stage): Promise<void> {
  const { cluster } = stage;
  stage.inject("4,200 ids that sort first, odd addresses, a huge incarnation");
  const ids = Array.from({ length: 4200 }, (_, at) => `!stray-${at}`);
  const members = ids.flatMap((id) => ["-1", id]);
  await redisCommand(cluster.redisPort, ["ZADD", `${KEYS}members`, ...members]);
  const odd = ["unix:///var/run/redis.sock:1", "169.254.169.254:80", "127.0.0.1:0", "[::]:99999"];
  for (const [at, address] of odd.entries()) {
    await writeRecord(cluster.redisPort, `odd${at}`, strayRecord(`odd${at}`, { address }));
  }
  await writeRecord(cluster.redisPort, "junk", "{");
  await stage.hold(3);
  stage.inject("kill -9 router0, which starts among them");
  await cluster.process("router0").kill();
  cluster.process("router0").restart();
  await stage.until("router0 is ready among stray ids", async () => {
    const { rest } = cluster.ports("router0");
    const answer = await fetch(`http://127.0.0.1:${rest}/readyz`).catch(() => undefined);
    return answer?.status === 200;
  });
  await stage.hold(1);
  const life = { incarnation: Number.MAX_SAFE_INTEGER };
  await writeRecord(cluster.redisPort, "w1", strayRecord("w1", life));
  stage.inject("kill -9 w1, whose record is then of the last life there is");
  await cluster.process("w1").kill();
  await writeRecord(cluster.redisPort, "w1", strayRecord("w1", life));
  cluster.process("w1").restart();
  await stage.whole();
}

/** Scenarios of this theme. */
export const HOSTILE_CLIENTS: readonly Scenario[] = [
  hostile("stalled-bodies", "72 connections announce bodies, 16 of them 64 MiB, and stall", {
    seconds: 14,
    // Beyond the time that a request may take: what they hold must be given back.
    run: (stage) => attacked(stage, "stalled-bodies", 12),
    isBrief: true,
  }),
  hostile("large-json", "4 bodies of 62 MiB JSON at once, again and again"),
  hostile("large-exclusions", "2 bodies with 29 MiB of exclusions, again and again"),
  hostile("many-instances", "batches of 4,096 instances, again and again"),
  hostile("gzip-bombs", "30 gzip bodies that inflate to 63 MiB, again and again"),
  hostile("unread-answers", "answers of 1,000,000 items that nobody reads"),
  hostile("trickled-bodies", "200 bodies that come byte by byte"),
  hostile("slowloris", "2,000 connections whose headers never end"),
  hostile("half-open-calls", "512 gRPC calls and health watches that never send, on each router", {
    isBrief: true,
  }),
  hostile("unfinished-messages", "40 gRPC messages of 60 MiB that stop after 8 MiB"),
  hostile("program-flood", "24 program transfers at once, again and again"),
  hostile("mute-streams", "5,000 streams to workers that never say hello"),
  hostile("garbage-bytes", "garbage on every port", { isBrief: true }),
  {
    name: "hostile-records",
    title: "4,200 stray ids, odd addresses and the highest incarnation in Redis",
    group: "hostile clients",
    topology: "redis",
    seconds: 14,
    resends: true,
    run: strayRecords,
    heal: async (stage) => {
      await redisCommand(stage.cluster.redisPort, ["FLUSHALL"]);
    },
  },
];
