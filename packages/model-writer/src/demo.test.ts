// The demo's models: the same for the same seed, with unique titles and answers in clusters.

import path from "node:path";
import { describe, expect, test } from "vitest";
import { openModelVersion } from "@winnow/model";
import type { ModelVersion, PartitionReader } from "@winnow/model";
import { temporaryDirectory } from "../../../test/temporary-directory.ts";
import { CLUSTERS, clusterOf, titleOf } from "./demo-titles.ts";
import { writeDemo } from "./demo.ts";

const root = temporaryDirectory();
const SIZES = { items: 500, dim: 16, users: 40, k: 5, seed: 3 };

function readersOf(version: ModelVersion, kind: "candidate" | "keyed"): PartitionReader[] {
  const table = version.program.tables.findIndex((spec) => spec.kind === kind);
  const partitions = version.program.tables[table]?.partitions ?? 0;
  return Array.from({ length: partitions }, (_, at) => version.openPartition(table, at));
}

/** The rows of all partitions, with the movie's number for candidates. */
function rowsOf(readers: readonly PartitionReader[]): Float32Array[] {
  return readers.flatMap((reader) => {
    const values = Float32Array.from([...reader.chunks()].flatMap((chunk) => Array.from(chunk)));
    return Array.from({ length: reader.rows }, (_, row) =>
      values.subarray(row * reader.dim, (row + 1) * reader.dim),
    );
  });
}

describe("titleOf()", () => {
  test("gives a million movies a million titles", () => {
    const titles = new Set(Array.from({ length: 1_000_000 }, (_, movie) => titleOf(movie)));

    expect(titles.size).toBe(1_000_000);
  });

  test("gives readable titles with a year", () => {
    expect(titleOf(17)).toMatch(/^[\p{L}\- ]+ \(\d{4}\)$/u);
  });
});

describe("writeDemo()", () => {
  test("writes the same models from one seed, and others from another", async () => {
    const [first, second, third] = ["a", "b", "c"].map((name) => path.join(root, name)) as [
      string,
      string,
      string,
    ];
    await writeDemo(first, SIZES);
    await writeDemo(second, SIZES);
    await writeDemo(third, { ...SIZES, seed: 4 });

    const rows = [first, second, third].map((directory) =>
      rowsOf(readersOf(openModelVersion(path.join(directory, "movies/1")), "candidate")).join(),
    );

    expect(rows[1]).toBe(rows[0]);
    expect(rows[2]).not.toBe(rows[0]);
    await expect(writeDemo(first, SIZES)).rejects.toThrow(/exists; remove it/);
  });

  test("recommends movies of the clusters a user likes", async () => {
    const directory = path.join(root, "clusters");
    await writeDemo(directory, SIZES);
    const version = openModelVersion(path.join(directory, "movies/1"));
    const movies = rowsOf(readersOf(version, "candidate"));
    const user = rowsOf(readersOf(version, "keyed").slice(0, 1))[1] ?? new Float32Array();

    const scored = movies.map((movie, number) => ({
      number,
      score: movie.reduce((sum, value, at) => sum + value * (user[at] ?? 0), 0),
    }));
    const best = scored.toSorted((a, b) => b.score - a.score).slice(0, 10);

    expect(new Set(best.map(({ number }) => clusterOf(number))).size).toBeLessThan(CLUSTERS / 4);
  });

  test("says how far it is, and refuses impossible sizes", async () => {
    const directory = path.join(root, "progress");
    const reports: [number, number][] = [];

    await writeDemo(directory, { ...SIZES, onProgress: (done, all) => reports.push([done, all]) });

    expect(reports.at(-1)).toEqual([1080, 1080]);
    await expect(writeDemo(root, { items: 3, k: 10 })).rejects.toThrow(
      "Cannot write a demo of 3 items",
    );
  });
});
