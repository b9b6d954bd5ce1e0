// The default version of each model, as this worker derives it from the known announcements and from the
// default version so far. It is part of the state (`replica-set.ts`), because a version stays the default
// until another one fulfils the conditions to replace it.

import { isSameVersion } from "@winnow/cluster";
import type { Announcement } from "@winnow/cluster";
import type { VersionKey } from "@winnow/core";

import type { ClusterView } from "./cluster-view.ts";
import type { ReplicaSet } from "./replica-set.ts";

/** What the default versions are derived from. */
interface ServingFacts {
  readonly cluster: ClusterView;
  readonly models: readonly string[];
  /** This worker's own announcement as of now. */
  readonly own: Announcement;
  readonly nowMs: number;
  /** For so long it is known which version was the default before. */
  readonly formerMs: number;
}

/** The set, with all default versions derived again. */
export function withServing(set: ReplicaSet, facts: ServingFacts): ReplicaSet {
  const { cluster, models, own, nowMs, formerMs } = facts;
  const serving = new Map<string, VersionKey>();
  const formerlyServing = new Map(
    [...set.formerlyServing].filter(([, { endedAtMs }]) => nowMs < endedAtMs + formerMs),
  );
  const named = new Set(models);
  for (const model of new Set([...models, ...set.serving.keys()])) {
    const before = set.serving.get(model);
    // Of a model that is gone from everywhere nothing is remembered.
    const isKnown = named.has(model) || cluster.isAnnounced(model, own);
    const now = isKnown ? cluster.servingOf(model, own, before) : undefined;
    if (now !== undefined) serving.set(model, now);
    if (before === undefined || (now !== undefined && isSameVersion(now, before))) continue;
    formerlyServing.set(model, { key: before, endedAtMs: nowMs });
  }
  return { ...set, serving, formerlyServing };
}

/** Whether a version ceased to be the default less than `ms` ago. */
export function hasServedWithin(
  { formerlyServing }: ReplicaSet,
  version: VersionKey,
  { ms, nowMs }: { readonly ms: number; readonly nowMs: number },
): boolean {
  const former = formerlyServing.get(version.model);
  if (former === undefined || !isSameVersion(former.key, version)) return false;
  return nowMs < former.endedAtMs + ms;
}
