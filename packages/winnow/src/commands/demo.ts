// `winnow demo`: writes models to try Winnow with: `movies` (retrieval) and `movies-ranking`, with
// readable titles and embeddings in clusters, so that answers look like recommendations; `home-feed`, a
// pipeline over both, and `similar-movies`, one that finds movies like a movie.

import { existsSync } from "node:fs";
import { mkdir, rm, writeFile } from "node:fs/promises";
import path from "node:path";
import { WinnowError, makeDirectory, systemClock, writeFailureText } from "@winnow/core";
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

const PIPELINES: Readonly<Record<string, string>> = {
  "home-feed": `# Movies for grown-ups, rated for the user, of different genres.
inputs: { user_id: string }
stages:
  - retrieve: { model: movies, k: 100, inputs: { input_1: user_id } }
  - filter: { kids: false, year: { $gte: 1970 } }
  - rank:
      model: movies-ranking
      inputs: { user_id: request.user_id, movie_title: item }
  - diversify: { at_most: 3, per: genres }
  - limit: 5
`,
  "similar-movies": `# Movies like a movie, in the table that \`movies\` searches.
inputs: { movie_title: string }
stages:
  - retrieve: { model: movies, k: 5, like: movie_title }
`,
};

/**
 * Writes the demo models.
 * @throws WinnowError ALREADY_EXISTS when they are there, FAILED_PRECONDITION where they cannot be written
 */
export async function demo(command: DemoCommand): Promise<string> {
  const directory = path.resolve(command.directory);
  const versions = ["movies", "movies-ranking", ...Object.keys(PIPELINES)].map((name) =>
    path.join(directory, name, "1"),
  );
  const present = versions.find((version) => existsSync(version));
  if (present !== undefined) {
    const text = `Cannot write the demo: ${present} exists; remove it or choose another directory`;
    throw new WinnowError("ALREADY_EXISTS", text);
  }
  try {
    for (const version of versions) await makeDirectory(path.dirname(version));
    const onProgress = progressLine(
      { label: "writing", unit: "rows" },
      process.stderr,
      systemClock,
    );
    await writeDemo(directory, { ...command, onProgress });
    for (const [name, text] of Object.entries(PIPELINES)) {
      const pipeline = path.join(directory, name, "1");
      await mkdir(pipeline);
      await writeFile(path.join(pipeline, "pipeline.yaml"), text);
    }
  } catch (error) {
    throw await unwritten(directory, versions, error);
  }
  return directory;
}

/** The error of a demo that could not be written; what there is of it is removed. */
async function unwritten(
  directory: string,
  versions: readonly string[],
  error: unknown,
): Promise<unknown> {
  const { code } = error as NodeJS.ErrnoException;
  if (error instanceof WinnowError || code === undefined) return error;
  await Promise.allSettled(versions.map((version) => rm(version, { recursive: true })));
  const why = writeFailureText(error, { folder: existsSync(directory) ? directory : "." });
  const text = `Cannot write the demo to ${directory}: ${why}; choose another directory`;
  return new WinnowError("FAILED_PRECONDITION", text, { cause: error });
}
