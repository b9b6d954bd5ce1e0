// One version as a router sees it: which workers hold what of each table, whether requests may use
// it, and what the status endpoint reports.

import { WinnowError } from "@winnow/core";
import type { ErrorCode, TableSpec, VersionKey, WorkerId } from "@winnow/core";
import type { Announcement, VersionHolding } from "../announcement/announcement.ts";
import { partitionRanges } from "./partition-ranges.ts";
import { routeTable } from "./routed-table.ts";
import type { RoutedTable } from "./routed-table.ts";

/** One content of a version, and what workers hold of it. */
export interface RoutedVersion {
  readonly key: VersionKey;
  /** Whether the version's tables are known (its program has been fetched). */
  readonly known: boolean;
  /** By position in the program; empty until `known`. */
  readonly tables: readonly RoutedTable[];
  /** Workers that can send the program, ascending. */
  readonly holders: readonly WorkerId[];
  readonly status: RoutedStatus;
  /**
   * Why requests may not use the version at all, not even partially: its program is not known, it
   * has never been complete, its checksum shares do not add up, it cannot be run, or it is being warmed
   * up.
   */
  readonly refusal: WinnowError | undefined;
  /** The models that it waits for (a pipeline or an experiment); part of `refusal`. */
  readonly waitsFor: WinnowError | undefined;
  /** Partitions with a replica ÷ partitions, over all tables; 0 while unknown. */
  readonly coverage: number;
  /** Partitions without a replica, as a text for people; `undefined` at full coverage. */
  readonly missing: string | undefined;
  /** Replicas that are not used because their content differs, as texts for the operator. */
  readonly conflicts: readonly string[];
}

/** TensorFlow Serving's words for the life of a version. */
export interface RoutedStatus {
  readonly state: "START" | "LOADING" | "AVAILABLE" | "UNLOADING" | "END";
  readonly error: WinnowError | undefined;
}

/** A worker, and what it announces of the version. */
export interface VersionHolder {
  readonly worker: Announcement;
  readonly holding: VersionHolding;
}

/** Which version, and what is known of it. */
export interface VersionQuestion {
  readonly key: VersionKey;
  readonly tables: readonly TableSpec[] | undefined;
  /** Whether this router warms the version up with replayed requests: clients may not ask it yet. */
  readonly warming: boolean;
  /** Why this router will never be able to run it. */
  readonly unrunnable?: WinnowError | undefined;
  /** The models that it waits for. */
  readonly waitsFor?: WinnowError | undefined;
  readonly previous: RoutedVersion | undefined;
}

/** Routes one version by what its holders (ascending by worker id) announce. */
export function routeVersion(
  { key, tables: specs, warming, unrunnable, waitsFor, previous }: VersionQuestion,
  holders: readonly VersionHolder[],
): RoutedVersion {
  const tables = (specs ?? []).map((spec, table) =>
    routeTable(
      { table, spec, previous: previous?.tables[table] },
      holders.flatMap(({ worker, holding }) => {
        const found = holding.tables.find((each) => each.table === table);
        return found === undefined ? [] : [{ worker, holding: found }];
      }),
    ),
  );
  const partitions = tables.flatMap((table) => table.replicas);
  const answerable = partitions.filter((replicas) => replicas.length > 0).length;
  const programHolders = holders.filter(({ holding }) => holding.state !== "failed");
  const coverage = partitions.length === 0 ? 1 : answerable / partitions.length;
  const missing = missingText(key, tables);
  // A version that waits for other models is not warmed up before these can answer.
  const isWarming = warming && waitsFor === undefined;
  const facts = { known: specs !== undefined, tables, missing, warming: isWarming, previous };
  const refusal = unrunnable ?? refusalOf(key, facts) ?? waitsFor;
  return {
    key,
    known: specs !== undefined,
    tables,
    holders: programHolders.map(({ worker }) => worker.workerId),
    status: statusOf(holders, { refusal, waitsFor, coverage, missing }),
    refusal,
    waitsFor,
    coverage: specs === undefined ? 0 : coverage,
    missing,
    conflicts: tables.flatMap((table) => conflictTexts(key, table)),
  };
}

/** Whether the version is not refused and has full coverage. */
export function isServable(version: RoutedVersion | undefined): version is RoutedVersion {
  return version?.refusal === undefined && version?.coverage === 1;
}

/** Whether the version has full coverage and is verified, even if it is still being warmed up. */
export function isComplete(version: RoutedVersion): boolean {
  const isVerified = version.tables.every((table) => table.verified);
  return version.known && isVerified && version.coverage === 1;
}

/** How messages name a version: `movies/7`. */
function versionText(key: VersionKey): string {
  return `${key.model}/${key.version}`;
}

function missingText(key: VersionKey, tables: readonly RoutedTable[]): string | undefined {
  const texts = tables.flatMap(({ spec, replicas }) => {
    const lost = [...replicas.keys()].filter((partition) => replicas[partition]!.length === 0);
    if (lost.length === 0) return [];
    const verb = lost.length === 1 ? "has" : "have";
    return [`${partitionRanges(lost)} of ${versionText(key)} ${spec.name} ${verb} no replica`];
  });
  return texts.length === 0 ? undefined : texts.join("; ");
}

function refusalOf(
  key: VersionKey,
  facts: Pick<RoutedVersion, "known" | "tables" | "missing"> & {
    readonly warming: boolean;
    readonly previous: RoutedVersion | undefined;
  },
): WinnowError | undefined {
  const name = versionText(key);
  // An error captures its stack, which takes longer than all else here: one that would say the same is kept.
  const refused = (code: ErrorCode, text: string): WinnowError => {
    const before = facts.previous?.refusal;
    const isSame = before?.code === code && before.message === text;
    return isSame ? before : new WinnowError(code, text);
  };
  if (!facts.known) {
    return refused("UNAVAILABLE", `This router has not received the program of ${name} yet`);
  }
  for (const { spec, corruptSource } of facts.tables) {
    if (corruptSource === undefined) continue;
    const source = spec.sources[corruptSource]!;
    return refused(
      "DATA_LOSS",
      `Refused ${name}: what workers read of "${source.tensor}" in ${source.file} does not give the checksum that the version states for it`,
    );
  }
  if (!facts.tables.every((table) => table.verified)) {
    return refused("UNAVAILABLE", `${name} is not complete: ${facts.missing ?? "loading"}`);
  }
  if (facts.warming) return refused("UNAVAILABLE", `${name} is being warmed up`);
  return undefined;
}

/** Whether the version will never be asked: its files are spoilt, or it cannot be run. */
export function isLasting(refusal: WinnowError | undefined): boolean {
  return refusal?.code === "DATA_LOSS" || refusal?.code === "FAILED_PRECONDITION";
}

function statusOf(
  holders: readonly VersionHolder[],
  facts: Pick<RoutedVersion, "refusal" | "waitsFor" | "coverage" | "missing">,
): RoutedStatus {
  const failure = failureOf(holders);
  const has = (state: VersionHolding["state"]): boolean =>
    holders.some(({ holding }) => holding.state === state);
  if (isLasting(facts.refusal)) return { state: "END", error: facts.refusal };
  if (has("unloading") && !has("ready") && !has("loading")) {
    return { state: "UNLOADING", error: undefined };
  }
  if (facts.refusal === undefined && facts.coverage === 1) {
    // The version serves requests; a failure on some worker keeps it from full replication.
    return { state: "AVAILABLE", error: failure };
  }
  if (failure !== undefined && has("failed")) return { state: "END", error: failure };
  const isRead = holders.some(({ holding }) => holding.fingerprint !== undefined);
  return { state: isRead ? "LOADING" : "START", error: lossOf(facts) ?? failure };
}

/** The error of a version that waits for other models, or that was complete and has lost partitions. */
function lossOf({
  refusal,
  waitsFor,
  missing,
}: Pick<RoutedVersion, "refusal" | "waitsFor" | "missing">): WinnowError | undefined {
  if (waitsFor !== undefined && refusal === waitsFor) return waitsFor;
  const isLost = refusal === undefined && missing !== undefined;
  return isLost ? new WinnowError("UNAVAILABLE", missing) : undefined;
}

/** The first of these that any content of a number has is reported for the number. */
const STATES: readonly RoutedStatus["state"][] = [
  "AVAILABLE",
  "LOADING",
  "START",
  "UNLOADING",
  "END",
];

/**
 * A content with the status of its number. A number that can be asked is AVAILABLE, also while
 * another content of it loads or unloads. One whose content is refused is LOADING where another content
 * could be asked, but is not; its error is the content's own, else that of any other content.
 */
export function withSiblings(
  content: RoutedVersion,
  contents: readonly RoutedVersion[],
): RoutedVersion {
  const mayBeAsked: boolean = isServable(content);
  const own = mayBeAsked ? "AVAILABLE" : content.status.state;
  const statusBeside = (other: RoutedVersion): RoutedStatus["state"] =>
    content.refusal !== undefined && isServable(other) ? "LOADING" : other.status.state;
  const states = new Set([own, ...contents.map(statusBeside)]);
  const state = STATES.find((each) => states.has(each)) ?? own;
  const error =
    content.status.error ?? contents.find(({ status }) => status.error !== undefined)?.status.error;
  return { ...content, status: { state, error } };
}

/**
 * The error of the first worker that failed, and how many others failed. A worker that is ready holds all that
 * it should: an error of its own is about a replica more.
 */
function failureOf(holders: readonly VersionHolder[]): WinnowError | undefined {
  const failed = holders.filter(
    ({ holding }) => holding.error !== undefined && holding.state !== "ready",
  );
  const first = failed[0];
  if (first?.holding.error === undefined) return undefined;
  const others = failed.length === 1 ? "" : ` (and ${failed.length - 1} more)`;
  const { code, message } = first.holding.error;
  return new WinnowError(code, `${first.worker.workerId}${others}: ${message}`);
}

function conflictTexts(key: VersionKey, table: RoutedTable): readonly string[] {
  return table.conflicts.map(
    ({ partition, unused }) =>
      `partition ${partition} of ${versionText(key)} ${table.spec.name} differs on ${unused.join(", ")}`,
  );
}
