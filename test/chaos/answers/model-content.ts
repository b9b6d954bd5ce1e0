// The models of a chaos run: what each version holds, as pure functions of its name and number, and
// how it is written as a directory. Whoever knows the functions can tell every answer (see
// `answer-oracle.ts`) without having read a file, and no two versions share an item, a row or a user.
//
//   catalog   retrieval, 1,200 items of uneven float32, the vocabulary in a file; some rows are twins
//   boutique  retrieval, 40 items behind a dense layer: lists that exclusions make shorter than k
//   ranking   two lookups and a dense part
//
// Values before a dense part are small multiples of powers of two: float32 adds and multiplies them
// without rounding in any order, so the engine's order of summation cannot show in an answer.

import { mkdirSync, renameSync } from "node:fs";
import path from "node:path";
import { StringColumn } from "@winnow/core";
import { type WrittenLayer, writeRankingModel, writeRetrievalModel } from "@winnow/model-writer";

/** A model of the run. */
export type ModelName = "catalog" | "boutique" | "ranking";

/** All of them. */
export const MODEL_NAMES: readonly ModelName[] = ["catalog", "boutique", "ranking"];

/** What lies in a version directory; a directory that is replaced in place has another edition. */
export interface VersionContent {
  readonly model: ModelName;
  readonly version: number;
  readonly edition: number;
}

/** Sizes of a retrieval model. */
interface RetrievalShape {
  readonly rows: number;
  /** Values of an item's row. */
  readonly dim: number;
  readonly users: number;
  /** Items per answer where a request does not say. */
  readonly k: number;
}

/** Sizes of the two retrieval models. */
export const RETRIEVAL_SHAPES: Readonly<Record<"catalog" | "boutique", RetrievalShape>> = {
  catalog: { rows: 1200, dim: 16, users: 240, k: 10 },
  boutique: { rows: 40, dim: 8, users: 60, k: 20 },
};

/** Sizes of the ranking model. */
export const RANKING_SHAPE = { users: 80, items: 120, dim: 8, hidden: 8 } as const;

/** Rows `r` and `r + TWIN_DISTANCE` of the catalog are equal for the first `TWINS` rows: ties. */
const TWINS = 60;
const TWIN_DISTANCE = 600;

/** Names the content: seed of its values, part of its items' names. */
export function contentKey({ model, version, edition }: VersionContent): string {
  return `${model}/${version}/${edition}`;
}

/** A user whom the vocabulary of every version holds; one beyond `users` is unknown to it. */
export const userName = (user: number): string => `user ${user}`;

/** An item's name tells the version and edition it belongs to. */
export function itemName({ version, edition }: VersionContent, row: number): string {
  return `v${version}e${edition} item ${row}`;
}

/** Embeddings of the users, unknown ones first, `[users + 1, dim]`. */
export function userRows(content: VersionContent): Float32Array {
  if (content.model === "ranking") {
    return exactValues(content, "users", (RANKING_SHAPE.users + 1) * RANKING_SHAPE.dim);
  }
  const { users, dim } = RETRIEVAL_SHAPES[content.model];
  return content.model === "boutique"
    ? exactValues(content, "users", (users + 1) * dim)
    : unevenValues(content, "users", (users + 1) * dim);
}

/** Rows of the candidates, `[rows, dim]`. */
export function candidateRows(content: VersionContent): Float32Array {
  const { rows, dim } = RETRIEVAL_SHAPES[content.model === "boutique" ? "boutique" : "catalog"];
  const values = unevenValues(content, "candidates", rows * dim);
  if (content.model === "catalog") {
    values.copyWithin(TWIN_DISTANCE * dim, 0, TWINS * dim);
  }
  return values;
}

/** Embeddings of the ranked items, unknown ones first, `[items + 1, dim]`. */
export function rankedItemRows(content: VersionContent): Float32Array {
  return exactValues(content, "items", (RANKING_SHAPE.items + 1) * RANKING_SHAPE.dim);
}

/** The dense part of a model: none for the catalog. */
export function denseLayers(content: VersionContent): readonly WrittenLayer[] {
  if (content.model === "catalog") return [];
  if (content.model === "boutique") {
    const { dim } = RETRIEVAL_SHAPES.boutique;
    return [layer(content, { inputs: dim, units: dim, name: "tower", relu: false })];
  }
  const { dim, hidden } = RANKING_SHAPE;
  return [
    layer(content, { inputs: 2 * dim, units: hidden, name: "hidden", relu: true }),
    layer(content, { inputs: hidden, units: 1, name: "score", relu: false }),
  ];
}

interface LayerShape {
  readonly inputs: number;
  readonly units: number;
  readonly name: string;
  readonly relu: boolean;
}

function layer(content: VersionContent, { inputs, units, name, relu }: LayerShape): WrittenLayer {
  return {
    kernel: exactValues(content, `${name} kernel`, inputs * units),
    bias: exactValues(content, `${name} bias`, units),
    relu,
  };
}

/** Changes a complete version directory before it appears under its number. */
export type SpoilDirectory = (directory: string) => void;

/** Where a version of a model lies below the models' folder. */
export function versionDirectory(models: string, { model, version }: VersionContent): string {
  return path.join(models, model, String(version));
}

/** Puts a version into the models' folder in one step, complete or as `spoil` leaves it. */
export function publishContent(
  models: string,
  content: VersionContent,
  spoil?: SpoilDirectory,
): void {
  const beside = path.join(models, `.${content.model}-${content.version}-${content.edition}`);
  writeContent(beside, content);
  spoil?.(beside);
  mkdirSync(path.join(models, content.model), { recursive: true });
  renameSync(beside, versionDirectory(models, content));
}

/** Writes a version as the directory `directory`, which must not exist. */
export function writeContent(directory: string, content: VersionContent): void {
  if (content.model === "ranking") writeRanking(directory, content);
  else writeRetrieval(directory, content, RETRIEVAL_SHAPES[content.model]);
}

const users = (count: number): StringColumn =>
  StringColumn.fromText(Array.from({ length: count }, (_, user) => userName(user)));

function writeRetrieval(
  directory: string,
  content: VersionContent,
  { rows, dim, users: userCount, k }: RetrievalShape,
): void {
  writeRetrievalModel(directory, {
    users: {
      vocabulary: users(userCount),
      embedding: { rows: userCount + 1, dim, pieces: () => [userRows(content)] },
      place: content.model === "catalog" ? "asset" : "graph",
    },
    tower: denseLayers(content),
    candidates: { rows, dim, pieces: () => [candidateRows(content)] },
    identifiers: StringColumn.fromText(
      Array.from({ length: rows }, (_, row) => itemName(content, row)),
    ),
    k,
  });
}

function writeRanking(directory: string, content: VersionContent): void {
  const { users: userCount, items, dim } = RANKING_SHAPE;
  const titles = Array.from({ length: items }, (_, item) => titleName(item));
  writeRankingModel(directory, {
    users: {
      vocabulary: users(userCount),
      embedding: { rows: userCount + 1, dim, pieces: () => [userRows(content)] },
    },
    items: {
      vocabulary: StringColumn.fromText(titles),
      embedding: { rows: items + 1, dim, pieces: () => [rankedItemRows(content)] },
    },
    layers: denseLayers(content),
  });
}

/** An item of the ranking model, by the same name in every version; unknown beyond `items`. */
export const titleName = (item: number): string => `title ${item}`;

/** Values in (−3, 3) with all bits of a float32's mantissa. */
function unevenValues(content: VersionContent, table: string, count: number): Float32Array {
  const random = numbersOf(`${contentKey(content)}/${table}`);
  return Float32Array.from({ length: count }, () => 6 * random() - 3);
}

/** Multiples of 1/8 in [−2, 2]: sums of products of two stay far below 2²⁴ steps. */
function exactValues(content: VersionContent, table: string, count: number): Float32Array {
  const random = numbersOf(`${contentKey(content)}/${table}`);
  return Float32Array.from({ length: count }, () => (Math.floor(random() * 33) - 16) / 8);
}

/** Uniform in [0, 1), the same for the same name: mulberry32 seeded by FNV-1a. */
export function numbersOf(name: string): () => number {
  let state = 0x811c9dc5;
  for (const character of name) state = Math.imul(state ^ character.charCodeAt(0), 0x01000193);
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let value = Math.imul(state ^ (state >>> 15), 1 | state);
    value = (value + Math.imul(value ^ (value >>> 7), 61 | value)) ^ value;
    return ((value ^ (value >>> 14)) >>> 0) / 2 ** 32;
  };
}
