// The requests that `winnow up` prints: each model answers its own.

import { mkdirSync, writeFileSync } from "node:fs";
import path from "node:path";
import { writeDemo } from "@winnow/model-writer";
import { expect, test } from "vitest";
import { temporaryDirectory } from "../../../../test/temporary-directory.ts";
import { exampleRequest } from "./example-request.ts";

test("a pipeline's example has keys that its models know: of users, and of an item", async () => {
  const models = temporaryDirectory();
  await writeDemo(models, { items: 300, users: 20, dim: 8, k: 5, seed: 1 });
  mkdirSync(path.join(models, "both", "1"), { recursive: true });
  const stages = `stages:
  - retrieve: { model: movies, k: 5, inputs: { input_1: user }, as: own }
  - retrieve: { model: movies, k: 5, like: movie, as: alike }
  - merge: { weights: { own: 1, alike: 1 } }
`;
  const text = `inputs: { user: string, movie: string }\n${stages}`;
  writeFileSync(path.join(models, "both", "1", "pipeline.yaml"), text);
  const [both, movies] = ["both", "movies"].map((model) => {
    return { model, version: 1, directory: path.join(models, model, "1") };
  });

  const known = await exampleRequest(both!, [both!, movies!]);
  const alone = await exampleRequest(both!, [both!]);

  const instances = [{ user: "1", movie: "The Silent Nebula (1954)" }];
  expect(JSON.parse(known!.body)).toEqual({ instances });
  expect(JSON.parse(alone!.body)).toEqual({ instances: [{ user: "42", movie: "42" }] });
});

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
    writeFileSync(path.join(models, model, "1", "experiment.yaml"), `${text}sticky: ${sticky}\n`);
  }
  const versionOf = (model: string) => ({
    model,
    version: 1,
    directory: path.join(models, model, "1"),
  });
  const versions = ["by-header", "by-input", "movies"].map(versionOf);

  const examples = await Promise.all(versions.map((found) => exampleRequest(found, versions)));
  const alone = await exampleRequest(versions[1]!, []);

  const { body } = examples[2]!;
  expect(JSON.parse(body)).toEqual({ instances: [expect.any(String)] });
  expect(examples).toEqual([{ body, header: "X-User: 42" }, { body }, { body }]);
  expect(alone).toBeUndefined();
});

const recorded = path.resolve(import.meta.dirname, "../../../../test/data/savedmodels");
const exampleOf = (model: string) =>
  exampleRequest({ model, version: 1, directory: path.join(recorded, model, "1") }, []);

test("a model with one value for all instances, such as a k, is asked by columns", async () => {
  const example = await exampleOf("requested_k");

  expect(JSON.parse(example!.body)).toEqual({ inputs: { k: 1, query: [Array(8).fill(1)] } });
});

test("a model that parses records has no example: what is in a record is not known", async () => {
  expect(await exampleOf("tf_example")).toBeUndefined();
});
