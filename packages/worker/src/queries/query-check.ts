// The checks that a query passes before any work is done for it.

import type { FailureReason, TopKAsk, WorkerQuery } from "@winnow/cluster";
import {
  ROW_COLUMN,
  SUMS_ATTRIBUTE,
  VECTOR_ATTRIBUTE,
  WinnowError,
  attributeNamed,
  excerpt,
  functionsInSums,
  isSumsAttribute,
  parseFilterText,
  toWinnowError,
  withoutStack,
} from "@winnow/core";
import type { AttributeSpec, ErrorCode, Filter, Tensor } from "@winnow/core";

import type { OpenedTable, OpenedVersion } from "../compute/compute.ts";
import { loadedOf, openedOf, replicaKey } from "../replicas/replica-set.ts";
import type { HeldVersion } from "../replicas/replica-set.ts";

/** Upper bounds of one query. */
export interface QueryLimits {
  /** Query vectors of one query. */
  readonly queryRowsMax: number;
  readonly kMax: number;
  /** Query vectors × k, which bounds the answer. */
  readonly answerRowsMax: number;
  /** Excluded ids of one query, over all its lists. */
  readonly excludedIdsMax: number;
  /** Keys of one lookup. */
  readonly lookupKeysMax: number;
}

/** Why a query is not answered, with the reason that its reply gives. */
export class QueryRefusal extends WinnowError {
  readonly reason: FailureReason;

  constructor(
    reason: FailureReason,
    { code, message }: { readonly code: ErrorCode; readonly message: string },
  ) {
    super(code, message);
    this.reason = reason;
  }
}

/** Checks a query against the held contents. Gives the opened version if the query may be answered. */
export function checkQuery(
  query: WorkerQuery,
  held: HeldVersion | undefined,
  limits: QueryLimits,
): QueryRefusal | OpenedVersion {
  const opened = held === undefined ? undefined : openedOf(held);
  if (held === undefined || opened === undefined) return noVersion(query);
  const table = opened.tables[query.table];
  if (table === undefined) return invalid(`Table ${query.table} does not exist in this version`);
  const missing = query.partitions.find(
    (partition) => loadedOf(held.replicas.get(replicaKey(query.table, partition))) === undefined,
  );
  if (missing !== undefined) return notOwner(table, missing);
  if (query.partitions.length === 0) return invalid("A query names at least one partition");
  if (!(query.remainingMs > 0)) return expired();
  return checkSizes(query, table, limits) ?? opened;
}

function checkSizes(
  { ask }: WorkerQuery,
  table: OpenedTable,
  limits: QueryLimits,
): QueryRefusal | undefined {
  if (ask.kind === "lookup") {
    if (table.kind !== "keyed") return wrongKind(table, "looked up");
    return over("keys", ask.keys.data.length, limits.lookupKeysMax);
  }
  if (table.kind !== "candidate") return wrongKind(table, "searched");
  const { queries, vectors, k } = ask;
  if (vectors.length !== queries * table.dim) {
    const text = `${queries} query vectors of dim ${table.dim} have ${queries * table.dim} values`;
    return invalid(`${text}; ${vectors.length} were given`);
  }
  if (k < 1 || queries < 1) return invalid(`k (${k}) and queries (${queries}) are at least 1`);
  return (
    checkLists(ask, limits) ??
    over("query vectors", queries, limits.queryRowsMax) ??
    over("k", k, limits.kMax) ??
    over("query vectors × k", queries * k, limits.answerRowsMax) ??
    checkAttributes(ask, table)
  );
}

/** A list is absent, one for all queries, or one for each query. */
function checkLists(
  { queries, excluded, included = [], filters = [] }: TopKAsk,
  limits: QueryLimits,
): QueryRefusal | undefined {
  const lists = { "lists of excluded ids": excluded, "lists of included ids": included, filters };
  for (const [name, { length }] of Object.entries(lists)) {
    if (length > 1 && length !== queries) {
      return invalid(`${length} ${name} do not fit ${queries} queries`);
    }
  }
  return (
    over("excluded ids", idsOf(excluded), limits.excludedIdsMax) ??
    over("included ids", idsOf(included), limits.excludedIdsMax)
  );
}

function idsOf(lists: readonly Tensor[]): number {
  return lists.reduce((sum, { data }) => sum + data.length, 0);
}

/** Whether what is computed of items is known, and sums are asked alone. */
function areKnownTogether(attributes: readonly string[]): boolean {
  if (attributes.some(isSumsAttribute)) return attributes.length === 1;
  return attributes.every((name) => !name.startsWith("$") || name === VECTOR_ATTRIBUTE);
}

/** Filters and names must be those of the table's attributes. Each different filter is checked once. */
function checkAttributes(
  { queries, filters = [], attributes = [] }: TopKAsk,
  table: OpenedTable,
): QueryRefusal | undefined {
  if (filters.length + attributes.length === 0) return undefined;
  if (!areKnownTogether(attributes)) {
    return invalid(`What is computed of items is ${VECTOR_ATTRIBUTE} or ${SUMS_ATTRIBUTE} alone`);
  }
  const known = new Map((table.attributes ?? []).map((spec) => [spec.name, spec]));
  try {
    for (const name of attributes) if (isSumsAttribute(name)) functionsInSums(name, queries);
    for (const text of new Set(filters)) checkNames(parseFilterText(text), known);
    for (const name of attributes) if (!name.startsWith("$")) attributeNamed(name, known);
  } catch (error) {
    return invalid(toWinnowError(error).message);
  }
  return undefined;
}

function checkNames(filter: Filter, known: ReadonlyMap<string, AttributeSpec>): void {
  if (filter.kind === "not") checkNames(filter.of, known);
  else if (filter.kind !== "test") for (const each of filter.of) checkNames(each, known);
  else if (filter.attribute !== ROW_COLUMN) attributeNamed(filter.attribute, known);
}

function over(what: string, count: number, countMax: number): QueryRefusal | undefined {
  if (count <= countMax) return undefined;
  const message = `A query holds at most ${countMax} ${what}, not ${count}; split it`;
  return new QueryRefusal("INTERNAL", { code: "RESOURCE_EXHAUSTED", message });
}

function invalid(message: string): QueryRefusal {
  return new QueryRefusal("INTERNAL", { code: "INVALID_ARGUMENT", message });
}

function wrongKind(table: OpenedTable, verb: string): QueryRefusal {
  return invalid(`Table "${table.name}" is a ${table.kind} table and cannot be ${verb}`);
}

function expired(): QueryRefusal {
  const message = "No time was left when the query arrived";
  return withoutStack(() => new QueryRefusal("EXPIRED", { code: "DEADLINE_EXCEEDED", message }));
}

function notOwner(table: OpenedTable, partition: number): QueryRefusal {
  const message = `Partition ${partition} of table "${table.name}" is not held here`;
  return new QueryRefusal("NOT_OWNER", { code: "UNAVAILABLE", message });
}

function noVersion({ version }: WorkerQuery): QueryRefusal {
  const { model, version: number, fingerprint } = version;
  const message =
    `Version ${number} of model "${excerpt(model)}" with content ` +
    `${fingerprint.slice(0, 12)} is not held here`;
  return new QueryRefusal("NO_VERSION", { code: "UNAVAILABLE", message });
}
