// The state of the cluster as this router sees it, in numbers for monitoring: the default version of each
// model, how much of it can be answered, how many of its partitions lack a replica, and which workers may be
// asked. Computed on demand.

import type { WorkerId } from "@winnow/core";
import { replicationOf } from "@winnow/cluster";
import type {
  Announcement,
  OrderMark,
  Replication,
  RoutedVersion,
  RoutingTable,
} from "@winnow/cluster";
import { byWorkerId } from "./worker-order.ts";
import type { WorkerPeer } from "./worker-peer.ts";

/** A worker as this router sees it. */
export interface WorkerStatus {
  readonly id: WorkerId;
  readonly address: string;
  /** Whether it can be asked: a stream is open, and the worker neither drains nor is superseded. */
  readonly askable: boolean;
  /** False while it is suspect or ejected; it is then asked last. */
  readonly trusted: boolean;
  readonly questions: number;
  /** Whether it is live: connected, or announced in the membership store, and not in drain. */
  readonly isLive: boolean;
  /** Whether it has said which models it serves: it has decided then which order it follows. */
  readonly hasDecided: boolean;
  /** The models order that it follows, as it last said; `undefined`: none, or it was never heard. */
  readonly order: OrderMark | undefined;
}

/** The status of each worker, ascending by id. `members` are the announcements of the store. */
export function workerStatuses(
  peers: Iterable<WorkerPeer>,
  members: readonly Announcement[],
): readonly WorkerStatus[] {
  const announced = new Map(members.map((member) => [member.workerId, member]));
  const statuses = Array.from(peers, (peer) => {
    const { id, askable, trusted, pending: questions } = peer;
    const said = askable ? peer.announcement : announced.get(id);
    const isLive = askable || (said !== undefined && said.state !== "draining");
    const { order } = said ?? peer.announcement ?? {};
    const hasDecided =
      said !== undefined && (said.state !== "starting" || said.versions.length > 0);
    const address = peer.address ?? "";
    return { id, address, askable, trusted, questions, isLive, hasDecided, order };
  });
  return statuses.toSorted(byWorkerId);
}

/** What a status is made from. */
export interface ClusterFacts {
  readonly table: RoutingTable;
  /** Intended replicas of each partition. */
  readonly replication: Replication;
  /** Workers known, connected or not: a partition cannot have more replicas than these. */
  readonly workers: number;
  /** Ms since the membership store last gave a complete answer; `undefined`: never. */
  readonly membershipAgeMs: number | undefined;
}

/** The cluster in numbers. */
export interface ClusterStatus {
  /** Number of the routing table in use. */
  readonly generation: number;
  readonly membershipAgeMs: number | undefined;
  /** Models with a default version, ascending by name. */
  readonly models: readonly ModelStatus[];
}

/** The default version of one model. */
export interface ModelStatus {
  readonly model: string;
  readonly version: number;
  /** Partitions with a replica ÷ partitions, 0…1. */
  readonly coverage: number;
  readonly partitions: PartitionCounts;
}

/** Partitions of all tables, each counted once. */
export interface PartitionCounts {
  /** Partitions with as many replicas as intended. */
  readonly covered: number;
  /** Partitions with some replicas, but fewer than intended. */
  readonly underreplicated: number;
  /** Partitions without a replica: requests for them fail. */
  readonly lost: number;
}

/** The status of the cluster. */
export function clusterStatus(facts: ClusterFacts): ClusterStatus {
  const { table, membershipAgeMs } = facts;
  const models = [...table.models.values()].flatMap(({ name, versions, serving }) => {
    const version = versions.find(
      ({ key }) => key.version === serving?.version && key.fingerprint === serving.fingerprint,
    );
    const intended = Math.min(replicationOf(name, facts.replication), facts.workers);
    return version === undefined ? [] : [modelStatus(name, version, intended)];
  });
  return { generation: table.generation, membershipAgeMs, models };
}

function modelStatus(model: string, routed: RoutedVersion, intended: number): ModelStatus {
  const counts = { covered: 0, underreplicated: 0, lost: 0 };
  for (const { replicas } of routed.tables) {
    for (const { length } of replicas) {
      if (length === 0) counts.lost += 1;
      else if (length < intended) counts.underreplicated += 1;
      else counts.covered += 1;
    }
  }
  const { coverage, key } = routed;
  return { model, version: key.version, coverage, partitions: counts };
}
