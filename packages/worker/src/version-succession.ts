// When the directory of the serving version is gone, it goes on answering until what is to follow is
// whole: a large one may take longer to load than the grace of an unloaded version lasts.

import type { VersionKey } from "@winnow/core";

import type { WantedVersion } from "./replica-plan.ts";
import { versionKey } from "./replica-set.ts";
import type { HeldVersion, ReplicaSet } from "./replica-set.ts";

/** Whether this version serves, and another one that could take over is still being loaded. */
export function hasComingSuccessor(
  { model, version }: HeldVersion,
  { versions }: ReplicaSet,
  facts: {
    readonly serving: ReadonlyMap<string, VersionKey>;
    readonly wanted: readonly WantedVersion[];
  },
): boolean {
  if (facts.serving.get(model)?.version !== version) return false;
  return facts.wanted.some((wanted) => {
    if (wanted.model !== model) return false;
    const next = versions.get(versionKey({ model, version: wanted.found.version }));
    return next?.refusal === undefined && next?.trouble === undefined;
  });
}
