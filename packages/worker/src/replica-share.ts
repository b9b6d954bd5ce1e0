// A worker's share of a version: what is intended here, what of it is missing, and whether it fits.

import { WinnowError } from "@winnow/core";
import type { VersionKey, WorkerId } from "@winnow/core";

import type { OpenedVersion } from "./compute/compute.ts";
import { openedOf, replicaKey, replicaOfKey } from "./replica-set.ts";
import type { HeldVersion } from "./replica-set.ts";

/** Who is to hold what. */
export interface Intent {
  readonly workerId: WorkerId;
  /** Intended owners of each partition of a table, most important first. */
  intendedOwners(version: VersionKey, table: number): readonly (readonly WorkerId[])[];
}

/** Everything intended here, as replica keys. */
export function intendedReplicas(
  held: HeldVersion,
  opened: OpenedVersion,
  intent: Intent,
): number[] {
  const version = keyOf(held, opened);
  return opened.tables.flatMap((_, table) =>
    intent
      .intendedOwners(version, table)
      .flatMap((owners, partition) =>
        owners.includes(intent.workerId) ? [replicaKey(table, partition)] : [],
      ),
  );
}

/** What is intended here, not held and not being loaded. */
export function missingReplicas(
  held: HeldVersion,
  opened: OpenedVersion,
  intent: Intent,
): number[] {
  return intendedReplicas(held, opened, intent).filter((key) => {
    const phase = held.replicas.get(key)?.phase;
    return phase === undefined || phase === "releasing";
  });
}

/** Bytes that these replicas will occupy. */
export function bytesOf(replicas: readonly number[], opened: OpenedVersion): number {
  return replicas.reduce((sum, key) => {
    const { table, partition } = replicaOfKey(key);
    return sum + (opened.tables[table]?.partitionBytes[partition] ?? 0);
  }, 0);
}

/** The identity of an opened version. */
export function keyOf(held: HeldVersion, opened: OpenedVersion): VersionKey {
  return { model: held.model, version: held.version, fingerprint: opened.fingerprint };
}

/** Whether one of its replicas is being loaded. */
export function isLoading(held: HeldVersion): boolean {
  return [...held.replicas.values()].some(({ phase }) => phase === "loading");
}

/** Whether an open, a load or an ending is under way: the next job waits for it. */
export function isBusy(held: HeldVersion): boolean {
  const { phase } = held.life;
  if (phase === "opening" || phase === "closing") return true;
  return openedOf(held) !== undefined && isLoading(held);
}

/** Why a share is not loaded, with the figures that decide it. */
export function refusalOf(
  { model, version }: HeldVersion,
  bytes: { readonly neededBytes: number; readonly freeBytes: number; readonly workerId: WorkerId },
): WinnowError {
  return new WinnowError(
    "RESOURCE_EXHAUSTED",
    `Worker "${bytes.workerId}" cannot hold its share of version ${version} of model "${model}": ` +
      `${bytes.neededBytes} bytes are still to load, ${Math.max(0, bytes.freeBytes)} are free; ` +
      "add workers, give it more memory, or remove a version",
  );
}
