// The models order: the list of models, policies and labels that an operator ordered over gRPC in
// place of what processes were started with. It is desired state: kept until another order replaces
// it, and followed by every worker and router, also by those that were away, restart, or join
// later.
//
// An order is a text that never changes once it is given. Of two orders the one with the higher
// number is in force; of two that got the same number at the same time, the one with the greater
// id, which is a digest of the text. So any two copies show by themselves which of them is
// outdated. A withdrawal is an order without models: every process goes back to its own flags and
// file.
//
//   {"format":1,"cluster":"default","number":7,"by":"router","at":"2026-01-31T12:00:00.000Z",
//    "models":[{"name":…,"base_path":…,"policy":{"latest":1},"labels":{"stable":3}}]}   or "models":null
//
// Copies are signed as `trust/cluster-secret.ts` says. The text comes from clients of a router and
// names paths in a worker's file system, so everything in it is bounded here; which paths a worker
// accepts is the worker's own decision.

import { createHash } from "node:crypto";
import { ANNOUNCED_NAME, WinnowError, excerpt } from "@winnow/core";

/** One model to serve. */
export interface OrderedModel {
  readonly model: string;
  /** Absolute. */
  readonly basePath: string;
  readonly policy:
    | { readonly kind: "latest"; readonly count: number }
    | { readonly kind: "all" }
    | { readonly kind: "specific"; readonly versions: readonly number[] };
  /** Label → version. */
  readonly labels: ReadonlyMap<string, number>;
}

/** The whole list of models; `undefined`: each process serves the models it was started with. */
export type OrderedModels = readonly OrderedModel[] | undefined;

/** Identifies an order; workers announce the mark of the one that they follow. */
export interface OrderMark {
  /** From 1; grows with every order. */
  readonly number: number;
  /** 16 hexadecimal digits of a digest of the order's text. */
  readonly id: string;
}

/** An order as it is kept. */
export interface ModelsOrder extends OrderMark {
  readonly models: OrderedModels;
  /** Who gave the order, and when by that machine's clock; for people only. */
  readonly by: string;
  readonly at: string;
  /** The text of which `id` is the digest, and which is signed. */
  readonly text: string;
}

/** What `writeOrder` writes. */
export type OrderWords = Omit<ModelsOrder, "id" | "text"> & { readonly cluster: string };

const FORMAT = 1;
/** What an order may list: models, and versions of a `specific` policy and labels of each. */
export const ORDER_LIMITS = { models: 512, versions: 1024, labels: 1024 } as const;
const TEXT_CHARACTERS_MAX = 256;
const PATH_CHARACTERS_MAX = 4096;
/** Largest number that is accepted. */
export const ORDER_NUMBER_MAX: number = 2 ** 48;
/**
 * Largest text of an order.
 *
 * @internal tests read it
 */
export const ORDER_CHARACTERS_MAX: number = 2 ** 20;
const MARK_ID = /^[0-9a-f]{16}$/;

/** Whether `order` replaces `other`; `undefined`, no order, is replaced by any. */
export function isAbove(order: OrderMark, other: OrderMark | undefined): boolean {
  if (other === undefined) return true;
  return order.number === other.number ? order.id > other.id : order.number > other.number;
}

/** Whether both are the same order. */
export function isSameOrder(a: OrderMark | undefined, b: OrderMark | undefined): boolean {
  return a?.number === b?.number && a?.id === b?.id;
}

/**
 * Checks a mark of any source; number 0 with an empty id is none.
 * @throws RangeError if malformed
 */
export function readMark(number: number, id: string): OrderMark | undefined {
  if (number === 0 && id === "") return undefined;
  const isNumber = isWhole(number, 1, ORDER_NUMBER_MAX);
  if (!isNumber || !MARK_ID.test(id)) throw new RangeError("no mark of an order");
  return { number, id };
}

/** Writes an order. @throws WinnowError INVALID_ARGUMENT for values out of bounds */
export function writeOrder(words: OrderWords): ModelsOrder {
  const { cluster, number, by, at, models } = words;
  const written = { format: FORMAT, cluster, number, by, at, models: models?.map(writeModel) };
  // oxlint-disable-next-line unicorn/no-null -- what JSON has for "none"
  return readOrder(JSON.stringify({ ...written, models: written.models ?? null }), cluster);
}

/**
 * Reads an order from a text of any source.
 * @throws WinnowError INVALID_ARGUMENT for a malformed order or values out of bounds,
 * PERMISSION_DENIED for an order of another cluster
 */
export function readOrder(text: string, cluster: string): ModelsOrder {
  if (text.length > ORDER_CHARACTERS_MAX) {
    const most = `at most ${ORDER_CHARACTERS_MAX} characters`;
    throw new WinnowError("INVALID_ARGUMENT", `An order has ${most}, not ${text.length}`);
  }
  const fields = objectOf(parsed(text));
  const { format, number, by, at, models } = fields;
  if (format !== FORMAT) throw malformed("format");
  if (fields["cluster"] !== cluster) {
    throw new WinnowError("PERMISSION_DENIED", "An order of another cluster");
  }
  if (typeof number !== "number" || !isWhole(number, 0, ORDER_NUMBER_MAX)) {
    throw malformed("number");
  }
  if (typeof by !== "string" || by.length > TEXT_CHARACTERS_MAX) throw malformed("by");
  if (typeof at !== "string" || at.length > TEXT_CHARACTERS_MAX) throw malformed("at");
  const ordered = models === null ? undefined : readModels(models);
  const id = createHash("sha256").update(text).digest("hex").slice(0, 16);
  return { number, id, models: ordered, by, at, text };
}

function writeModel({ model, basePath, policy, labels }: OrderedModel): object {
  const named = { name: model, base_path: basePath, labels: Object.fromEntries(labels) };
  switch (policy.kind) {
    case "latest":
      return { ...named, policy: { latest: policy.count } };
    case "all":
      return { ...named, policy: { all: true } };
    case "specific":
      return { ...named, policy: { specific: policy.versions } };
  }
}

function readModels(models: unknown): readonly OrderedModel[] {
  if (!Array.isArray(models)) throw malformed("models");
  if (models.length > ORDER_LIMITS.models) {
    const text = `At most ${ORDER_LIMITS.models} models can be ordered, not ${models.length}`;
    throw new WinnowError("INVALID_ARGUMENT", text);
  }
  const names = new Set<string>();
  return models.map((each: unknown) => {
    const model = readModel(objectOf(each));
    if (names.has(model.model)) throw refused(model.model, "is listed twice");
    names.add(model.model);
    return model;
  });
}

function readModel({ name, base_path: basePath, policy, labels }: Fields): OrderedModel {
  if (typeof name !== "string") throw malformed("name");
  if (!ANNOUNCED_NAME.test(name)) {
    throw refused(
      name,
      "needs another name: 1 to 255 letters, digits, _, -, ., :, [ and ], not . or ..",
    );
  }
  if (typeof basePath !== "string" || !basePath.startsWith("/") || basePath.includes("\0")) {
    throw refused(name, "needs an absolute base path");
  }
  if (basePath.length > PATH_CHARACTERS_MAX) {
    throw refused(name, `has a base path of more than ${PATH_CHARACTERS_MAX} characters`);
  }
  return {
    model: name,
    basePath,
    policy: readPolicy(name, objectOf(policy)),
    labels: readLabels(name, objectOf(labels)),
  };
}

function readPolicy(model: string, { latest, all, specific }: Fields): OrderedModel["policy"] {
  if (all === true) return { kind: "all" };
  if (latest !== undefined) {
    if (isWhole(latest, 1, 2 ** 32 - 1)) return { kind: "latest", count: latest };
    throw refused(model, "wants no version: the count of the latest is at least 1");
  }
  if (!Array.isArray(specific)) throw refused(model, "has no version policy");
  if (specific.length === 0 || specific.length > ORDER_LIMITS.versions) {
    throw refused(model, `names ${specific.length} versions, not 1 to ${ORDER_LIMITS.versions}`);
  }
  const versions = specific.map((version: unknown) => readVersion(model, version));
  return { kind: "specific", versions };
}

function readLabels(model: string, labels: Fields): ReadonlyMap<string, number> {
  const entries = Object.entries(labels);
  const isLong = entries.some(([label]) => label === "" || label.length > TEXT_CHARACTERS_MAX);
  if (entries.length > ORDER_LIMITS.labels || isLong) {
    const bounds = `at most ${ORDER_LIMITS.labels} labels of 1 to ${TEXT_CHARACTERS_MAX} characters`;
    throw refused(model, `can have ${bounds}`);
  }
  return new Map(entries.map(([label, version]) => [label, readVersion(model, version)]));
}

function readVersion(model: string, version: unknown): number {
  if (isWhole(version, 0, Number.MAX_SAFE_INTEGER)) return version;
  throw refused(model, "names a version that is no whole number below 2^53");
}

function isWhole(value: unknown, min: number, max: number): value is number {
  return Number.isSafeInteger(value) && (value as number) >= min && (value as number) <= max;
}

type Fields = Readonly<Record<string, unknown>>;

function parsed(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch (cause) {
    throw new WinnowError("INVALID_ARGUMENT", "An order is not JSON", { cause });
  }
}

function objectOf(value: unknown): Fields {
  if (typeof value === "object" && value !== null && !Array.isArray(value)) return value as Fields;
  throw malformed("an object");
}

function malformed(field: string): WinnowError {
  return new WinnowError("INVALID_ARGUMENT", `Malformed order: ${field}`);
}

function refused(model: string, why: string): WinnowError {
  return new WinnowError("INVALID_ARGUMENT", `Model "${excerpt(model)}" ${why}`);
}
