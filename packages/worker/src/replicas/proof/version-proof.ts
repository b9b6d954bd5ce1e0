// Whether the checksum shares of a version that is complete here add up over all workers (S7). Each router
// refuses a version whose shares do not. Workers must know as well: otherwise they would take the corrupt
// version for the default and unload the good one. Once the shares of a version have added up, those shares
// are the verified ones: a replica that this worker reads with other shares (its copy is damaged, the disk
// erred) is released and read again. Routers leave such a replica out, but other workers would count on it.

import { haveEqualShares, partitionRanges } from "@winnow/cluster";
import type { Announcement } from "@winnow/cluster";
import { WinnowError } from "@winnow/core";

import type { ClusterView } from "../cluster-view.ts";
import type { OpenedVersion } from "../../compute/compute.ts";
import { loadedOf, openedOf, replicaOfKey, verifiedOf } from "../replica-set.ts";
import type { HeldVersion, ReplicaEvent, ReplicaSet, VerifiedShares } from "../replica-set.ts";
import { Assignment } from "../assignment.ts";
import type { Intent } from "../assignment.ts";

/** What the verdicts are made from. */
interface ProofFacts {
  readonly cluster: ClusterView;
  readonly intent: Intent | undefined;
  /** Gives this worker's announcement as of now. */
  readonly announcement: () => Announcement;
}

/**
 * New verdicts, one or two for a version: its shares add up or do not; replicas here differ from the verified
 * ones. A version that was proven stays proven while it is open.
 */
export function verdictsOn({ versions }: ReplicaSet, facts: ProofFacts): ReplicaEvent[] {
  return [...versions.values()].flatMap((held) => {
    const opened = openedOf(held);
    if (opened === undefined) return [];
    const verdict = verifiedOf(held) === undefined ? prove(held, opened, facts) : undefined;
    const verified = verdict?.kind === "proven" ? verdict.verified : verifiedOf(held);
    const corrupt = verified && corruptReplicasOf(held, opened, verified);
    return [verdict ?? [], corrupt ?? []].flat();
  });
}

function prove(
  held: HeldVersion,
  opened: OpenedVersion,
  { cluster, intent, announcement }: ProofFacts,
): (ReplicaEvent & { readonly kind: "proven" | "corrupt" }) | undefined {
  const { id, model, version, status } = held;
  const isJudged = status.kind === "doubted" && status.corruptSinceMs !== undefined;
  if (isJudged || !isWhole(held, opened, intent)) return undefined;
  const { fingerprint } = opened;
  const proof = cluster.proofOf({ model, version, fingerprint }, opened, announcement());
  if (proof === undefined) return undefined;
  if (proof instanceof WinnowError) return { kind: "corrupt", id, error: proof };
  return { kind: "proven", id, verified: proof };
}

/** The replicas of a proven version whose shares here differ from the verified ones. */
function corruptReplicasOf(
  held: HeldVersion,
  opened: OpenedVersion,
  verified: VerifiedShares,
): ReplicaEvent | undefined {
  const replicas: number[] = [];
  for (const [key, replica] of held.replicas) {
    const loaded = loadedOf(replica);
    if (loaded === undefined) continue;
    const { table, partition } = replicaOfKey(key);
    const shares = verified[table]?.[partition];
    if (shares !== undefined && !haveEqualShares(shares, loaded.shares)) replicas.push(key);
  }
  if (replicas.length === 0) return undefined;
  const error = corruptReplicasError(held, opened, replicas);
  return { kind: "corruptReplicas", id: held.id, replicas, error };
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
