// Versions that come under load, sound and spoilt, and directories that are not left alone.

import { readFileSync, readdirSync, statSync, truncateSync, writeFileSync } from "node:fs";
import path from "node:path";
import { pause } from "../../cluster/running-cluster.ts";
import { ROUTERS } from "../chaos-cluster.ts";
import { metricsPage } from "../cluster-health.ts";
import { MODEL_NAMES, type ModelName, type SpoilDirectory } from "../answers/model-content.ts";
import { type Scenario, type Stage, drawn, shuffled } from "../scenario.ts";

const DATA_FILE = "variables/variables.data-00000-of-00001";
/** How long a sound version may take until it answers everywhere. */
const SWAPPED_WITHIN_MS = 60_000;

async function untilDefault(stage: Stage, model: ModelName): Promise<void> {
  const version = stage.models.current[model];
  await stage.until(
    `${model} version ${version} answers`,
    async () => {
      const pages = await Promise.all(
        ROUTERS.map((router) => metricsPage(stage.cluster.ports(router).rest)),
      );
      return pages.every((page) => page?.get(`winnow_model_version{model="${model}"}`) === version);
    },
    SWAPPED_WITHIN_MS,
  );
}

/** Publishes a spoilt version and waits long enough for it to be tried. */
function spoilt(name: string, title: string, spoil: SpoilDirectory): Scenario {
  return {
    name,
    title,
    group: "versions",
    topology: "list",
    seconds: 9,
    run: async (stage) => {
      stage.inject("a spoilt version appears");
      const version = stage.models.publishSpoilt("catalog", spoil);
      await stage.hold(7);
      stage.models.withdraw("catalog", version);
    },
  };
}

/** Flips one bit in the middle of a file. */
const flipped =
  (file: string): SpoilDirectory =>
  (directory) => {
    const name = path.join(directory, file);
    const bytes = readFileSync(name);
    bytes[bytes.length >> 1]! ^= 1;
    writeFileSync(name, bytes);
  };

/** Cuts a file in half. */
const halved =
  (file: string): SpoilDirectory =>
  (directory) => {
    const name = path.join(directory, file);
    truncateSync(name, statSync(name).size >> 1);
  };

/** Cuts the vocabulary in half, at the end of a line: every line that is left is a sound one. */
const halvedVocabulary: SpoilDirectory = (directory) => {
  const assets = path.join(directory, "assets");
  for (const file of readdirSync(assets)) {
    const name = path.join(assets, file);
    const lines = readFileSync(name, "utf8").trimEnd().split("\n");
    writeFileSync(name, `${lines.slice(0, lines.length >> 1).join("\n")}\n`);
  }
};

/** Scenarios of this theme. */
export const VERSION_CHANGES: readonly Scenario[] = [
  {
    name: "version-swap",
    title: "new versions of all models, twice",
    group: "versions",
    topology: "list",
    seconds: 18,
    isBrief: true,
    run: async (stage) => {
      for (let round = 0; round < 2; round += 1) {
        for (const model of MODEL_NAMES) {
          stage.inject(`a new version of ${model}`);
          stage.models.publish(model);
          await untilDefault(stage, model);
        }
        await stage.hold(1);
      }
    },
  },
  {
    name: "version-swap-and-kill",
    title: "kill -9 of a worker while a new version is loaded",
    group: "versions",
    topology: "redis",
    seconds: 14,
    run: async (stage) => {
      stage.inject("a new version of catalog");
      stage.models.publish("catalog");
      await stage.hold(1.3);
      const victim = drawn(stage.cluster.workers, stage.random);
      stage.inject(`kill -9 ${victim}`);
      await stage.cluster.process(victim).kill();
      await stage.hold(1);
      stage.cluster.process(victim).restart();
      await untilDefault(stage, "catalog");
    },
  },
  spoilt("version-flipped-bit", "a version with one wrong bit in its data", flipped(DATA_FILE)),
  spoilt("version-cut-data", "a version whose data file is cut in half", halved(DATA_FILE)),
  {
    ...spoilt(
      "version-cut-vocabulary",
      "a version whose vocabulary file is cut in half",
      halvedVocabulary,
    ),
    isBrief: true,
  },
  {
    name: "version-slow-copy",
    title: "a version copied file by file into its final place",
    group: "versions",
    topology: "list",
    seconds: 16,
    run: async (stage) => {
      stage.inject("a copy begins");
      const copy = stage.models.beginCopy("catalog");
      for (const step of copy.steps) {
        step();
        await pause(1200);
      }
      copy.finish();
      await untilDefault(stage, "catalog");
    },
  },
  {
    name: "version-second-copy",
    title: "a version seen half copied, removed, and copied whole",
    group: "versions",
    topology: "list",
    seconds: 20,
    run: async (stage) => {
      const copy = stage.models.beginCopy("catalog");
      for (const done of [2, 4, 5, 7, copy.steps.length]) {
        stage.inject(
          `${Math.min(done, copy.steps.length)} of ${copy.steps.length} halves of files`,
        );
        for (const step of copy.steps.slice(0, done)) step();
        if (done >= copy.steps.length) break;
        await pause(2500);
        copy.remove();
        await pause(1200);
      }
      copy.finish();
      await untilDefault(stage, "catalog");
    },
  },
  {
    name: "version-replaced",
    title: "a version's directory replaced in place, then a rolling restart of the workers",
    group: "versions",
    topology: "list",
    seconds: 42,
    run: async (stage) => {
      stage.inject("the directory is replaced");
      stage.models.replaceInPlace("catalog");
      await stage.hold(3);
      for (const worker of shuffled(stage.cluster.workers, stage.random)) {
        stage.inject(`SIGTERM ${worker}`);
        await stage.terminate(worker);
        stage.cluster.process(worker).restart();
        await stage.hold(3);
      }
    },
  },
];
