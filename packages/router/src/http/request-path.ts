// What a request asks for, by its path: TensorFlow Serving's URL grammar
// (model_servers/http_rest_api_util.cc) on the raw target, query string included, after the checks that
// libevent makes first. Nothing here decodes or splits more than TensorFlow Serving does:
//
//   POST /v1/models/NAME[/versions/N | /labels/L]:predict|classify|regress
//   GET  /v1/models/NAME[/versions/N | /labels/L][/metadata]
//
// The Open Inference Protocol's paths are case-sensitive, and a query string is ignored:
//
//   POST /v2/models/NAME[/versions/V]/infer
//   GET  /v2, /v2/health/live, /v2/health/ready, /v2/models/NAME[/versions/V][/ready]
//
// Winnow's own paths (list of models, report of the cluster, probes, metrics) must match exactly.

import { excerpt } from "@winnow/core";
import type { ModelTarget } from "../predictor.ts";

/** A model as the URL names it. */
export interface NamedModel extends ModelTarget {
  /** Digits of a version that fits int64 but not a JavaScript number; no model has it. */
  readonly unsafeVersion?: string | undefined;
}

/** What a request asks for. */
export type Route =
  | { readonly kind: "predict"; readonly model: NamedModel }
  | { readonly kind: "status"; readonly model: NamedModel }
  | { readonly kind: "metadata"; readonly model: NamedModel }
  | {
      readonly kind: "examples";
      readonly method: "classify" | "regress";
      readonly model: NamedModel;
    }
  /** Routes of the Open Inference Protocol from here on. */
  | { readonly kind: "infer"; readonly model: NamedModel }
  | {
      readonly kind: "v2-model";
      readonly asked: "metadata" | "ready";
      readonly model: NamedModel;
    }
  | { readonly kind: "v2-server"; readonly asked: "metadata" | "live" | "ready" }
  /** `method`: the method that the path takes, if there is such a path. */
  | { readonly kind: "v2-unknown"; readonly path: string; readonly method: string | undefined }
  | { readonly kind: "list" }
  | { readonly kind: "cluster" }
  | { readonly kind: "nameless" }
  | { readonly kind: "malformed"; readonly path: string }
  /** A version beyond int64, to which TensorFlow Serving answers 400 without a body. */
  | { readonly kind: "overflow" }
  | { readonly kind: "preflight" }
  | { readonly kind: "illegal" }
  | { readonly kind: "unsupported" }
  | { readonly kind: "outside"; readonly path: string };

const PREDICT_PATH =
  /^\/v1\/models\/([^/:]+)(?:(?:\/versions\/(\d+))|(?:\/labels\/([^/:]+)))?:(classify|regress|predict)$/i;
const STATUS_PATH =
  /^\/v1\/models(?:\/([^/:]+))?(?:(?:\/versions\/(\d+))|(?:\/labels\/([^/:]+)))?(?:\/(metadata))?$/i;
const API_PATH = /^\/v1\//i;
const V2_PATH = /^\/v2(?:[/?#]|$)/;
const V2_MODEL_PATH = /^\/v2\/models\/([^/]+)(?:\/versions\/([^/]+))?(?:\/(ready|infer))?$/;
const V2_SERVER_PATHS: ReadonlyMap<string, "metadata" | "live" | "ready"> = new Map([
  ["/v2", "metadata"],
  ["/v2/", "metadata"],
  ["/v2/health/live", "live"],
  ["/v2/health/ready", "ready"],
]);
/** Targets that libevent accepts: RFC 3986 characters, escapes of two hexadecimal digits. */
const LEGAL_TARGET =
  /^(?:[A-Za-z0-9\-._~!$&'()*+,;=:@/]|%[0-9A-Fa-f]{2})*(?:\?(?:[A-Za-z0-9\-._~!$&'()*+,;=:@/?]|%[0-9A-Fa-f]{2})*)?(?:#(?:[A-Za-z0-9\-._~!$&'()*+,;=:@/?]|%[0-9A-Fa-f]{2})*)?$/;
const ABSOLUTE_TARGET = /^https?:\/\/[^/?#]*/i;
const INT64_MAX = 2n ** 63n - 1n;
const METHODS = new Set(["GET", "POST", "HEAD", "PUT", "PATCH", "DELETE", "OPTIONS"]);

/** Decides by method and raw request target. */
export function routeOf(method: string, target: string): Route {
  const path = target.replace(ABSOLUTE_TARGET, "");
  if (!METHODS.has(method)) return { kind: "unsupported" };
  if (!LEGAL_TARGET.test(path)) return { kind: "illegal" };
  if (method === "GET" && path === "/v1/models") return { kind: "list" };
  if (method === "GET" && path === "/v1/cluster") return { kind: "cluster" };
  if (V2_PATH.test(path)) return inferenceRoute(method, path);
  if (!API_PATH.test(path)) return { kind: "outside", path };
  if (method === "OPTIONS") return { kind: "preflight" };
  if (method === "POST") return predictRoute(path);
  if (method === "GET") return statusRoute(path);
  return { kind: "malformed", path };
}

function inferenceRoute(method: string, target: string): Route {
  if (method === "OPTIONS") return { kind: "preflight" };
  const path = target.split(/[?#]/, 1)[0]!;
  const server = V2_SERVER_PATHS.get(path);
  const match = V2_MODEL_PATH.exec(path);
  const needed = match?.[3] === "infer" ? "POST" : "GET";
  const isKnown = server !== undefined || match !== null;
  if (!isKnown || method !== needed) {
    return { kind: "v2-unknown", path, method: isKnown ? needed : undefined };
  }
  if (server !== undefined) return { kind: "v2-server", asked: server };
  const model = inferenceModel(percentDecoded(match![1]!), percentDecoded(match![2] ?? ""));
  if (needed === "POST") return { kind: "infer", model };
  return { kind: "v2-model", asked: match![3] === "ready" ? "ready" : "metadata", model };
}

/**
 * What a request by the Open Inference Protocol names, whose versions are texts: a number, a label, or "" for the
 * default. A label of digits alone is `/v1`'s. No model has a version that is no safe integer.
 */
export function inferenceModel(model: string, text: string): NamedModel {
  if (text === "") return { model };
  if (!/^\d+$/.test(text)) return { model, label: text };
  const version = Number(text);
  return Number.isSafeInteger(version)
    ? { model, version }
    : { model, version, unsafeVersion: excerpt(text) };
}

function predictRoute(path: string): Route {
  const match = PREDICT_PATH.exec(path);
  if (match === null) return { kind: "malformed", path };
  const model = namedModel(match);
  if (model === undefined) return { kind: "overflow" };
  const verb = match[4];
  if (verb === "predict") return { kind: "predict", model };
  if (verb === "classify" || verb === "regress") return { kind: "examples", method: verb, model };
  return { kind: "malformed", path };
}

function statusRoute(path: string): Route {
  const match = STATUS_PATH.exec(path);
  if (match === null) return { kind: "malformed", path };
  const model = namedModel(match);
  if (model === undefined) return { kind: "overflow" };
  if (model.model === "") return { kind: "nameless" };
  return { kind: match[4] === "metadata" ? "metadata" : "status", model };
}

/** `undefined`: the version does not fit int64. */
function namedModel(match: RegExpExecArray): NamedModel | undefined {
  const model = percentDecoded(match[1] ?? "");
  const label = match[3] === undefined ? undefined : percentDecoded(match[3]);
  const digits = match[2];
  if (digits === undefined) return { model, label };
  const exact = BigInt(digits);
  if (exact > INT64_MAX) return undefined;
  const version = Number(exact);
  if (Number.isSafeInteger(version)) return { model, version };
  return { model, version, unsafeVersion: String(exact) };
}

/** `%2F` becomes "/", "+" stays "+"; bytes that are not UTF-8 become U+FFFD. */
function percentDecoded(text: string): string {
  if (!text.includes("%")) return text;
  const bytes = text.replace(/%([0-9A-Fa-f]{2})/g, (_, hex: string) =>
    String.fromCharCode(Number.parseInt(hex, 16)),
  );
  return Buffer.from(bytes, "latin1").toString("utf8");
}
