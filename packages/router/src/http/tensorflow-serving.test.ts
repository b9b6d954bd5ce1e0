// Every recorded request to TensorFlow Serving, sent to a listening server over a socket. The
// recorded cases live beside the repository; without them this suite is skipped and says so.

import { existsSync, readFileSync } from "node:fs";
import path from "node:path";
import { isDeepStrictEqual } from "node:util";
import { silentLogger, systemClock } from "@winnow/core";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { FixturePredictor, type FixtureWeights } from "./fixture-predictor.cases.ts";
import { send, type Received } from "./http-client.cases.ts";
import { createHttpServer, type HttpServer } from "./http-server.ts";
import type { HttpOptions } from "./http-settings.ts";

interface RecordedCase {
  readonly id: string;
  readonly about: string;
  readonly level: string;
  readonly server_flags?: string;
  readonly request: {
    readonly method: string;
    readonly path: string;
    readonly headers?: Readonly<Record<string, string>>;
    readonly body?: string | null;
    readonly body_b64?: string | null;
    readonly body_gen?: { prefix: string; repeat: string; times: number; suffix: string };
  };
  readonly expect: {
    readonly status: number;
    readonly body_exact?: string;
    readonly body_regex?: string;
    readonly json?: unknown;
    readonly ignore_keys?: readonly string[];
    readonly headers?: Readonly<Record<string, string | null>>;
  };
}

/** Winnow answers these paths itself; with `ownPaths` off it answers as TensorFlow Serving. */
const OWN_PATHS = new Set(["url-healthz"]);

const recorded = path.resolve(import.meta.dirname, "../../../../../shared/tfserving");
const isRecorded = existsSync(path.join(recorded, "cases.json"));
const read = (file: string): unknown => JSON.parse(readFileSync(path.join(recorded, file), "utf8"));
const cases = isRecorded ? (read("cases.json") as readonly RecordedCase[]) : [];

const SERVERS: Readonly<Record<string, HttpOptions>> = {
  plain: {},
  cors: { cors: true },
  strict: { ownPaths: false },
};
const running = new Map<string, { server: HttpServer; port: number }>();

describe.skipIf(!isRecorded)("TensorFlow Serving's recorded answers, in ../shared", () => {
  beforeAll(async () => {
    const weights = read("fixtures/fixture.json") as FixtureWeights;
    const metrics = {
      text: async () => "# TYPE :tensorflow:serving:request_count counter\n",
    };
    for (const [name, options] of Object.entries(SERVERS)) {
      const server = createHttpServer(new FixturePredictor(weights), options, {
        clock: systemClock,
        random: Math.random,
        log: silentLogger,
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
    expect(cases.length).toBeGreaterThan(100);
  });

  test.each(cases)("$id [$level]: $about", async (recordedCase) => {
    const { port } = running.get(serverFor(recordedCase))!;
    const { request, expect: expected } = recordedCase;

    const received = await send(port, {
      method: request.method,
      path: request.path,
      headers: request.headers ?? {},
      body: bodyOf(request),
    });

    expect(differences(received, expected)).toEqual([]);
  });
});

/** What an answer lacks of what was recorded. */
function differences(received: Received, expected: RecordedCase["expect"]): unknown[] {
  const { body_exact: exact, body_regex: pattern, json, ignore_keys: ignoredKeys } = expected;
  const ignored = new Set(ignoredKeys);
  const checks: readonly (readonly [string, unknown, unknown])[] = [
    ["status", received.status, expected.status],
    ["body", exact === undefined ? undefined : received.text, exact],
    ["pattern", pattern === undefined || patternOf(pattern).test(received.text), true],
    [
      "json",
      json === undefined ? undefined : comparable(JSON.parse(received.text), ignored),
      comparable(json, ignored),
    ],
    ...Object.entries(expected.headers ?? {}).map(
      ([name, value]) => [name, received.headers[name] ?? null, value] as const,
    ),
  ];
  return checks.filter(([, got, wanted]) => !isDeepStrictEqual(got, wanted));
}

function serverFor(recordedCase: RecordedCase): string {
  if (recordedCase.server_flags?.includes("cors") === true) return "cors";
  return OWN_PATHS.has(recordedCase.id) ? "strict" : "plain";
}

function bodyOf(request: RecordedCase["request"]): Buffer | undefined {
  const { body, body_b64: packed, body_gen: generated } = request;
  if (packed !== undefined && packed !== null) return Buffer.from(packed, "base64");
  if (generated !== undefined) {
    const { prefix, repeat, times, suffix } = generated;
    return Buffer.from(prefix + repeat.repeat(times) + suffix);
  }
  return body === undefined || body === null ? undefined : Buffer.from(body);
}

function patternOf(text: string): RegExp {
  const isMultiline = text.startsWith("(?m)");
  return new RegExp(isMultiline ? text.slice(4) : text, isMultiline ? "m" : "s");
}

/** The value without ignored keys, its numbers as float32. */
function comparable(value: unknown, ignored: ReadonlySet<string>): unknown {
  if (typeof value === "number") return Math.fround(value);
  if (Array.isArray(value)) return value.map((item) => comparable(item, ignored));
  if (typeof value !== "object" || value === null) return value;
  const kept = Object.entries(value).filter(([key]) => !ignored.has(key));
  return Object.fromEntries(kept.map(([key, item]) => [key, comparable(item, ignored)]));
}
