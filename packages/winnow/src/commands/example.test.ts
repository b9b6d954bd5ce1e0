// The requests that `winnow up` prints: each model answers its own.

import { mkdirSync, writeFileSync } from "node:fs";
import path from "node:path";
import { writeDemo } from "@winnow/model-writer";
import { expect, test } from "vitest";
import { temporaryDirectory } from "../../../../test/temporary-directory.ts";
import { exampleRequest } from "./example.ts";

test("an experiment's example is one of an arm's, with the header by which an arm is chosen", async () => {
  const models = temporaryDirectory();
  await writeDemo(models, { items: 300, users: 20, dim: 8, k: 5, seed: 1 });
  const experiments = [
    { model: "by-header", sticky: "{ header: X-User }" },
    { model: "by-input", sticky: "{ input: input_1 }" },
  ];
  for (const { model, sticky } of experiments) {
    mkdirSync(path.join(models, model, "1"), { recursive: true });
    const text = `arms:\n  - { name: a, model: gone, weight: 1 }\n  - { name: b, model: movies, weight: 1 }\n`;
    writeFileSync(
      path.join(models, model, "1", "experiment.yaml"),
      `${text}sticky: ${sticky}\n`,
    );
  }
  const versionOf = (model: string) => ({
    model,
    version: 1,
    directory: path.join(models, model, "1"),
  });
  const versions = ["by-header", "by-input", "movies"].map(versionOf);

  const examples = await Promise.all(versions.map((found) => exampleRequest(found, versions)));
  const alone = await exampleRequest(versions[1]!, []);

  const { instances } = examples[2]!;
  expect(JSON.parse(instances)).toEqual([expect.any(String)]);
  expect(examples).toEqual([
    { instances, header: "X-User: 42" },
    { instances },
    { instances },
  ]);
  expect(alone).toEqual({ instances: "[]" });
});
