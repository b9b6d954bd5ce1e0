// What `winnow up` tells of models whose names and items others wrote, and how it asks a router that it has started.

import { nextLoopTurn } from "@winnow/core";
import { expect, test, vi } from "vitest";
import { ManualClock } from "../../../../test/doubles/manual-clock.ts";
import { RestClient } from "../access/rest-client.ts";
import type { RestAnswer } from "../access/rest-client.ts";
import { assertAnswered, readyText } from "./up.ts";

const cluster = { processIds: new Map(), workerMetricsUrls: [], url: "http://x" };
const versionOf = (model: string) => ({ model, version: 1, directory: `/models/${model}/1` });

test("a model's name moves no cursor, ends no line and turns no direction", () => {
  const model = "a\u001b[31m\nready b\u202e";

  const text = readyText(cluster, {
    versions: [versionOf(model)],
    states: [{ model, state: "END", error: "no\nname" }],
    examples: [undefined],
  });

  expect(text).toContain("a\ufffd[31m ready b\ufffd, version 1: no name\n");
});

test("an example holds the same item, with such characters escaped", () => {
  const item = "a\u009b31m\u202eb\u{e0041}";

  const text = readyText(cluster, {
    versions: [versionOf("m")],
    states: [{ model: "m", state: "AVAILABLE", error: "" }],
    examples: [{ body: JSON.stringify({ instances: [item] }) }],
  });

  const [, body = ""] = /curl -d '(.*)' http/.exec(text) ?? [];
  expect(body).toMatch(/^[ -~]*$/);
  expect(JSON.parse(body)).toEqual({ instances: [item] });
});

test("what waits is told from what failed", () => {
  const text = readyText(cluster, {
    versions: [versionOf("feed"), versionOf("spoilt")],
    states: [
      { model: "feed", state: "LOADING", error: "The pipeline waits: no model" },
      { model: "spoilt", state: "END", error: "no file" },
    ],
    examples: [undefined, undefined],
  });

  expect(text).toContain("waits   feed, version 1: The pipeline waits: no model\n");
  expect(text).toContain("failed  spoilt, version 1: no file\n");
});

test("an example has the header that an experiment needs, quoted for a shell", () => {
  const text = readyText(cluster, {
    versions: [versionOf("feed")],
    states: [{ model: "feed", state: "AVAILABLE", error: "" }],
    examples: [{ body: '{"instances":["it\'s"]}', header: "X-User's: 42" }],
  });

  const line = String.raw`curl -H 'X-User'\''s: 42' -d '{"instances":["it'\''s"]}' http://x/v1`;
  expect(text).toContain(line);
});

/** A router of which only these answers are known: its statuses, or that it was not there. */
function routerOf(...answers: readonly (number | undefined)[]) {
  const clock = new ManualClock();
  const client = new RestClient();
  const left = answers.values();
  const ask = vi.spyOn(client, "ask").mockImplementation(() => {
    const status = left.next().value;
    if (status === undefined) return Promise.reject(new Error("read ECONNRESET"));
    return Promise.resolve({ status, text: "", header: () => undefined } satisfies RestAnswer);
  });
  const outcome = assertAnswered({ url: "http://x", client }, clock).then(
    () => "answered",
    (error: unknown) => String(error),
  );
  const end = async (): Promise<string> => {
    while (ask.mock.calls.length < answers.length) {
      clock.advance(100);
      await nextLoopTurn();
    }
    return outcome;
  };
  return { end };
}

test("a router that ends once it listens is asked again, and what it then says counts", async () => {
  expect(await routerOf(undefined, undefined, 200).end()).toBe("answered");
  expect(await routerOf(undefined, 401).end()).toContain("which wants a key");
  const never = await routerOf(...Array.from({ length: 100 }, () => undefined)).end();
  expect(never).toContain("The router listens at http://x and does not answer");
});
