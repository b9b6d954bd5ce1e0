// Whether the checksum shares of a version that is complete here add up over all workers (S7). Each
// router refuses one that does not. Workers must know as well: otherwise they would take the
// corrupt version for the serving one, and unload the good one. Once a version has added up, the
// shares of that moment are the verified ones: a replica that this worker reads with other shares
// (its copy is damaged, the disk erred) is released and read again. Routers leave such a replica
// out, but other workers would count on it.

import { haveEqualShares, partitionRanges } from "@winnow/cluster";
import type { Announcement } from "@winnow/cluster";
import { WinnowError } from "@winnow/core";

import type { ClusterView, VerifiedShares } from "./cluster-view.ts";
import type { LoadedReplica, OpenedVersion } from "../compute/compute.ts";
import { loadedOf, openedOf, replicaOfKey } from "./replica-set.ts";
import type { HeldVersion, ReplicaEvent, ReplicaSet } from "./replica-set.ts";
import { Assignment } from "./assignment.ts";
import type { Intent } from "./assignment.ts";

/** What the judgement rests on. */
export interface ProofFacts {
  readonly cluster: ClusterView;
  readonly intent: Intent | undefined;
  /** What this worker says of itself right now. */
  readonly announcement: () => Announcement;
}

/** Judges versions; a version that was proven once stays proven while it is open. */
export class VersionProof {
  /** Verified shares, by table. */
  readonly #verified = new WeakMap<OpenedVersion, readonly VerifiedShares[]>();
  /** Replicas that have been compared with the verified shares. */
  readonly #compared = new WeakSet<LoadedReplica>();

  /** Judges all versions again; gives an event for each verdict that is new. */
  judge({ versions }: ReplicaSet, facts: ProofFacts): ReplicaEvent[] {
    return [...versions.values()].flatMap((held) => {
      const opened = openedOf(held);
      if (opened === undefined) return [];
      const proof = this.#verified.has(opened) ? undefined : this.#prove(held, opened, facts);
      return [proof ?? [], this.#corruptReplicasOf(held, opened) ?? []].flat();
    });
  }

  #prove(held: HeldVersion, opened: OpenedVersion, facts: ProofFacts): ReplicaEvent | undefined {
    const { standing } = held;
    const isJudged = standing.kind === "doubted" && standing.corruptSinceMs !== undefined;
    if (isJudged || !isWhole(held, opened, facts.intent)) return undefined;
    const name = { model: held.model, version: held.version, fingerprint: opened.fingerprint };
    const proof = facts.cluster.proofOf(name, opened, facts.announcement());
    if (proof === undefined) return undefined;
    const { id } = held;
    if (proof instanceof WinnowError) return { kind: "corrupt", id, error: proof };
    this.#verified.set(opened, proof);
    return standing.kind === "doubted" ? { kind: "proven", id } : undefined;
  }

  /** The replicas of a proven version whose shares here differ from the verified ones. */
  #corruptReplicasOf(held: HeldVersion, opened: OpenedVersion): ReplicaEvent | undefined {
    const verified = this.#verified.get(opened);
    if (verified === undefined) return undefined;
    const replicas: number[] = [];
    for (const [key, replica] of held.replicas) {
      const loaded = loadedOf(replica);
      if (loaded === undefined || this.#compared.has(loaded)) continue;
      this.#compared.add(loaded);
      const { table, partition } = replicaOfKey(key);
      const shares = verified[table]?.[partition];
      if (shares !== undefined && !haveEqualShares(shares, loaded.shares)) replicas.push(key);
    }
    if (replicas.length === 0) return undefined;
    const error = corruptReplicasError(held, opened, replicas);
    return { kind: "corruptReplicas", id: held.id, replicas, error };
  }
}

function corruptReplicasError(
  { model, version }: HeldVersion,
  { tables }: OpenedVersion,
  replicas: readonly number[],
): WinnowError {
  const places = replicas.map(replicaOfKey);
  const { table } = places[0]!;
  const ofTable = places.filter((place) => place.table === table);
  const ranges = partitionRanges(ofTable.map(({ partition }) => partition).toSorted(ascending));
  const { name, sources } = tables[table]!;
  return new WinnowError(
    "DATA_LOSS",
    `Let go of ${ranges} of table "${name}" of ${model}/${version}: what was read here is not what ` +
      `others read and what gives the checksum stored for it; compare ${sources[0]?.file} with theirs`,
  );
}

const ascending = (a: number, b: number): number => a - b;

function isWhole(held: HeldVersion, opened: OpenedVersion, intent: Intent | undefined): boolean {
  if (intent === undefined) return false;
  const hasAll = new Assignment(held, opened, intent).missing(held).length === 0;
  return hasAll && [...held.replicas.values()].every(({ phase }) => phase !== "loading");
}
