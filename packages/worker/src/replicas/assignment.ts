// A worker's assignment of a version: what is intended here, what is missing, and whether it fits.

import { haveEqualShares } from "@winnow/cluster";
import { WinnowError } from "@winnow/core";
import type { VersionKey, WorkerId } from "@winnow/core";

import type { ContentHandle, OpenedVersion } from "../compute/compute.ts";
import {
  contentsOfModel,
  contentsOfRows,
  loadedOf,
  openedOf,
  replicaOfKey,
  verifiedOf,
} from "./replica-set.ts";
import type { HeldVersion, ReplicaSet } from "./replica-set.ts";
import type { AssignmentStatus } from "../worker-observer.ts";

/** Which workers are intended to hold which partitions. */
export interface Intent {
  readonly workerId: WorkerId;
  /** Intended owners of each partition of a table, most important first. */
  intendedOwners(version: VersionKey, table: number): readonly (readonly WorkerId[])[];
  /** All partitions of a version that are intended here, as replica keys, ascending. */
  intendedReplicas(version: VersionKey, opened: OpenedVersion): readonly number[];
}

/** What is intended here of one opened version. Made for one decision and not kept. */
export class Assignment {
  readonly key: VersionKey;
  readonly #intent: Intent;
  readonly #opened: OpenedVersion;
  readonly #owners = new Map<number, readonly (readonly WorkerId[])[]>();

  constructor(held: HeldVersion, opened: OpenedVersion, intent: Intent) {
    this.key = { model: held.model, version: held.version, fingerprint: opened.fingerprint };
    this.#intent = intent;
    this.#opened = opened;
  }

  /** Intended owners of one replica, most important first. */
  ownersOf(replica: number): readonly WorkerId[] {
    const { table, partition } = replicaOfKey(replica);
    return this.#ownersOfTable(table)[partition] ?? [];
  }

  /** All partitions intended here, as replica keys. */
  intended(): readonly number[] {
    return this.#intent.intendedReplicas(this.key, this.#opened);
  }

  /** What is intended here, not held and not being loaded. */
  missing(held: HeldVersion): number[] {
    return this.intended().filter((key) => {
      const phase = held.replicas.get(key)?.phase;
      return phase === undefined || phase === "releasing" || phase === "corrupt";
    });
  }

  /** Whether everything intended here answers. */
  isLoaded(held: HeldVersion): boolean {
    return this.intended().every((key) => loadedOf(held.replicas.get(key)) !== undefined);
  }

  /** Bytes that are loaded here ÷ bytes intended here, as the version states them: 0…1. */
  loadedRatio(held: HeldVersion): number {
    const intended = this.intended();
    const assignedBytes = this.#bytesOf(intended);
    const loaded = intended.filter((key) => loadedOf(held.replicas.get(key)) !== undefined);
    return assignedBytes === 0 ? 1 : this.#bytesOf(loaded) / assignedBytes;
  }

  #bytesOf(replicas: readonly number[]): number {
    return replicas.reduce((sum, key) => {
      const { table, partition } = replicaOfKey(key);
      return sum + (this.#opened.tables[table]?.partitionBytes[partition] ?? 0);
    }, 0);
  }

  #ownersOfTable(table: number): readonly (readonly WorkerId[])[] {
    const known = this.#owners.get(table);
    if (known !== undefined) return known;
    const owners = this.#intent.intendedOwners(this.key, table);
    this.#owners.set(table, owners);
    return owners;
  }
}

/** How far a version is loaded here. */
export function assignmentStatusOf(
  held: HeldVersion,
  intent: Intent | undefined,
): AssignmentStatus {
  const { model, version } = held;
  const replicas = { loading: 0, ready: 0, retiring: 0, releasing: 0 };
  for (const { phase } of held.replicas.values()) {
    replicas[phase === "corrupt" ? "releasing" : phase] += 1;
  }
  const opened = openedOf(held);
  const assignment =
    opened === undefined || intent === undefined ? undefined : new Assignment(held, opened, intent);
  const loadedRatio = assignment?.loadedRatio(held) ?? 0;
  return { model, version, replicas, loadedRatio, changes: opened?.changes };
}

/**
 * Bytes that these replicas will occupy on the device, which keeps more than rows (filter codes, whole blocks
 * of rows). How much more differs between tables, and is known once one replica of the table is loaded, of
 * any version. Rows that another content has loaded take no more memory.
 */
export function occupiedBytesOf(
  set: ReplicaSet,
  held: HeldVersion,
  replicas: readonly number[],
): number {
  const tables = openedOf(held)?.tables ?? [];
  const ratios = tables.map(({ name }) => overheadRatioOf(set, { model: held.model, name }));
  const bytes = replicas.map((key) => {
    const { table, partition } = replicaOfKey(key);
    const stated = (tables[table]?.partitionBytes[partition] ?? 0) * (ratios[table] ?? 1);
    return Math.max(0, stated - (rowsHeldBy(set, held, key)?.rowBytes ?? 0));
  });
  return Math.ceil(bytes.reduce((sum, each) => sum + each, 0));
}

/** A content that has loaded the rows of a replica, and their memory. */
interface HeldRows {
  readonly handle: ContentHandle;
  readonly rowBytes: number;
}

/**
 * A content that has loaded the rows of a replica, and whose rows on all workers have added up: it differs in the
 * attributes of its items and changes to them alone. Not one whose shares differ from those that are verified for the content itself: such
 * a replica is read again.
 */
export function rowsHeldBy(
  set: ReplicaSet,
  held: HeldVersion,
  replica: number,
): HeldRows | undefined {
  const opened = openedOf(held);
  if (opened === undefined) return undefined;
  const { table, partition } = replicaOfKey(replica);
  const verified = verifiedOf(held)?.[table]?.[partition];
  for (const other of contentsOfRows(set, opened.rowsFingerprint)) {
    const from = openedOf(other);
    if (other === held || from === undefined || !haveSameRows(opened, from, { table, partition })) {
      continue;
    }
    const loaded = loadedOf(other.replicas.get(replica));
    if (loaded === undefined || verifiedOf(other) === undefined) continue;
    const isVerified = verified === undefined || haveEqualShares(verified, loaded.shares);
    if (isVerified) return { handle: from.handle, rowBytes: loaded.rowBytes };
  }
  return undefined;
}

/**
 * Whether a partition has rows of the model itself, rather than of items that were added to it, in two contents of that
 * model, which is in as many partitions in both.
 */
function haveSameRows(
  a: OpenedVersion,
  b: OpenedVersion,
  { table, partition }: { readonly table: number; readonly partition: number },
): boolean {
  const partitions = ownPartitionsOf(a, table);
  return partition < partitions && partitions === ownPartitionsOf(b, table);
}

function ownPartitionsOf({ tables }: OpenedVersion, table: number): number {
  const { original, partitions = 0 } = tables[table] ?? {};
  return original?.partitions ?? partitions;
}

/** Bytes that replicas of a table occupy ÷ bytes that their versions stated, ≥ 1; 1 while unknown. */
function overheadRatioOf(
  set: ReplicaSet,
  at: { readonly model: string; readonly name: string },
): number {
  let occupiedBytes = 0;
  let statedBytes = 0;
  for (const held of contentsOfModel(set, at.model)) {
    const opened = openedOf(held);
    for (const [key, replica] of held.replicas) {
      const { table, partition } = replicaOfKey(key);
      const loaded = loadedOf(replica);
      const spec = opened?.tables[table];
      if (loaded === undefined || spec?.name !== at.name) continue;
      occupiedBytes += loaded.bytes;
      statedBytes += spec.partitionBytes[partition] ?? 0;
    }
  }
  return statedBytes === 0 ? 1 : Math.max(1, occupiedBytes / statedBytes);
}

/** Keys of a content's replicas that are being loaded. */
export function loadingOf(held: HeldVersion): number[] {
  return [...held.replicas].filter(([, { phase }]) => phase === "loading").map(([key]) => key);
}

/** Whether a replica of the content is being loaded. */
export function isLoading(held: HeldVersion): boolean {
  return loadingOf(held).length > 0;
}

/** Whether the content is being opened or closed. */
function isOpeningOrClosing({ life }: HeldVersion): boolean {
  return life.phase === "opening" || life.phase === "closing";
}

/** Whether an open, load or close is under way, so that figures of used memory are not final. */
export function isBusy(held: HeldVersion): boolean {
  return isOpeningOrClosing(held) || (openedOf(held) !== undefined && isLoading(held));
}

/** Why an assignment is not loaded, with the figures that decide it. */
export function refusalOf(
  { model, version }: HeldVersion,
  bytes: { readonly neededBytes: number; readonly freeBytes: number; readonly workerId: WorkerId },
): WinnowError {
  return new WinnowError(
    "RESOURCE_EXHAUSTED",
    `Worker "${bytes.workerId}" cannot hold its assignment of version ${version} of model "${model}": ` +
      `${bytes.neededBytes} bytes are still to load, ${Math.max(0, bytes.freeBytes)} are free; ` +
      "add workers, give it more memory, or remove a version",
  );
}
