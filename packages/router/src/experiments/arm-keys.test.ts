// Large batches leave other requests their turns while arms are chosen.

import { stringTensor } from "@winnow/core";
import type { Experiment } from "@winnow/core";
import { expect, test } from "vitest";
import { ManualClock } from "../../../../test/doubles/manual-clock.ts";
import { RequestContext } from "../request-context.ts";
import { armOf } from "./arm-choice.ts";
import { armsOfRequest } from "./arm-keys.ts";

test("a batch of many hashes is done in steps, a thousand hashes each", () => {
  const arms = Array.from({ length: 16 }, (_, at) => ({ name: `a${at}`, model: "m", weight: 1 }));
  const experiment: Experiment = { arms, sticky: { by: "input", name: "user" }, salt: "feed" };
  const users = Array.from({ length: 1000 }, (_, at) => `user-${at}`);
  const context = new RequestContext(new ManualClock(), { timeoutMs: 1000 });
  context.finish();
  const signature = {
    name: "serving_default",
    methodName: "",
    inputs: [],
    outputs: [],
    constants: [],
    steps: [],
  };
  const request = { signature, inputs: new Map([["user", stringTensor(users)]]), context };

  const steps = armsOfRequest(experiment, request, users.length);
  let turns = 0;
  let step = steps.next();
  for (; step.done !== true; step = steps.next()) turns += 1;

  expect(turns).toBe(Math.floor((16 * 1000) / 1024));
  expect(step.value).toEqual(users.map((user) => armOf(arms, "feed", Buffer.from(user))));
});
