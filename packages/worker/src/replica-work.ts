// Does what a plan says: one effect becomes one request to the compute side, and its end one event.

import { toWinnowError } from "@winnow/core";

import type { Compute } from "./compute/compute.ts";
import type { ReplicaEffect } from "./replica-plan.ts";
import { replicaOfKey } from "./replica-set.ts";
import type { HeldVersion, ReplicaEvent } from "./replica-set.ts";

/** Does the work and tells how it ended; never rejects. */
export async function performEffect(
  compute: Compute,
  effect: ReplicaEffect,
  held: HeldVersion,
): Promise<ReplicaEvent> {
  const { key } = effect;
  const name = { model: held.model, version: held.version };
  const replicaName = (replica: number) => ({ ...name, ...replicaOfKey(replica) });
  try {
    if (effect.kind === "open") {
      return { kind: "opened", key, opened: await compute.open(name, effect.directory) };
    }
    if (effect.kind === "load") {
      const loaded = await compute.load(replicaName(effect.replica));
      return { kind: "loaded", key, replica: effect.replica, loaded };
    }
    if (effect.kind === "release") await compute.release(replicaName(effect.replica));
    else await compute.close(name);
  } catch (error) {
    const reason = toWinnowError(error);
    if (effect.kind === "open") return { kind: "openFailed", key, error: reason };
    if (effect.kind === "load") {
      return { kind: "loadFailed", key, replica: effect.replica, error: reason };
    }
    // What cannot be released is gone with its thread; the worker ends then.
  }
  if (effect.kind === "release") return { kind: "released", key, replica: effect.replica };
  return { kind: "closed", key };
}
