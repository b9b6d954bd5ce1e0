// The requests of a benchmark, made before it begins: a number of them for each model, with keys distributed
// by popularity. During the run, a request only has to be picked.

import type { SignatureProgram, Tensor } from "@winnow/core";
import { WinnowError, excerpt } from "@winnow/core";
import type { Reference } from "../oracle/reference.ts";
import { type ScalarValue, tensorOfScalars } from "../oracle/scalars.ts";
import { type KnownKeys, knownKeysOf, plausibleScalar } from "../questions/key-supply.ts";
import { requestBody } from "../questions/request-body.ts";
import { type Random, draw } from "../questions/seeded-random.ts";
import type { PreparedRequest } from "./load-run.ts";
import { zipfRanks } from "./zipf.ts";

/** The form of the requests. */
export interface PoolShape {
  /** Instances per request. */
  readonly batch: number;
  readonly k: number | undefined;
  /** Exponent of the popularity of keys; 0: all are equally popular. */
  readonly zipf: number;
}

/** A question, kept for the check of its answer. */
interface PooledQuestion {
  readonly signature: SignatureProgram;
  readonly inputs: ReadonlyMap<string, Tensor>;
  readonly k: number | undefined;
}

/** Requests to one model. */
export interface RequestPool {
  readonly model: string;
  /** The bodies of all requests. */
  readonly bodies: readonly string[];
  readonly batch: number;
  /** The questions behind the bodies; absent where they come from a file. */
  readonly questions: readonly PooledQuestion[] | undefined;
}

/** Different requests to one model: enough that no processor cache holds all rows they need. */
const POOL_REQUESTS = 4096;
const FREE_LENGTH = 3;

/** Requests made from a model's files. @throws WinnowError FAILED_PRECONDITION for one that cannot be asked */
export function poolOfModel(
  model: string,
  reference: Reference,
  { shape, random }: { readonly shape: PoolShape; readonly random: Random },
): RequestPool {
  const { signatures } = reference;
  const signature = signatures.find(({ name }) => name === "serving_default") ?? signatures[0];
  if (signature === undefined || signature.inputs.some((input) => input.shape?.length === 0)) {
    const text = `Model ${model} has no signature that takes instances; name requests with --keys FILE`;
    throw new WinnowError("FAILED_PRECONDITION", text);
  }
  const { batch, k, zipf } = shape;
  const sources = signature.inputs.map((input) => {
    const keys = knownKeysOf(reference.inputOf(signature, input));
    return { input, keys, rankOf: keys && zipfRanks(keys.count, zipf) };
  });
  const questions = Array.from({ length: POOL_REQUESTS }, (): PooledQuestion => {
    const inputs = sources.map(({ input, keys, rankOf }) => {
      const inner = (input.shape ?? [-1]).slice(1).map((size) => (size < 0 ? FREE_LENGTH : size));
      const sizes = [batch, ...inner];
      const count = sizes.reduce((product, size) => product * size, 1);
      const values = Array.from({ length: count }, (): ScalarValue => {
        if (keys === undefined || rankOf === undefined) return plausibleScalar(input.dtype, random);
        return keys.at(scattered(rankOf(random), keys));
      });
      return [input.name, tensorOfScalars(input.dtype, sizes, values)] as const;
    });
    return { signature, inputs: new Map(inputs), k };
  });
  const bodies = questions.map((question) =>
    requestBody({ ...question, format: "row", signature: signature.name }),
  );
  return { model, bodies, batch, questions };
}

/** The key of a rank: popular keys are spread over the vocabulary, so that they are not neighbours in memory. */
function scattered(rank: number, { count }: KnownKeys): number {
  return Number((BigInt(rank) * 2654435761n) % BigInt(count));
}

/** Requests of instances that a file lists, the most popular first. @throws WinnowError INVALID_ARGUMENT */
export function poolOfKeys(
  model: string,
  lines: readonly string[],
  { shape, random }: { readonly shape: PoolShape; readonly random: Random },
): RequestPool {
  const keys = lines.map((line) => line.trim()).filter((line) => line !== "");
  const wrong = keys.find((key) => !isJson(key));
  if (keys.length === 0 || wrong !== undefined) {
    const text = `--keys holds one instance a line, as JSON, such as "42"; not ${excerpt(wrong ?? "nothing")}`;
    throw new WinnowError("INVALID_ARGUMENT", text);
  }
  const rankOf = zipfRanks(keys.length, shape.zipf);
  const { batch, k } = shape;
  const bodies = Array.from({ length: POOL_REQUESTS }, () => {
    const instances = Array.from({ length: batch }, () => keys[rankOf(random)]!);
    return `{"instances":[${instances.join(",")}]${k === undefined ? "" : `,"k":${k}`}}`;
  });
  return { model, bodies, batch, questions: undefined };
}

function isJson(text: string): boolean {
  try {
    JSON.parse(text);
    return true;
  } catch {
    return false;
  }
}

/** Requests as bytes for one server. */
export function preparedRequests(
  { model, bodies, batch }: RequestPool,
  { url, headers }: { readonly url: URL; readonly headers: Readonly<Record<string, string>> },
): readonly PreparedRequest[] {
  const path = `${url.pathname.replace(/\/+$/, "")}/v1/models/${encodeURIComponent(model)}:predict`;
  const more = Object.entries(headers).map(([name, value]) => `${name}: ${value}`);
  return bodies.map((body, number) => {
    const head = [
      `POST ${path} HTTP/1.1`,
      `host: ${url.host}`,
      "content-type: application/json",
      `content-length: ${Buffer.byteLength(body)}`,
      ...more,
    ];
    const bytes = Buffer.from(`${head.join("\r\n")}\r\n\r\n${body}`);
    return { bytes, model, instances: batch, number };
  });
}

/** Picks requests, weighted if there are several models. */
export function requestPicker(
  models: readonly { readonly requests: readonly PreparedRequest[]; readonly weight: number }[],
): (random: Random) => PreparedRequest {
  const total = models.reduce((sum, { weight }) => sum + weight, 0);
  return (random) => {
    let left = random() * total;
    for (const { requests, weight } of models) {
      left -= weight;
      if (left < 0) return requests[draw(random, requests.length)]!;
    }
    return models[0]!.requests[0]!;
  };
}
