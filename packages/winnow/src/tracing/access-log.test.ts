// Which requests are logged, and what a line tells.

import type { Fields, Logger } from "@winnow/core";
import type { AnsweredCall, AnsweredRequest } from "@winnow/router";
import { describe, expect, test } from "vitest";
import {
  type AccessLogged,
  accessLoggedOf,
  withAccessLog,
  withGrpcAccessLog,
} from "./access-log.ts";

const SOUND: AnsweredRequest = {
  requestId: "abc-1",
  api: "predict",
  model: "movies",
  version: "3",
  status: 200,
  code: "OK",
  instances: 2,
  coverage: 1,
  answerBytes: 310,
  elapsedMs: 1.234_56,
};
const FAILED: AnsweredRequest = {
  ...SOUND,
  version: undefined,
  status: 404,
  code: "NOT_FOUND",
  instances: 0,
};

function logOf(logged: AccessLogged, requests: readonly AnsweredRequest[], chances = [0.5]) {
  const lines: (Fields | undefined)[] = [];
  const told: AnsweredRequest[] = [];
  const ignore = (): void => undefined;
  const info = (_event: string, fields?: Fields): void => void lines.push(fields);
  const log: Logger = { debug: ignore, info, warn: ignore, error: ignore };
  let at = 0;
  const random = (): number => chances[at++ % chances.length]!;
  const observer = { answered: (request: AnsweredRequest) => void told.push(request) };
  const both = withAccessLog(observer, logged, { log, random, starterId: "winnow-starter-7" });
  for (const request of requests) both.answered(request);
  return { lines, told };
}

describe("the access log", () => {
  test("has no line for what the command that started the router asks, and one for any other with its id", () => {
    const asked = { ...SOUND, requestId: "winnow-starter-7", instances: 0 };
    const { lines, told } = logOf("all", [
      { ...asked, api: "status" },
      { ...asked, api: "status", status: 404, code: "NOT_FOUND" },
      { ...asked, api: "list" },
      { ...asked, api: "status", status: 401, code: "UNAUTHENTICATED" },
      { ...asked, api: "predict" },
      { ...asked, api: "status", requestId: "winnow-starter-8" },
    ]);

    expect(told).toHaveLength(6);
    expect(lines.map((line) => [line?.["api"], line?.["requestId"], line?.["status"]])).toEqual([
      ["status", "winnow-starter-7", 401],
      ["predict", "winnow-starter-7", 200],
      ["status", "winnow-starter-8", 200],
    ]);
  });

  test("has a line for each request, without what says nothing", () => {
    const { lines, told } = logOf("all", [SOUND, { ...FAILED, coverage: 0.5 }]);

    const common = { requestId: "abc-1", api: "predict", model: "movies" };
    expect(lines).toEqual([
      { ...common, version: "3", status: 200, instances: 2, answerBytes: 310, elapsedMs: 1.235 },
      {
        ...common,
        status: 404,
        code: "NOT_FOUND",
        coverage: 0.5,
        answerBytes: 310,
        elapsedMs: 1.235,
      },
    ]);
    expect(told).toHaveLength(2);
  });

  test("is empty when off, and has failures alone where these are asked for", () => {
    expect(logOf("off", [SOUND, FAILED])).toEqual({ lines: [], told: [SOUND, FAILED] });
    expect(logOf("errors", [SOUND, FAILED]).lines).toMatchObject([{ status: 404 }]);
  });

  test("of a share of requests has all failures", () => {
    const { lines } = logOf(0.1, [SOUND, SOUND, FAILED, SOUND], [0.05, 0.5, 0.9]);

    expect(lines).toMatchObject([{ status: 200 }, { status: 404 }]);
  });

  test("tells the bytes of both, and where the time went", () => {
    const stages = new Map([
      ["queue", 0.25],
      ["scan", 1.000_04],
    ]);
    const { lines } = logOf("all", [{ ...SOUND, requestBytes: 80, stages }]);

    expect(lines[0]).toMatchObject({
      requestBytes: 80,
      answerBytes: 310,
      queueMs: 0.25,
      scanMs: 1,
    });
  });

  test("has calls over gRPC as well", () => {
    const call: AnsweredCall = {
      requestId: "abc-2",
      api: "Predict",
      model: "movies",
      code: "OK",
      instances: 2,
      requestBytes: 80,
      answerBytes: 310,
      elapsedMs: 2,
    };
    const lines: (Fields | undefined)[] = [];
    const ignore = (): void => undefined;
    const info = (_event: string, fields?: Fields): void => void lines.push(fields);
    const log: Logger = { debug: ignore, info, warn: ignore, error: ignore };
    const told: AnsweredCall[] = [];
    const observer = { answered: (each: AnsweredCall) => void told.push(each) };

    for (const logged of ["off", "errors", "all"] as const) {
      const both = withGrpcAccessLog(observer, logged, { log, random: () => 0.5 });
      both.answered({ ...call, version: "3", key: "shop" });
      both.answered({ ...call, code: "UNAVAILABLE" });
    }

    const common = { requestId: "abc-2", api: "grpc:Predict", model: "movies", instances: 2 };
    const sizes = { requestBytes: 80, answerBytes: 310, elapsedMs: 2 };
    expect(told).toHaveLength(6);
    expect(lines).toEqual([
      { ...common, code: "UNAVAILABLE", ...sizes },
      { ...common, version: "3", key: "shop", code: "OK", ...sizes },
      { ...common, code: "UNAVAILABLE", ...sizes },
    ]);
  });

  test("cuts a name that a client made long", () => {
    const { lines } = logOf("all", [{ ...FAILED, model: "m".repeat(10_000) }]);

    expect(JSON.stringify(lines).length).toBeLessThan(500);
  });

  test.each([
    ["off", "off"],
    ["errors", "errors"],
    ["all", "all"],
    ["0.01", 0.01],
    ["1", 1],
    ["0", undefined],
    ["1.5", undefined],
    ["some", undefined],
    ["", undefined],
  ] as const)("reads %j as %j", (text, expected) => {
    expect(accessLoggedOf(text)).toBe(expected);
  });
});
