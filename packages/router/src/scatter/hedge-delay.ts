// When a slow answer is worth asking another replica: after what the *other* replicas usually need,
// because a slow worker drags its own percentile up and would never be helped ("The Tail at Scale",
// Dean and Barroso 2013; CASSANDRA-14293).

import type { WorkerId } from "@winnow/core";
import type { RoutedTable } from "@winnow/cluster";
import type { RouterSettings } from "../router-settings.ts";
import type { Slot } from "./slot.ts";
import type { WorkerPeer } from "../workers/worker-peer.ts";

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
  let usualMs: number | undefined;
  for (const id of table.replicas[slot.partitions[0]!] ?? []) {
    const peer = peers.get(id);
    if (peer === undefined || peer === slot.peer || !peer.askable || !peer.trusted) continue;
    const peerMs = peer.latency.percentile95Ms() ?? settings.hedgeDelayMaxMs;
    usualMs = Math.max(usualMs ?? settings.hedgeDelayMinMs, peerMs);
  }
  return usualMs === undefined ? undefined : Math.min(settings.hedgeDelayMaxMs, usualMs);
}
