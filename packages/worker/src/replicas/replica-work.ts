// Does what a plan says: one effect becomes one request to the compute side, and its end one event.

import { toWinnowError } from "@winnow/core";

import type { Compute } from "../compute/compute.ts";
import type { ReplicaEffect } from "./replica-plan.ts";
import { replicaOfKey } from "./replica-set.ts";
import type { ReplicaEvent } from "./replica-set.ts";

/** What effects are done with. */
export interface ReplicaWork {
  readonly compute: Compute;
  /** What tells a state of a directory's files from another (`ModelStorage`). */
  readonly stampOf: (directory: string) => Promise<string | undefined>;
}

/** Does the work and tells how it ended; never rejects. */
export async function performEffect(
  { compute, stampOf }: ReplicaWork,
  effect: ReplicaEffect,
): Promise<ReplicaEvent> {
  const { id } = effect;
  try {
    if (effect.kind === "open") {
      const { directory } = effect.from;
      const before = await stampOf(directory).catch(() => undefined);
      const opened = await compute.open(effect.from, effect.siblings);
      const after = await stampOf(directory).catch(() => undefined);
      // Files that changed meanwhile are those of no look: what was opened is never taken for theirs.
      const stamp = before === after ? before : `${before} → ${after}`;
      return { kind: "opened", id, opened, stamp };
    }
    const { handle } = effect;
    if (effect.kind === "load") {
      const loaded = await compute.load({ handle, ...replicaOfKey(effect.replica) });
      return { kind: "loaded", id, replica: effect.replica, loaded };
    }
    if (effect.kind === "release") {
      await compute.release({ handle, ...replicaOfKey(effect.replica) });
    } else await compute.close(handle);
  } catch (error) {
    const reason = toWinnowError(error);
    if (effect.kind === "open") return { kind: "openFailed", id, error: reason };
    if (effect.kind === "load") {
      return { kind: "loadFailed", id, replica: effect.replica, error: reason };
    }
    // What cannot be released is gone with its thread; the worker ends then.
  }
  if (effect.kind === "release") return { kind: "released", id, replica: effect.replica };
  return { kind: "closed", id };
}
