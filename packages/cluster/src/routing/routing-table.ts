// Which workers can be asked for which partitions: an immutable table, replaced whole, numbered by
// its generation. A pure function builds it from what workers announce on their streams.
//
//   announcements ─▶ newest incarnations ─▶ versions ─▶ tables ─▶ partitions ─▶ replicas, plan
//                                      └──▶ rollout: which version answers by default

import { generation } from "@winnow/core";
import type {
  Fingerprint,
  Generation,
  Incarnation,
  TableSpec,
  VersionKey,
  WinnowError,
  WorkerId,
} from "@winnow/core";
import type { Announcement } from "../announcement/announcement.ts";
import { holdingsOf, newestIncarnations } from "../announcement/announcement.ts";
import { swapReplicasOf } from "../placement/replication.ts";
import type { Replication } from "../placement/replication.ts";
import {
  contentInUse,
  isSameVersion,
  rolloutsOf,
  servingVersion,
} from "../default-version/rollout.ts";
import type { VersionRollout } from "../default-version/rollout.ts";
import { isLasting, isServable, routeVersion, withSiblings } from "./routed-version.ts";
import type { RoutedVersion, VersionHolder } from "./routed-version.ts";

/** One snapshot of the cluster as a router uses it. */
export interface RoutingTable {
  readonly generation: Generation;
  readonly workers: ReadonlyMap<WorkerId, RoutedWorker>;
  readonly models: ReadonlyMap<string, RoutedModel>;
}

/** A worker that can be asked. */
export interface RoutedWorker {
  readonly id: WorkerId;
  readonly incarnation: Incarnation;
  readonly address: string;
  readonly draining: boolean;
  /** Whether it has not said yet which versions there are: it has just started. */
  readonly isLooking: boolean;
}

/** All versions of one model. */
export interface RoutedModel {
  readonly name: string;
  /** Descending by number; one per number: of several contents, the one in use. */
  readonly versions: readonly RoutedVersion[];
  /** Every content of every number: also those before and after the one in use. */
  readonly contents: readonly RoutedVersion[];
  /** The default version; `undefined` while none may serve. */
  readonly serving: VersionKey | undefined;
}

/** What a routing table is built from beside the announcements of connected workers. */
export interface RoutingContext extends Replication {
  /** Tables of the versions whose programs have been fetched. */
  readonly tables: ReadonlyMap<Fingerprint, readonly TableSpec[]>;
  /** Versions that are being warmed up with replayed requests, or will be: requests of clients may not use them yet. */
  readonly warming?: ReadonlySet<Fingerprint>;
  /** Versions that this router can never run, and why. */
  readonly unrunnable?: ReadonlyMap<Fingerprint, WinnowError>;
  /** Versions that may not be asked before other models exist, and what they lack. */
  readonly waiting?: ReadonlyMap<Fingerprint, WinnowError>;
  /** Members of the cluster, connected or not: the rollout considers all of them. */
  readonly members?: readonly Announcement[];
  /** By model, the version that served before this router restarted, if it was saved. */
  readonly saved?: ReadonlyMap<string, VersionKey>;
}

/** Builds the next table. The same input gives the same table, one generation after `previous`. */
export function buildRoutingTable(
  announcements: readonly Announcement[],
  context: RoutingContext,
  previous?: RoutingTable,
): RoutingTable {
  const workers = newestIncarnations(announcements);
  const names = new Set(workers.flatMap((worker) => worker.versions.map(({ model }) => model)));
  for (const [name, model] of previous?.models ?? []) {
    if (model.serving !== undefined && !isBeingUnloaded(model)) names.add(name);
  }
  return {
    generation: generation((previous?.generation ?? 0) + 1),
    workers: new Map(workers.map((worker) => [worker.workerId, routedWorker(worker)])),
    models: new Map(
      [...names]
        .toSorted((a, b) => (a < b ? -1 : 1))
        .map((name) => [name, routeModel(name, { workers, context, previous })]),
    ),
  };
}

/** Whether workers were unloading all that there was of a model: once none announces it, it is gone, not lost. */
function isBeingUnloaded({ versions }: RoutedModel): boolean {
  return versions.length > 0 && versions.every(({ status }) => ENDING.has(status.state));
}

const ENDING: ReadonlySet<RoutedVersion["status"]["state"]> = new Set(["UNLOADING", "END"]);

/** The version of a model with this number, in the content that is in use. */
export function routedVersion(
  table: RoutingTable,
  model: string,
  version: number,
): RoutedVersion | undefined {
  return table.models.get(model)?.versions.find((each) => each.key.version === version);
}

interface ModelQuestion {
  readonly workers: readonly Announcement[];
  readonly context: RoutingContext;
  readonly previous: RoutingTable | undefined;
}

function routeModel(name: string, { workers, context, previous }: ModelQuestion): RoutedModel {
  const before = previous?.models.get(name);
  const contents = routeContents(name, { workers, context, previous });
  const serving = chooseServing(name, { workers, context, previous }, contents);
  const inUse = (before?.versions ?? []).filter(isServable);
  const byNumber = new Map<number, RoutedVersion[]>();
  for (const content of contents) {
    const { version } = content.key;
    byNumber.set(version, [...(byNumber.get(version) ?? []), content]);
  }
  const replication = swapReplicasOf(name, context);
  const rollouts = (): readonly VersionRollout[] =>
    rolloutsOf(name, announced({ workers, context }), { replication });
  const versions = [...byNumber].map(([number, ofNumber]) => {
    if (ofNumber.length === 1) return ofNumber[0]!;
    const used = inUse.find(({ key }) => key.version === number)?.key;
    const chosen = serving?.version === number ? serving : used && contentInUse(used, rollouts());
    const content = ofNumber.find(({ key }) => chosen && isSameVersion(key, chosen));
    return withSiblings(content ?? ofNumber.find(isServable) ?? ofNumber[0]!, ofNumber);
  });
  const descending = versions.toSorted((a, b) => b.key.version - a.key.version);
  return { name, serving, versions: descending, contents };
}

/** Every content of every version, descending by coverage, then by holders. */
function routeContents(name: string, question: ModelQuestion): readonly RoutedVersion[] {
  const { workers, context, previous } = question;
  const holders = new Map<string, VersionHolder[]>();
  const keys = new Map<string, VersionKey>();
  for (const worker of workers) {
    for (const holding of holdingsOf(worker, name)) {
      const print = holding.fingerprint ?? ("" as Fingerprint);
      const text = `${holding.version}/${print}`;
      keys.set(text, { model: name, version: holding.version, fingerprint: print });
      holders.set(text, [...(holders.get(text) ?? []), { worker, holding }]);
    }
  }
  const known = previous?.models.get(name)?.contents ?? [];
  const announced = [...keys]
    .map(([text, key]) =>
      routeVersion(
        {
          key,
          tables: context.tables.get(key.fingerprint),
          warming: context.warming?.has(key.fingerprint) === true,
          unrunnable: context.unrunnable?.get(key.fingerprint),
          waitsFor: context.waiting?.get(key.fingerprint),
          previous: known.find((version) => isSameVersion(version.key, key)),
        },
        [...holders.get(text)!, ...unreadHolders(key, holders)],
      ),
    )
    .toSorted((a, b) => b.coverage - a.coverage || b.holders.length - a.holders.length);
  return [...announced, ...keptContent(name, question, announced)];
}

/**
 * The content that was the default, if no worker holds it any more and none that is announced can be asked: a
 * version without tables needs only its program, which this router has. Workers give up a version of a
 * pipeline as soon as they have read the next one, whether or not the models that the next one names exist.
 */
function keptContent(
  name: string,
  { context, previous }: ModelQuestion,
  announced: readonly RoutedVersion[],
): readonly RoutedVersion[] {
  const before = previous?.models.get(name);
  const { serving } = before ?? {};
  if (serving === undefined || announced.length === 0 || announced.some(isServable)) return [];
  if (announced.some(({ key }) => isSameVersion(key, serving))) return [];
  const kept = before?.contents.find(({ key }) => isSameVersion(key, serving));
  const tables = context.tables.get(serving.fingerprint);
  if (!isServable(kept) || tables?.length !== 0) return [];
  const waitsFor = context.waiting?.get(serving.fingerprint);
  return [routeVersion({ key: serving, tables, warming: false, waitsFor, previous: kept }, [])];
}

/** Workers that failed to read the directory, and so name no content: they count as holders of every content. */
function unreadHolders(
  key: VersionKey,
  holders: ReadonlyMap<string, readonly VersionHolder[]>,
): readonly VersionHolder[] {
  if (key.fingerprint === "") return [];
  const unread = holders.get(`${key.version}/`) ?? [];
  return unread.filter(({ holding }) => holding.state === "failed");
}

/** The rollout's choice once this router can serve it; until then the previous version. */
function chooseServing(
  name: string,
  { workers, context, previous }: ModelQuestion,
  contents: readonly RoutedVersion[],
): VersionKey | undefined {
  const current = previous?.models.get(name)?.serving ?? context.saved?.get(name);
  const refused = contents.filter(({ refusal }) => isLasting(refusal));
  const chosen = servingVersion(name, announced({ workers, context }), {
    current,
    replication: swapReplicasOf(name, context),
    refused: new Set(refused.map((version) => version.key.fingerprint)),
  });
  if (chosen === undefined || current === undefined || isSameVersion(chosen, current))
    return chosen;
  const successor = contents.find((version) => isSameVersion(version.key, chosen));
  return isServable(successor) ? chosen : current;
}

/** Announcements of connected workers, and of members that may not be connected. */
function announced({
  workers,
  context,
}: Pick<ModelQuestion, "workers" | "context">): readonly Announcement[] {
  return [...workers, ...(context.members ?? [])];
}

function routedWorker(worker: Announcement): RoutedWorker {
  return {
    id: worker.workerId,
    incarnation: worker.incarnation,
    address: worker.address,
    draining: worker.state === "draining",
    isLooking: worker.state === "starting" && worker.versions.length === 0,
  };
}
