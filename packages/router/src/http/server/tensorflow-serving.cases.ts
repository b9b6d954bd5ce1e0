// Requests to TensorFlow Serving and what it answered, recorded beside the repository; sent to any
// listening server, be it one in this process or a router of a real cluster.

import { existsSync, readFileSync } from "node:fs";
import path from "node:path";
import { isDeepStrictEqual } from "node:util";
import { send, type Received } from "../fixtures/http-client.ts";

/** One request and its answer. */
export interface RecordedCase {
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

const recorded = path.resolve(import.meta.dirname, "../../../../../../shared/tfserving");

/** Whether the recorded cases are here. */
export const isRecorded: boolean = existsSync(path.join(recorded, "cases.json"));

/** The folder of the models that the cases ask. */
export const fixtures: string = path.join(recorded, "fixtures");

/** All cases; none where they are not here. */
export const recordedCases: readonly RecordedCase[] = isRecorded
  ? (JSON.parse(readFileSync(path.join(recorded, "cases.json"), "utf8")) as readonly RecordedCase[])
  : [];

/** Whether a case is about a server that answers CORS requests. */
export function needsCors(recordedCase: RecordedCase): boolean {
  return recordedCase.server_flags?.includes("cors") === true;
}

/** Sends a case's request; what the answer has other than recorded, as [what, got, wanted]. */
export async function differencesFrom(
  port: number,
  { request, expect }: RecordedCase,
): Promise<unknown[]> {
  const received = await send(port, {
    method: request.method,
    path: request.path,
    headers: request.headers ?? {},
    body: bodyOf(request),
  });
  return differences(received, expect);
}

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
