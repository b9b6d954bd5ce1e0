// What the demo says of its movies, for filters: genre by cluster, the year of the title, and made-up ratings
// and lengths.

import { open } from "node:fs/promises";
import type { StringColumn } from "@winnow/core";
import { clusterOf } from "./demo-titles.ts";

/** By cluster. */
const GENRES: readonly string[] = (
  "science-fiction sea crime western fantasy romance horror war " +
  "spy music sport animals comedy technology nature heist"
).split(" ");
const LINES_AT_ONCE = 10_000;

/** Writes `items.jsonl`: a line for each title, in their order. */
export async function writeDemoAttributes(file: string, titles: StringColumn): Promise<void> {
  const handle = await open(file, "w");
  try {
    for (let first = 0; first < titles.length; first += LINES_AT_ONCE) {
      const end = Math.min(titles.length, first + LINES_AT_ONCE);
      let text = "";
      for (let movie = first; movie < end; movie += 1) {
        text += `${JSON.stringify(attributesOf(titles.textAt(movie), movie))}\n`;
      }
      await handle.writeFile(text); // `write` may write a part of it on a disk that is nearly full.
    }
  } finally {
    await handle.close();
  }
}

function attributesOf(id: string, movie: number): object {
  const mixed = Math.imul(movie + 1, 0x9e3779b1) >>> 0;
  const genre = GENRES[clusterOf(movie)]!;
  const second = GENRES[mixed % GENRES.length]!;
  return {
    id,
    year: Number(id.slice(-5, -1)),
    genres: second === genre ? [genre] : [genre, second],
    rating: (10 + ((mixed >>> 8) % 40)) / 10,
    minutes: 75 + ((mixed >>> 16) % 90),
    kids: genre === "animals" || genre === "fantasy",
  };
}
