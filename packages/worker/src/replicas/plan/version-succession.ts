// When a content that is not wanted any more is still needed because its directory is gone or has been
// replaced. The content answers until its successor can, which for a large version takes longer than any
// grace period. Nobody can read it again, so a content that is given up too early is lost.

import type { VersionKey } from "@winnow/core";

import type { OpenedVersion } from "../../compute/compute.ts";
import { heldAs, isHeldAs, isRefused, isServing, openedOf } from "../replica-set.ts";
import type { HeldVersion, ReplicaSet } from "../replica-set.ts";
import type { ReplicaFacts, WantedVersion } from "./replica-facts.ts";

/** What the decision is made from. */
interface SuccessionFacts extends Pick<ReplicaFacts, "wanted" | "copying"> {
  isComplete(version: VersionKey): boolean;
}

/** The wanted version of the same number whose files are not those of this content, if there is one. */
export function replacementOf(
  held: HeldVersion,
  { wanted }: Pick<SuccessionFacts, "wanted">,
): WantedVersion | undefined {
  return wanted.find(
    ({ model, found }) =>
      model === held.model &&
      found.version === held.version &&
      !isHeldAs(held, { model, ...found }),
  );
}

/**
 * Whether a content that is not wanted must go on answering. A content that was replaced in place must while
 * it is the default, and, if it was ever complete here, until its replacement is complete or the default. Any other
 * content must while it is the default and another version can be expected to take over.
 */
export function isNeededUntilFollowed(
  held: HeldVersion,
  { fingerprint }: OpenedVersion,
  { set, facts }: { readonly set: ReplicaSet; readonly facts: SuccessionFacts },
): boolean {
  const { model, version } = held;
  const serves = isServing(set, { model, version, fingerprint });
  const replacement = replacementOf(held, facts);
  if (replacement !== undefined) {
    const next = heldAs(set, { model, ...replacement.found });
    const mayAnswer = held.status.kind === "complete" && held.life.phase !== "unloading";
    return serves || (mayAnswer && isAwaited(next, set, facts));
  }
  const isBeingCopied = facts.copying.some((copying) => copying.model === model);
  const isComingSoon = facts.wanted.some(
    (wanted) => wanted.model === model && isComing(wanted, set),
  );
  return serves && (isBeingCopied || isComingSoon);
}

/** Whether a replacement is on its way and does not itself wait for the memory of the content that it replaces. */
function isAwaited(
  next: HeldVersion | undefined,
  set: ReplicaSet,
  facts: SuccessionFacts,
): boolean {
  if (next === undefined || isRefused(next)) return false;
  const { model, version } = next;
  const fingerprint = openedOf(next)?.fingerprint;
  if (fingerprint === undefined) return true;
  const key = { model, version, fingerprint };
  return !isServing(set, key) && !facts.isComplete(key);
}

/**
 * Whether a wanted version is loaded, or may be yet: a load that failed is tried again, and if it fails for good,
 * the files may be replaced. Not one that lacks memory, which the content that waits for it may occupy.
 */
function isComing({ model, found }: WantedVersion, set: ReplicaSet): boolean {
  const next = heldAs(set, { model, ...found });
  if (next === undefined) return true;
  return !isRefused(next) && next.trouble?.error.code !== "RESOURCE_EXHAUSTED";
}
