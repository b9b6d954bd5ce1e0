// Questions of `winnow verify` that must be answerable.

import path from "node:path";
import { openModelVersion } from "@winnow/model";
import { expect, test } from "vitest";
import { writeRandomScores } from "../../../../test/models/random-scores.ts";
import { temporaryDirectory } from "../../../../test/temporary-directory.ts";
import { ReferenceModel } from "../oracle/reference-model.ts";
import { RequestPlan } from "./request-plan.ts";

const root = temporaryDirectory();

test("a model that serves one user by a vector is asked with one list of exclusions, not one for each value", async () => {
  const directory = path.join(root, "1");
  writeRandomScores({ form: 2, source: 0, steps: [], rank: 0 }, directory);
  const version = openModelVersion(directory);
  const load = () => Promise.reject(new Error("it has no dense part"));
  const located = { model: "user", version: 1 };
  const reference = await ReferenceModel.load(version, { load } as never, located);
  const plan = new RequestPlan(reference, { model: "user", seed: 5, hasOwnFields: true });

  const lists: number[] = [];
  for (let number = 0; number < 100; number += 1) {
    const { exclude = [], instances } = await plan.request(number);
    lists.push(exclude.length);
    expect(instances).toBe(4);
  }
  version.close();

  expect(new Set(lists)).toEqual(new Set([0, 1]));
});
