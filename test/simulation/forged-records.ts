// Records that others may write into a store without a secret. They must not affect live workers, and must be
// forgotten.

import { MODEL } from "./simulated-models.ts";
import type { PlannedFault } from "./scenario.ts";
import type { SimulatedWorld } from "./simulated-world.ts";
import { incarnation, workerId } from "@winnow/core";
import { announcementToJson } from "../../packages/cluster/src/announcement/announcement-codec.ts";
import { redisKeys } from "../../packages/cluster/src/membership/redis-keys.ts";

const LEASE_MS = 60_000;
const KEYS = redisKeys("default");

/** Writes one forged record, or deletes a genuine one. */
export function forgeRecords(world: SimulatedWorld, { victim, variant }: PlannedFault): void {
  const { redis, staff } = world;
  if (!redis.isUp) return;
  const { name } = staff[Math.floor(victim * staff.length)]!;
  const write = (text: string): void => redis.set(KEYS.worker(name), text, LEASE_MS);
  const forgeries = [
    () => write(announcementOf(name, 2 ** 52)),
    () => write(announcementOf(name, 0)),
    () => write("{"),
    () => write(JSON.stringify({ withdrawn: true, worker_id: name, incarnation: 2 ** 52 })),
    () => redis.remove(KEYS.members, name),
  ];
  forgeries[Math.floor(variant * forgeries.length)]!();
  redis.publish();
}

/** A record of a worker that cannot be reached, with partitions that nobody has. */
function announcementOf(name: string, life: number): string {
  return announcementToJson({
    workerId: workerId(name),
    incarnation: incarnation(life),
    address: "nobody:1",
    state: "ready",
    accelerator: "cpu",
    device: "",
    memoryUsedBytes: 0,
    memoryCapacityBytes: 0,
    versions: [
      {
        model: MODEL,
        version: 99,
        fingerprint: undefined,
        state: "ready",
        error: undefined,
        tables: [],
        serving: true,
      },
    ],
  });
}
