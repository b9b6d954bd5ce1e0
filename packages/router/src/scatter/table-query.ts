// One question to one table within one request, until it is answered or cannot be. A generation that cannot
// answer is left as a whole (I1): its partial answers are dropped, and the question is planned anew on the
// current table, for the same version and within the same deadline.

import type { Generation, Signal, VersionKey } from "@winnow/core";
import { WinnowError } from "@winnow/core";
import { isSameVersion, partitionRanges } from "@winnow/cluster";
import type { RoutedTable, RoutedVersion, RoutingTable } from "@winnow/cluster";
import type { ScatterParts } from "./scatter.ts";
import { scatter } from "./scatter.ts";
import type {
  RequestScope,
  ScatterAttempt,
  ScatterResult,
  TableAnswer,
  TableQuestion,
} from "./scatter-question.ts";
import type { ConcurrencyLimiter } from "../admission/concurrency-limiter.ts";
import type { SliceSizes } from "../admission/slice-sizes.ts";

/** The routing tables after the one that a request began with. */
export interface LaterTables {
  /** Waits for a later table; `undefined` when none that is acceptable comes in time. */
  nextTable(
    wanted: {
      readonly after: Generation;
      readonly waitMs: number;
      readonly accept: (table: RoutingTable) => boolean;
    },
    signal: Signal,
  ): Promise<RoutingTable | undefined>;
  /** For how many more ms to wait for partitions that a version has just lost. */
  lossWaitMs(version: VersionKey): number;
}

/** What a query needs of the router. */
export interface TableQueryParts extends ScatterParts {
  readonly tables: LaterTables;
  readonly limiter: ConcurrencyLimiter;
  readonly sliceSizes: SliceSizes;
}

/**
 * Asks all partitions of the question: on the generation of the scope, and while that cannot answer for all of
 * them, on later ones (`replansMax`). The scope keeps the generation that was used last.
 * @throws WinnowError UNAVAILABLE naming model, version, table and partitions without a replica; the worker's
 * own error for a question at fault; the signal's reason when aborted
 */
export async function queryTable(
  parts: TableQueryParts,
  question: TableQuestion,
  scope: RequestScope,
): Promise<TableAnswer> {
  let kind = "first" as ScatterAttempt["kind"];
  for (let plans = 1; ; plans += 1) {
    const table = routedTable(scope.table, scope.version, question.tableNumber);
    if (isLostFor(table, question)) {
      const later = await tableAfterLoss(parts, question, scope);
      if (later === undefined) return await lastChance(parts, question, { scope, kind });
      scope.table = later;
      continue;
    }
    const result = unrefused(await ask(parts, question, { scope, kind, allowPartial: false }));
    if (result.state === "answered") return accept(scope, question, result);
    kind = result.isCostly || kind === "retry" ? "retry" : "again";
    const isDone = result.isCostly && question.idBytes > parts.settings.resendBytesMax;
    const mayReplan = plans <= parts.settings.replansMax && !isDone;
    const waitMs = parts.settings.replanWaitMs;
    const later = mayReplan ? await laterTable(parts, question, { scope, waitMs }) : undefined;
    if (later === undefined) {
      const { lost, reason } = result;
      return await lastChance(parts, question, { scope, kind, failed: { lost, reason } });
    }
    parts.observer.replan?.(scope.version.model);
    scope.table = later;
  }
}

interface LastChance {
  readonly scope: RequestScope;
  readonly kind: ScatterAttempt["kind"];
  /** The partitions that the last attempt could not answer for, and why. */
  readonly failed?: { readonly lost: readonly number[]; readonly reason: string };
}

/** No table can answer for everything: takes a partial answer, if the client accepts one. */
async function lastChance(
  parts: TableQueryParts,
  question: TableQuestion,
  { scope, kind, failed }: LastChance,
): Promise<TableAnswer> {
  const table = routedTable(scope.table, scope.version, question.tableNumber);
  const lost = question.partitions.filter(
    (partition) => (table?.replicas[partition] ?? []).length === 0,
  );
  if (!question.allowPartial || lost.length === question.partitions.length) {
    throw lostError(scope, question, failed ?? { lost, reason: "no replica" });
  }
  const result = unrefused(await ask(parts, question, { scope, kind, allowPartial: true }));
  if (result.state === "answered" && result.partials.length > 0) {
    return accept(scope, question, result);
  }
  throw lostError(scope, question, failed ?? { lost: result.lost, reason: "no replica" });
}

/** One scatter on the table of the scope; the table must have the version. */
function ask(
  parts: TableQueryParts,
  question: TableQuestion,
  { scope, kind, allowPartial }: Omit<ScatterAttempt, "table" | "lives">,
): Promise<ScatterResult> {
  const table = routedTable(scope.table, scope.version, question.tableNumber)!;
  const lives = scope.table.workers;
  return scatter(parts, question, { scope, table, lives, kind, allowPartial });
}

/** @throws the error of a question that workers refuse */
function unrefused(result: ScatterResult): Exclude<ScatterResult, { state: "refused" }> {
  if (result.state === "refused") throw result.error;
  return result;
}

/** The version with exactly this content in a table. */
function contentOf(table: RoutingTable, version: VersionKey): RoutedVersion | undefined {
  return table.models
    .get(version.model)
    ?.contents.find((candidate) => isSameVersion(candidate.key, version));
}

function routedTable(
  table: RoutingTable,
  version: VersionKey,
  tableNumber: number,
): RoutedTable | undefined {
  return contentOf(table, version)?.tables[tableNumber];
}

/** Whether the table itself says that some of the partitions have no replica. */
function isLostFor(table: RoutedTable | undefined, question: TableQuestion): boolean {
  return question.partitions.some((partition) => (table?.replicas[partition] ?? []).length === 0);
}

/**
 * The table to use after one that lacks partitions: the current one, if it has them. If they were lost just
 * now, a request that does not accept a partial answer waits for a later table.
 */
async function tableAfterLoss(
  parts: TableQueryParts,
  question: TableQuestion,
  scope: RequestScope,
): Promise<RoutingTable | undefined> {
  const waitMs = question.allowPartial ? 0 : parts.tables.lossWaitMs(scope.version);
  return await laterTable(parts, question, { scope, waitMs });
}

function laterTable(
  parts: TableQueryParts,
  question: TableQuestion,
  { scope, waitMs }: { readonly scope: RequestScope; readonly waitMs: number },
): Promise<RoutingTable | undefined> {
  const wanted = {
    after: scope.table.generation,
    waitMs,
    accept: (table: RoutingTable) =>
      !isLostFor(routedTable(table, scope.version, question.tableNumber), question),
  };
  return parts.tables.nextTable(wanted, question.signal);
}

function accept(scope: RequestScope, question: TableQuestion, answer: TableAnswer): TableAnswer {
  if (question.countsCoverage) {
    scope.partitionsAsked += question.partitions.length;
    scope.partitionsAnswered += question.partitions.length - answer.lost.length;
  }
  return answer;
}

function lostError(
  scope: RequestScope,
  question: TableQuestion,
  failure: { readonly lost: readonly number[]; readonly reason: string },
): WinnowError {
  const { model, version } = scope.version;
  const spec = routedTable(scope.table, scope.version, question.tableNumber)?.spec;
  const table = spec === undefined ? `table ${question.tableNumber}` : `table "${spec.name}"`;
  const ranges = partitionRanges(failure.lost);
  return new WinnowError(
    "UNAVAILABLE",
    `No worker answers for ${ranges} of ${table} of model ${model} version ${version} ` +
      `(${failure.reason}); try again`,
  );
}
