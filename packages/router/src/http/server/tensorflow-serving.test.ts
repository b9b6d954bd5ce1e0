// Every recorded request to TensorFlow Serving, sent to a listening server over a socket. The
// recorded cases live beside the repository; without them this suite is skipped and says so.

import { readFileSync } from "node:fs";
import path from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { FixturePredictor, type FixtureWeights } from "../doubles/fixture-predictor.ts";
import { seededEnvironment } from "../../../../../test/doubles/seeded-environment.ts";
import { createHttpServer, type HttpServer } from "./http-server.ts";
import type { HttpOptions } from "../http-settings.ts";
import {
  type RecordedCase,
  differencesFrom,
  fixtures,
  isRecorded,
  needsCors,
  recordedCases,
} from "./tensorflow-serving.cases.ts";

/** Winnow answers these paths itself; with `ownPaths` off it answers as TensorFlow Serving. */
const OWN_PATHS = new Set(["url-healthz", "url-v2"]);

const SERVERS: Readonly<Record<string, HttpOptions>> = {
  plain: {},
  cors: { cors: true },
  strict: { ownPaths: false },
};
const running = new Map<string, { server: HttpServer; port: number }>();

describe.skipIf(!isRecorded)("TensorFlow Serving's recorded answers, in ../shared", () => {
  beforeAll(async () => {
    const text = readFileSync(path.join(fixtures, "fixture.json"), "utf8");
    const weights = JSON.parse(text) as FixtureWeights;
    const metrics = {
      text: async () => "# TYPE :tensorflow:serving:request_count counter\n",
    };
    for (const [name, options] of Object.entries(SERVERS)) {
      const server = createHttpServer(new FixturePredictor(weights), options, {
        ...seededEnvironment,
        metrics: name === "plain" ? metrics : undefined,
      });
      const { port } = await server.listen({ host: "127.0.0.1", port: 0 });
      running.set(name, { server, port });
    }
  });

  afterAll(async () => {
    for (const { server } of running.values()) await server.close();
  });

  test("are all here", () => {
    expect(recordedCases.length).toBeGreaterThan(100);
  });

  test.each(recordedCases)("$id [$level]: $about", async (recordedCase) => {
    const { port } = running.get(serverFor(recordedCase))!;

    expect(await differencesFrom(port, recordedCase)).toEqual([]);
  });
});

function serverFor(recordedCase: RecordedCase): string {
  if (needsCors(recordedCase)) return "cors";
  return OWN_PATHS.has(recordedCase.id) ? "strict" : "plain";
}
