// The cluster as this worker's replica control sees it: the membership view and everything that plans derive
// from it, cached until the view changes.

import {
  fewerOwners,
  holdingOf,
  holdingsOf,
  isSameVersion,
  placeTable,
  proveTable,
  replicationOf,
  rolloutsOf,
  servingVersion,
  swapReplicasOf,
} from "@winnow/cluster";
import type {
  Announcement,
  MembershipView,
  PlacedTable,
  Replication,
  VersionHolding,
} from "@winnow/cluster";
import { WinnowError, areOfSameFiles } from "@winnow/core";
import type { TableSource, VersionKey, WorkerId } from "@winnow/core";

import type { OpenedVersion } from "../compute/compute.ts";
import { replicaKey } from "./replica-set.ts";
import type { VerifiedShares } from "./replica-set.ts";

type Owners = readonly (readonly WorkerId[])[];
/** Workers that announce each partition, with the checksum shares of what they read. */
export type Holders = ReadonlyMap<number, ReadonlyMap<WorkerId, readonly number[]>>;

/** A table that another worker cuts into another number of partitions. */
export interface OtherCut {
  readonly worker: WorkerId;
  readonly table: string;
  readonly partitions: number;
  readonly own: number;
}

/** Placement and announcements of the latest view. */
export class ClusterView {
  readonly #workerId: WorkerId;
  readonly #replication: Replication;
  /** What everything here is derived from. */
  view: MembershipView | undefined;
  #workers: readonly Announcement[] = [];
  #byId: ReadonlyMap<WorkerId, Announcement> = new Map();
  #placementWorkers: readonly WorkerId[] = [];
  #isKnown = false;
  #owners = new Map<string, Owners>();
  #fewerOwners = new Map<string, Owners>();
  #holders = new Map<string, Holders>();
  #intended = new WeakMap<OpenedVersion, readonly number[]>();
  #fewerIntended = new WeakMap<OpenedVersion, readonly number[]>();

  constructor(settings: Replication & { readonly workerId: WorkerId }) {
    this.#workerId = settings.workerId;
    this.#replication = settings;
  }

  /** Takes a new view; `true` if partitions may have to move. */
  update(view: MembershipView): boolean {
    const isMoved = view.placementWorkers.join("\n") !== this.#placementWorkers.join("\n");
    this.view = view;
    this.#workers = view.workers;
    this.#byId = new Map(view.workers.map((worker) => [worker.workerId, worker]));
    this.#holders = new Map();
    if (isMoved) {
      this.#owners = new Map();
      this.#fewerOwners = new Map();
      this.#intended = new WeakMap();
      this.#fewerIntended = new WeakMap();
    }
    this.#placementWorkers = view.placementWorkers;
    this.#isKnown = true;
    return isMoved;
  }

  /** Whether partitions are placed on this worker at all. */
  get isPlaced(): boolean {
    return this.#isKnown && this.#placementWorkers.includes(this.#workerId);
  }

  /** Announcements of the other workers. */
  get others(): readonly Announcement[] {
    return this.#workers.filter((worker) => worker.workerId !== this.#workerId);
  }

  /** Workers that partitions are placed on and that are not announced. */
  get absent(): ReadonlySet<WorkerId> {
    const heard = new Set([this.#workerId, ...this.#workers.map(({ workerId }) => workerId)]);
    return new Set(this.#placementWorkers.filter((id) => !heard.has(id)));
  }

  /** Whether versions of a model have fewer replicas while one replaces another. */
  hasFewerReplicas(model: string): boolean {
    const all = Math.min(replicationOf(model, this.#replication), this.#placementWorkers.length);
    return swapReplicasOf(model, this.#replication) < all;
  }

  /**
   * Intended owners of each partition of a table, most important first; `isFewer`: those that are left while one
   * version of the model replaces another one.
   */
  ownersOf(model: string, table: PlacedTable, isFewer: boolean): Owners {
    const { name, partitions, original = { partitions } } = table;
    const key = `${model}\n${name}\n${original.partitions} of ${partitions}`;
    const known = (isFewer ? this.#fewerOwners : this.#owners).get(key);
    if (known !== undefined) return known;
    if (isFewer) {
      const all = this.ownersOf(model, table, false);
      const fewer = fewerOwners(all, swapReplicasOf(model, this.#replication));
      this.#fewerOwners.set(key, fewer);
      return fewer;
    }
    const owners = placeTable({ model, table }, this.#placementWorkers, {
      replication: replicationOf(model, this.#replication),
    });
    this.#owners.set(key, owners);
    return owners;
  }

  /** What of an opened version is intended on this worker, as replica keys, ascending; `isFewer` as for `ownersOf`. */
  intendedOf(model: string, opened: OpenedVersion, isFewer: boolean): readonly number[] {
    const cache = isFewer ? this.#fewerIntended : this.#intended;
    const known = cache.get(opened);
    if (known !== undefined) return known;
    const intended = opened.tables.flatMap((spec, table) =>
      this.ownersOf(model, spec, isFewer).flatMap((owners, partition) =>
        owners.includes(this.#workerId) ? replicaKey(table, partition) : [],
      ),
    );
    cache.set(opened, intended);
    return intended;
  }

  /** Other workers that cut a table of a version into another number of partitions. */
  otherCutsOf(version: VersionKey, opened: OpenedVersion): readonly OtherCut[] {
    return this.others.flatMap((worker) =>
      (holdingOf(worker, version)?.tables ?? []).flatMap(({ table, partitions }) => {
        const own = opened.tables[table];
        if (own === undefined || own.partitions === partitions) return [];
        return [{ worker: worker.workerId, table: own.name, partitions, own: own.partitions }];
      }),
    );
  }

  /** Other workers that make other tables of the same files, because they run another release. */
  otherReadersOf({ model, version, fingerprint }: VersionKey): readonly Announcement[] {
    return this.others.filter((worker) =>
      holdingsOf(worker, model).some(
        (each) =>
          each.version === version &&
          each.fingerprint !== undefined &&
          each.fingerprint !== fingerprint &&
          areOfSameFiles(each.fingerprint, fingerprint),
      ),
    );
  }

  /** Other workers, not in drain, that announce each partition of a table as ready. */
  holdersOf(version: VersionKey, table: number): Holders {
    const key = `${version.model}\n${version.version}\n${version.fingerprint}\n${table}`;
    const known = this.#holders.get(key);
    if (known !== undefined) return known;
    const holders = this.#holdersWhere(version, table, isKept);
    this.#holders.set(key, holders);
    return holders;
  }

  /** What is announced of a worker. */
  announced(id: WorkerId): Announcement | undefined {
    return this.#byId.get(id);
  }

  /** As `holdersOf`, with workers that answer although their directory is gone, until another version serves. */
  answerersOf(version: VersionKey, table: number): Holders {
    return this.#holdersWhere(
      version,
      table,
      (holding) => isKept(holding) || (holding.state === "unloading" && holding.serving === true),
    );
  }

  /** As `answerersOf`, with all workers that still have the version and give it up after a grace period. */
  lastAnswerersOf(version: VersionKey, table: number): Holders {
    return this.#holdersWhere(version, table, ({ state }) => state !== "failed");
  }

  #holdersWhere(
    version: VersionKey,
    table: number,
    counts: (holding: VersionHolding) => boolean,
  ): Holders {
    return holdersAmong(this.others, { version, table }, counts);
  }

  /** Whether any worker announces a version of the model; this worker's own announcement is as of now. */
  isAnnounced(model: string, own: Announcement): boolean {
    return [...this.others, own].some((worker) => holdingsOf(worker, model).length > 0);
  }

  /** The default version, given this worker's own announcement as of now. */
  servingOf(
    model: string,
    own: Announcement,
    current: VersionKey | undefined,
  ): VersionKey | undefined {
    const announcements = [...this.others, own];
    const replication = swapReplicasOf(model, this.#replication);
    return servingVersion(model, announcements, { current, replication });
  }

  /** Whether every worker holds its assignment of a version, with as many replicas as a new default needs. */
  isComplete(version: VersionKey, own: Announcement): boolean {
    const announcements = [...this.others, own];
    const replication = swapReplicasOf(version.model, this.#replication);
    const rollouts = rolloutsOf(version.model, announcements, { replication });
    return rollouts.some(({ key, complete }) => complete && isSameVersion(key, version));
  }

  /**
   * Whether what all workers have read of a version gives the stored checksums (S7): `undefined` while
   * partitions are missing, otherwise the verified shares by table, or why there are none.
   */
  proofOf(
    version: VersionKey,
    opened: OpenedVersion,
    own: Announcement,
  ): VerifiedShares | WinnowError | undefined {
    const holders = [...this.others, own].flatMap((worker) => {
      const holding = holdingOf(worker, version);
      return holding === undefined ? [] : [{ worker, tables: holding.tables }];
    });
    const proofs = opened.tables.map((spec, table) =>
      proveTable(
        spec,
        holders.flatMap(({ worker, tables }) =>
          tables.filter((each) => each.table === table).map((holding) => ({ worker, holding })),
        ),
      ),
    );
    const corrupt = proofs.find((proof) => proof.kind === "corrupt");
    if (corrupt !== undefined) return notAddingUp(version, corrupt.source);
    if (proofs.some(({ kind }) => kind === "incomplete")) return undefined;
    return proofs.map((proof) => (proof.kind === "proven" ? proof.shares : undefined));
  }

  /** Versions of a model that another worker, even one in drain, takes for the default. */
  servedElsewhere(model: string): number[] {
    return this.others.flatMap((worker) =>
      holdingsOf(worker, model)
        .filter((holding) => holding.serving === true)
        .map(({ version }) => version),
    );
  }

  /** Whether another worker, even one in drain, takes this content for the default. */
  isServedElsewhere(version: VersionKey): boolean {
    return this.others.some((worker) => holdingOf(worker, version)?.serving === true);
  }

  /** Whether all workers that partitions are placed on are announced, and no other worker is in drain. */
  get isUndisturbed(): boolean {
    return this.absent.size === 0 && this.others.every(({ state }) => state !== "draining");
  }

  /** What other workers announce of a version by its number. */
  heldElsewhere(model: string, version: number): readonly VersionHolding[] {
    return this.others.flatMap((worker) =>
      holdingsOf(worker, model).filter((holding) => holding.version === version),
    );
  }

  /** Versions of a model that another worker could not load. */
  failedElsewhere(model: string): number[] {
    return this.others.flatMap((worker) =>
      holdingsOf(worker, model)
        .filter((holding) => holding.state === "failed")
        .map(({ version }) => version),
    );
  }
}

/** Those of some workers, not in drain, that say that they hold each partition of a table as ready. */
export function holdersAmong(
  workers: readonly Announcement[],
  { version, table }: { readonly version: VersionKey; readonly table: number },
  counts: (holding: VersionHolding) => boolean = isKept,
): Holders {
  const holders = new Map<number, Map<WorkerId, readonly number[]>>();
  for (const worker of workers) {
    const holding = worker.state === "draining" ? undefined : holdingOf(worker, version);
    if (holding === undefined || !counts(holding)) continue;
    const held = holding.tables.find((each) => each.table === table)?.held ?? [];
    for (const { partition, shares } of held) {
      const byWorker = holders.get(partition) ?? new Map<WorkerId, readonly number[]>();
      holders.set(partition, byWorker.set(worker.workerId, shares));
    }
  }
  return holders;
}

function isKept({ state }: VersionHolding): boolean {
  return state === "loading" || state === "ready";
}

function notAddingUp({ model, version }: VersionKey, source: TableSource): WinnowError {
  return new WinnowError(
    "DATA_LOSS",
    `Refused ${model}/${version}: what workers read of "${source.tensor}" does not give the ` +
      `checksum stored for it in ${source.file}`,
  );
}
