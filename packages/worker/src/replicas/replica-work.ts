// Does what a plan says: each effect becomes one request to the compute side, and its end becomes one event.

import { WinnowError, toWinnowError } from "@winnow/core";

import type { Compute, OpenedVersion } from "../compute/compute.ts";
import { hasGrown } from "../models/growing-file.ts";
import type { ReplicaEffect } from "./plan/replica-plan.ts";
import { replicaOfKey } from "./replica-set.ts";
import type { ReplicaEvent } from "./replica-set.ts";

/** What effects need. */
export interface ReplicaWork {
  readonly compute: Compute;
  /** Gives a text that identifies the present state of a directory's files (`ModelStorage.stamp`). */
  readonly stampOf: (directory: string) => Promise<string | undefined>;
}

/** Does the work and gives the event that ends it; never rejects. */
export async function performEffect(
  { compute, stampOf }: ReplicaWork,
  effect: ReplicaEffect,
): Promise<ReplicaEvent> {
  const { id } = effect;
  try {
    if (effect.kind === "open") {
      return { kind: "opened", id, opened: await openAsFound({ compute, stampOf }, effect) };
    }
    const { handle } = effect;
    if (effect.kind === "load") {
      const loaded = await compute.load({ handle, ...replicaOfKey(effect.replica) }, effect.rowsOf);
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
    // A failed release or close leaves nothing to free: the content is not open any more, or the compute side
    // has died, which ends the worker.
  }
  if (effect.kind === "release") return { kind: "released", id, replica: effect.replica };
  return { kind: "closed", id };
}

/**
 * Opens the files of a directory and checks that they are the files that the watch has found. A link may have
 * pointed to other files while the open ran, and point to the former ones again at the next look; the content
 * of those other files must not be taken for theirs. Hence a look right before and right after the open. Of a file of item
 * updates that has grown meanwhile, no more is read than was found.
 * @throws WinnowError UNAVAILABLE for files that are not as they were found; what the reader throws
 */
async function openAsFound(
  { compute, stampOf }: ReplicaWork,
  { from, stamp, siblings }: ReplicaEffect & { readonly kind: "open" },
): Promise<OpenedVersion> {
  if (stamp === undefined) return await compute.open(from, siblings);
  // If a look itself fails, the reader decides whether the directory can be opened.
  const look = (): Promise<string | undefined> => stampOf(from.directory).catch(() => undefined);
  const before = await look();
  const opened = await compute.open(from, siblings);
  const after = await look();
  const isSame = (seen: string | undefined): boolean =>
    seen === undefined || seen === stamp || hasGrown(stamp, seen);
  if ([before, after].every(isSame)) return opened;
  if (!siblings.includes(opened.handle)) await compute.close(opened.handle);
  throw new WinnowError(
    "UNAVAILABLE",
    `The files in ${from.directory} have changed since they were found; waiting for the next look at them`,
  );
}
