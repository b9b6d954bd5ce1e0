// Models to try Winnow with: `movies/1` recommends to users "1", "2", …, `movies-ranking/1` rates a
// movie for a user. Movies have attributes, by which they can be filtered. Same seed, same bytes.

import { existsSync } from "node:fs";
import { mkdir } from "node:fs/promises";
import path from "node:path";
import { StringColumn, WinnowError, makeDirectory } from "@winnow/core";
import { clusterDirections, movieEmbeddings, userEmbeddings } from "./demo-embeddings.ts";
import { writeDemoAttributes } from "./demo-attributes.ts";
import { CLUSTERS, titleOf } from "./demo-titles.ts";
import type { WrittenLayer, WrittenLookup } from "./model-description.ts";
import { writeRankingModel, writeRetrievalModel } from "./saved-model-writer.ts";

/** What the demo holds; every field has a default. */
export interface DemoOptions {
  /** Movies; 10,000 by default. */
  readonly items?: number | undefined;
  /** Values per embedding; 32 by default. */
  readonly dim?: number | undefined;
  /** Users, called "1" to "N"; 1,000 by default. */
  readonly users?: number | undefined;
  /** Recommendations per user; 10 by default. */
  readonly k?: number | undefined;
  /** 1 by default. */
  readonly seed?: number | undefined;
  /** Called after each piece of rows, with the number of rows written so far and in all. */
  readonly onProgress?: ((doneRows: number, allRows: number) => void) | undefined;
}

/**
 * Entries of a vocabulary in the graph, at most; a larger one is a text file, as graphs end at 2
 * GiB.
 */
const GRAPH_VOCABULARY_MAX = 100_000;
/** A movie and a user agree on a cluster when their similarities to it sum to more than this. */
const AGREEMENT = 0.8;
const NEUTRAL_RATING = 2.5;
const RATING_SLOPE = 1.4;

/**
 * Writes `movies/1` and `movies-ranking/1` below `directory`.
 * @throws WinnowError ALREADY_EXISTS, INVALID_ARGUMENT
 */
export async function writeDemo(directory: string, options: DemoOptions = {}): Promise<void> {
  const { items = 10_000, dim = 32, users = 1000, k = 10, seed = 1 } = options;
  if (![items, dim, users, k].every((size) => Number.isInteger(size) && size >= 1) || k > items) {
    const sizes = `${items} items, ${dim} values, ${users} users, k ${k}`;
    throw new WinnowError("INVALID_ARGUMENT", `Cannot write a demo of ${sizes}`);
  }
  const retrieval = path.join(directory, "movies", "1");
  const ranking = path.join(directory, "movies-ranking", "1");
  for (const version of [retrieval, ranking]) {
    if (existsSync(version)) {
      const text = `Cannot write the demo: ${version} exists; remove it or choose another directory`;
      throw new WinnowError("ALREADY_EXISTS", text);
    }
    await makeDirectory(path.dirname(version));
  }
  const allRows = 2 * (items + users);
  let doneRows = 0;
  const onRows = (rows: number): void => {
    doneRows += rows;
    options.onProgress?.(doneRows, allRows);
  };
  const movieRows = { seed, dim, count: items, onRows };
  const userRows = { seed, dim, count: users, unknownRows: 1, onRows };
  const titles = columnOf(items, titleOf);
  const userIds = columnOf(users, (user) => String(user + 1));
  writeRetrievalModel(retrieval, {
    users: { ...lookupOf(userIds), embedding: userEmbeddings(userRows) },
    candidates: movieEmbeddings({ ...movieRows, unknownRows: 0 }),
    identifiers: titles,
    k,
  });
  const beside = path.join(retrieval, "assets.extra");
  await mkdir(beside);
  await writeDemoAttributes(path.join(beside, "items.jsonl"), titles);
  writeRankingModel(ranking, {
    users: { ...lookupOf(userIds), embedding: userEmbeddings(userRows) },
    items: { ...lookupOf(titles), embedding: movieEmbeddings({ ...movieRows, unknownRows: 1 }) },
    layers: ratingLayers(clusterDirections(seed, dim), dim),
  });
}

function lookupOf(vocabulary: StringColumn): Omit<WrittenLookup, "embedding"> {
  return { vocabulary, place: vocabulary.length > GRAPH_VOCABULARY_MAX ? "asset" : "graph" };
}

/**
 * One hidden unit per cluster, above 0 if user and movie both lean to it; ratings grow with their
 * sum.
 */
function ratingLayers(directions: Float32Array, dim: number): WrittenLayer[] {
  const kernel = new Float32Array(2 * dim * CLUSTERS);
  for (let cluster = 0; cluster < CLUSTERS; cluster += 1) {
    for (let at = 0; at < dim; at += 1) {
      const value = directions[cluster * dim + at]!;
      kernel[at * CLUSTERS + cluster] = value;
      kernel[(dim + at) * CLUSTERS + cluster] = value;
    }
  }
  return [
    { kernel, bias: new Float32Array(CLUSTERS).fill(-AGREEMENT), relu: true },
    {
      kernel: new Float32Array(CLUSTERS).fill(RATING_SLOPE),
      bias: Float32Array.of(NEUTRAL_RATING),
      relu: false,
    },
  ];
}

const encoder = new TextEncoder();

/** A column of `count` strings, made without an object per string. */
function columnOf(count: number, textOf: (index: number) => string): StringColumn {
  const offsets = new Uint32Array(count + 1);
  let bytes = new Uint8Array(count * 32 + 256);
  for (let index = 0; index < count; index += 1) {
    const at = offsets[index]!;
    if (bytes.length - at < 256) {
      const grown = new Uint8Array(bytes.length * 2);
      grown.set(bytes);
      bytes = grown;
    }
    offsets[index + 1] = at + encoder.encodeInto(textOf(index), bytes.subarray(at)).written;
  }
  return new StringColumn(offsets, bytes.slice(0, offsets[count]));
}
