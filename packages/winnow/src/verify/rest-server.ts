// A server asked over REST: Winnow or TensorFlow Serving. A refusal that may pass (503, 429, 504, a broken
// connection) is tried again a few times, and so is an answer that lacks a stage or an arm.

import type { Clock } from "@winnow/core";
import { type Dtype, WinnowError, excerpt, isDtype } from "@winnow/core";
import {
  RestClient,
  type RestAnswer,
  type RestRequest,
  type RestTrust,
} from "../access/rest-client.ts";
import { type AnswerValue, isAnswerObject, parseAnswer } from "../oracle/answer-json.ts";
import { type AnswerRecords, type OutputSpec, recordsOfBody } from "../oracle/answer-records.ts";
import {
  type AskedModel,
  type Attempt,
  type PredictServer,
  type Question,
  type ServerReply,
  askAgain,
} from "./exchange.ts";

/** The server, and how to ask it. */
export interface ServerOptions {
  readonly url: string;
  readonly trust: RestTrust;
  readonly clock: Clock;
  /** Longest time of one attempt. */
  readonly timeoutMs: number;
}

const PASSING: ReadonlySet<number> = new Set([408, 429, 500, 502, 503, 504]);

/** One server. */
export class RestServer implements PredictServer {
  readonly url: string;
  readonly #client: RestClient;
  readonly #options: ServerOptions;

  /** @throws WinnowError for an invalid URL, or files of keys and authorities that cannot be read */
  constructor(options: ServerOptions) {
    if (!/^https?:\/\/[^/\s]+(\/[^\s?#]*)?$/.test(options.url)) {
      const text = `${excerpt(options.url)} is no server's address; write for example http://127.0.0.1:8501`;
      throw new WinnowError("INVALID_ARGUMENT", text);
    }
    this.url = options.url.replace(/\/+$/, "");
    this.#client = new RestClient(options.trust);
    this.#options = options;
  }

  predict(asked: AskedModel, question: Question, signal: AbortSignal): Promise<ServerReply> {
    const path = `${pathOf(asked)}:predict`;
    return askAgain(this.#options.clock, signal, async (): Promise<Attempt> => {
      const { body, request } = question;
      const headers = request?.headers;
      const answer = await this.#ask(path, { body, signal, headers }).catch(reasonOf);
      if (typeof answer === "string") return { kind: "passing", text: answer };
      const { status, text } = answer;
      if (status === 200) return replyOf(answer, question);
      if (status === 400) return { kind: "refused", text: errorText(text) };
      const told = `${status} ${errorText(text)}`;
      return { kind: PASSING.has(status) ? "passing" : "missing", text: told };
    });
  }

  /**
   * Whether the server is Winnow, which can list its models. @throws WinnowError UNAVAILABLE if nothing
   * answers, UNAUTHENTICATED or PERMISSION_DENIED if the server refuses
   */
  async isWinnow(): Promise<boolean> {
    const answer = await this.#ask("/v1/models").catch(reasonOf);
    if (typeof answer === "string") {
      throw new WinnowError("UNAVAILABLE", `Nothing answers at ${this.url}: ${answer}`);
    }
    const { status, text } = answer;
    if (status === 401 || status === 403) {
      const code = status === 401 ? "UNAUTHENTICATED" : "PERMISSION_DENIED";
      throw new WinnowError(code, `${this.url}: ${errorText(text)}; name a key with --key-file`);
    }
    return status === 200;
  }

  /** The server's state of a model that does not answer, for messages. */
  async stateOf(asked: AskedModel): Promise<string> {
    const answer = await this.#ask(pathOf(asked)).catch(reasonOf);
    if (typeof answer === "string") return answer;
    return answer.status === 200 ? "available" : errorText(answer.text);
  }

  /** Outputs of a signature, from the server's metadata. @throws WinnowError NOT_FOUND, UNAVAILABLE */
  async outputsOf(asked: AskedModel, signature: string): Promise<readonly OutputSpec[]> {
    const answer = await this.#ask(`${pathOf(asked)}/metadata`).catch(reasonOf);
    const what = `the metadata of model ${asked.model} at ${this.url}`;
    if (typeof answer === "string")
      throw new WinnowError("UNAVAILABLE", `Cannot read ${what}: ${answer}`);
    if (answer.status !== 200) {
      throw new WinnowError("NOT_FOUND", `Cannot read ${what}: ${errorText(answer.text)}`);
    }
    const outputs = memberOf(parseAnswer(answer.text), [
      "metadata",
      "signature_def",
      "signature_def",
      signature,
      "outputs",
    ]);
    if (!isAnswerObject(outputs)) {
      throw new WinnowError("NOT_FOUND", `${what} has no signature "${excerpt(signature)}"`);
    }
    return Object.entries(outputs).map(([name, told]) => ({ name, dtype: dtypeOf(told) }));
  }

  #ask(path: string, request: RestRequest = {}): Promise<RestAnswer> {
    return this.#client.askWithin(`${this.url}${path}`, request, this.#options);
  }
}

function replyOf(answer: RestAnswer, { outputs, format }: Question): Attempt {
  const degraded = answer.header("x-winnow-degraded");
  if (degraded !== undefined) return { kind: "passing", text: `degraded: ${excerpt(degraded)}` };
  const told = {
    version: answer.header("x-winnow-model-version"),
    arm: answer.header("x-winnow-arm"),
    members: answer.header("x-winnow-pipeline-versions"),
  };
  return { kind: "answered", records: recordsOfText(answer.text, outputs, format), told };
}

/** Reads the body of an answer. */
export function recordsOfText(
  body: string,
  outputs: readonly OutputSpec[],
  format: Question["format"],
): AnswerRecords {
  let value: AnswerValue;
  try {
    value = parseAnswer(body);
  } catch {
    return { kind: "fault", text: `no JSON: ${excerpt(body)}` };
  }
  return recordsOfBody(value, outputs, format);
}

function pathOf({ model, version }: AskedModel): string {
  const pinned = version === undefined ? "" : `/versions/${version}`;
  return `/v1/models/${encodeURIComponent(model)}${pinned}`;
}

function reasonOf(error: unknown): string {
  const { code, message } = error as NodeJS.ErrnoException;
  return message === "" ? (code ?? "no answer") : message;
}

function errorText(text: string): string {
  try {
    const body = parseAnswer(text);
    const error = isAnswerObject(body) ? body["error"] : undefined;
    if (typeof error === "string") return excerpt(error);
  } catch {
    // Not JSON: shown unchanged.
  }
  return excerpt(text);
}

function memberOf(value: AnswerValue, path: readonly string[]): AnswerValue | undefined {
  let inner: AnswerValue | undefined = value;
  for (const name of path) inner = isAnswerObject(inner) ? inner[name] : undefined;
  return inner;
}

/** `DT_FLOAT` as `float32`. */
function dtypeOf(told: AnswerValue): Dtype {
  const dtype = isAnswerObject(told) ? told["dtype"] : undefined;
  const name = typeof dtype === "string" ? dtype.replace(/^DT_/, "").toLowerCase() : "";
  if (name === "float") return "float32";
  if (name === "double") return "float64";
  return isDtype(name) ? name : "string";
}
