// When a slow answer is worth asking another replica: after twice what the *other* replicas hardly ever
// need, because a slow worker drags its own percentile up and would never be helped ("The Tail at Scale",
// Dean and Barroso 2013; CASSANDRA-14293). A worker that is merely as slow as the others is not hedged:
// on a machine that is busy a second question would make all of them slower.

import type { WorkerId } from "@winnow/core";
import type { RoutedTable } from "@winnow/cluster";
import type { RouterSettings } from "../router-settings.ts";
import type { Slot } from "./slot.ts";
import type { WorkerPeer } from "../workers/worker-peer.ts";

/** What is slower than this many times the 99th percentile of others is slow for a reason of its own. */
const RARE_RATIO = 2;

/** What the delay depends on. */
export interface HedgeDelayParts {
  readonly settings: RouterSettings;
  readonly peers: ReadonlyMap<WorkerId, WorkerPeer>;
}

/** Ms until a slot is asked elsewhere too; `undefined` where no trusted replica could answer. */
export function hedgeDelayMs(
  { settings, peers }: HedgeDelayParts,
  table: RoutedTable,
  slot: Slot,
): number | undefined {
  const { hedgeDelayMinMs, hedgeDelayMaxMs } = settings;
  let delayMs: number | undefined;
  for (const id of table.replicas[slot.partitions[0]!] ?? []) {
    const peer = peers.get(id);
    if (peer === undefined || peer === slot.peer || !peer.askable || !peer.trusted) continue;
    const usual = peer.latency.percentiles();
    const rareMs = usual === undefined ? hedgeDelayMaxMs : RARE_RATIO * usual.p99Ms;
    // Where the others often take longer than the longest delay, everybody is slow.
    const isBusy = usual !== undefined && usual.p95Ms >= hedgeDelayMaxMs;
    const peerMs = isBusy ? rareMs : Math.min(hedgeDelayMaxMs, rareMs);
    delayMs = Math.max(delayMs ?? hedgeDelayMinMs, peerMs);
  }
  return delayMs;
}
