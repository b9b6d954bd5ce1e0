// `winnow demo`: writes models to try Winnow with: `movies` (retrieval) and `movies-ranking`, with
// readable titles and embeddings in clusters, so that answers look like recommendations; and `home-feed`, a
// pipeline over both.

import { existsSync, mkdirSync, writeFileSync } from "node:fs";
import path from "node:path";
import { WinnowError, systemClock } from "@winnow/core";
import { writeDemo } from "@winnow/model-writer";
import { progressLine } from "../progress-line.ts";

/** How large the demo is and where it goes. */
export interface DemoCommand {
  readonly directory: string;
  readonly items: number;
  readonly dim: number;
  readonly users: number;
  readonly k: number;
  readonly seed: number;
}

const PIPELINE = `# Movies for grown-ups, rated for the user, of different genres.
inputs: { user_id: string }
stages:
  - retrieve: { model: movies, k: 100, inputs: { input_1: user_id } }
  - filter: { kids: false, year: { $gte: 1970 } }
  - rank:
      model: movies-ranking
      inputs: { user_id: request.user_id, movie_title: item }
  - diversify: { at_most: 3, per: genres }
  - limit: 5
`;

/** Writes the demo models. @throws WinnowError ALREADY_EXISTS when they are there */
export async function demo(command: DemoCommand): Promise<string> {
  const directory = path.resolve(command.directory);
  mkdirSync(directory, { recursive: true });
  const pipeline = path.join(directory, "home-feed", "1");
  if (existsSync(pipeline)) {
    const text = `Cannot write the demo: ${pipeline} exists; remove it or choose another directory`;
    throw new WinnowError("ALREADY_EXISTS", text);
  }
  const onProgress = progressLine({ label: "writing", unit: "rows" }, process.stderr, systemClock);
  await writeDemo(directory, { ...command, onProgress });
  mkdirSync(pipeline, { recursive: true });
  writeFileSync(path.join(pipeline, "pipeline.yaml"), PIPELINE);
  return directory;
}
