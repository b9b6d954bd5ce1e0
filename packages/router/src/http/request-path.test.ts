// The URL grammar, door by door.

import { describe, expect, test } from "vitest";
import { routeOf } from "./request-path.ts";

describe("routeOf()", () => {
  test.each([
    ["POST", "/v1/models/m:predict", { kind: "predict", model: { model: "m" } }],
    ["POST", "/V1/Models/m:predict", { kind: "predict", model: { model: "m" } }],
    ["POST", "http://h:1/v1/models/m:predict", { kind: "predict", model: { model: "m" } }],
    [
      "POST",
      "/v1/models/a%2Fb+c%20d/versions/0007:predict",
      { kind: "predict", model: { model: "a/b+c d", version: 7 } },
    ],
    [
      "POST",
      "/v1/models/m/labels/st%61ble:predict",
      { kind: "predict", model: { model: "m", label: "stable" } },
    ],
    [
      "POST",
      "/v1/models/m:classify",
      { kind: "examples", method: "classify", model: { model: "m" } },
    ],
    [
      "POST",
      "/v1/models/m/versions/9007199254740993:predict",
      {
        kind: "predict",
        model: { model: "m", version: 2 ** 53, unsafeVersion: "9007199254740993" },
      },
    ],
    ["POST", "/v1/models/m/versions/9223372036854775808:predict", { kind: "overflow" }],
    ["GET", "/v1/models/m/versions/99999999999999999999", { kind: "overflow" }],
    ["GET", "/v1/models", { kind: "list" }],
    ["GET", "/V1/models", { kind: "nameless" }],
    ["GET", "/v1/models/versions/3", { kind: "nameless" }],
    ["GET", "/v1/models/metadata", { kind: "status", model: { model: "metadata" } }],
    ["GET", "/v1/models/m?x=1", { kind: "status", model: { model: "m?x=1" } }],
    ["GET", "/v1/models/m/METADATA", { kind: "status", model: { model: "m" } }],
    ["GET", "/v1/models/m/metadata", { kind: "metadata", model: { model: "m" } }],
    ["OPTIONS", "/v1/models/m:predict", { kind: "preflight" }],
    ["TRACE", "/v1/models/m", { kind: "unsupported" }],
    ["PROPFIND", "/v1/models/m", { kind: "unsupported" }],
    ["GET", "/v1/models/a|b", { kind: "illegal" }],
    ["GET", "/v1/models/a%zz", { kind: "illegal" }],
    ["GET", "/v1/models/ü", { kind: "illegal" }],
    ["POST", "/v2/models/m/infer", { kind: "infer", model: { model: "m" } }],
    [
      "POST",
      "/v2/models/a%2Fb:c/versions/07/infer?x",
      { kind: "infer", model: { model: "a/b:c", version: 7 } },
    ],
    ["GET", "/v2/models/m", { kind: "v2-model", asked: "metadata", model: { model: "m" } }],
    [
      "GET",
      "/v2/models/m/versions/3/ready",
      { kind: "v2-model", asked: "ready", model: { model: "m", version: 3 } },
    ],
    [
      "POST",
      "/v2/models/m/versions/a%20b/infer",
      { kind: "infer", model: { model: "m", label: "a b" } },
    ],
    ["GET", "/v2", { kind: "v2-server", asked: "metadata" }],
    ["GET", "/v2/health/ready?x=1", { kind: "v2-server", asked: "ready" }],
    ["OPTIONS", "/v2/models/m/infer", { kind: "preflight" }],
    ["GET", "/v2/models", { kind: "v2-unknown", path: "/v2/models" }],
    [
      "GET",
      "/v2/models/m/infer",
      { kind: "v2-unknown", path: "/v2/models/m/infer", method: "POST" },
    ],
    ["GET", "/V2/health/live", { kind: "outside", path: "/V2/health/live" }],
    ["GET", "/v2x", { kind: "outside", path: "/v2x" }],
    ["GET", "/", { kind: "outside", path: "/" }],
    ["GET", "/v1", { kind: "outside", path: "/v1" }],
    ["OPTIONS", "*", { kind: "outside", path: "*" }],
    ["GET", "/../v1/models", { kind: "outside", path: "/../v1/models" }],
  ])("sends %s %s to its door", (method, target, route) => {
    expect(routeOf(method, target)).toEqual(route);
  });

  test.each([
    ["POST", "/v1/models/m:predict?x=1"],
    ["POST", "/v1/models/m:predict/"],
    ["POST", "/v1/models/m:PREDICT"],
    ["POST", "/v1/models/m/versions/1/labels/x:predict"],
    ["POST", "/v1/models/m/versions/-1:predict"],
    ["POST", "/v1/models/a:b:predict"],
    ["POST", "/v1/models/m"],
    ["GET", "/v1/models/m:predict"],
    ["GET", "/v1/models/m/"],
    ["GET", "/v1/x"],
    ["PUT", "/v1/models/m:predict"],
    ["HEAD", "/v1/models/m"],
  ])("calls %s %s malformed", (method, path) => {
    expect(routeOf(method, path)).toEqual({ kind: "malformed", path });
  });

  test("decides about a long path in time", () => {
    const path = `/v1/models/${"a/versions/1".repeat(5000)}:predict`;

    expect(routeOf("POST", path).kind).toBe("malformed");
  });
});
