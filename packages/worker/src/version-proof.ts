// Whether a version that is complete here adds up over all workers (S7). Routers refuse one that does
// not, each by itself; workers must know as well: otherwise they would take the corrupt version for
// the one that serves, and unload the good one.

import type { Announcement } from "@winnow/cluster";

import type { ClusterView } from "./cluster-view.ts";
import type { OpenedVersion } from "./compute/compute.ts";
import { openedOf, versionKey } from "./replica-set.ts";
import type { HeldVersion, ReplicaEvent, ReplicaSet } from "./replica-set.ts";
import { VersionShare } from "./replica-share.ts";
import type { Intent } from "./replica-share.ts";

/** What the judgement rests on. */
export interface ProofFacts {
  readonly cluster: ClusterView;
  readonly intent: Intent | undefined;
  /** What this worker says of itself right now. */
  readonly announcement: () => Announcement;
}

/** Judges versions; each that was proven once is not judged again while it is open. */
export class VersionProof {
  /** Whatever replicas come later, routers take only those that equal the proven ones. */
  readonly #proven = new WeakSet<OpenedVersion>();

  /** The versions about which more is known now. */
  judge({ versions }: ReplicaSet, facts: ProofFacts): ReplicaEvent[] {
    return [...versions.values()].flatMap((held) => this.#judgeVersion(held, facts) ?? []);
  }

  #judgeVersion(held: HeldVersion, facts: ProofFacts): ReplicaEvent | undefined {
    const opened = openedOf(held);
    if (opened === undefined || this.#proven.has(opened)) return undefined;
    if (held.corruptSinceMs !== undefined || !isWhole(held, opened, facts.intent)) return undefined;
    const key = { model: held.model, version: held.version, fingerprint: opened.fingerprint };
    const proof = facts.cluster.proofOf(key, opened, facts.announcement());
    if (proof === undefined) return undefined;
    if (proof !== true) return { kind: "corrupt", key: versionKey(held), error: proof };
    this.#proven.add(opened);
    return held.isDoubted ? { kind: "proven", key: versionKey(held) } : undefined;
  }
}

function isWhole(held: HeldVersion, opened: OpenedVersion, intent: Intent | undefined): boolean {
  if (intent === undefined) return false;
  const hasAll = new VersionShare(held, opened, intent).missing(held).length === 0;
  return hasAll && [...held.replicas.values()].every(({ phase }) => phase !== "loading");
}
