// `winnow demo`: writes models to try Winnow with: `movies` (retrieval) and `movies-ranking`, with
// readable titles and embeddings in clusters, so that answers look like recommendations.

import { mkdirSync } from "node:fs";
import path from "node:path";
import { systemClock } from "@winnow/core";
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

/** Writes the demo models. @throws WinnowError ALREADY_EXISTS when they are there */
export async function demo(command: DemoCommand): Promise<string> {
  const directory = path.resolve(command.directory);
  mkdirSync(directory, { recursive: true });
  const onProgress = progressLine({ label: "writing", unit: "rows" }, process.stderr, systemClock);
  await writeDemo(directory, { ...command, onProgress });
  return directory;
}
