// `winnow predict`: one request to a running router, shown as a table to a person and as JSON to a
// program. It speaks the plain REST API, so it works against TensorFlow Serving too.

import { WinnowError, excerpt } from "@winnow/core";
import type { Clock, ErrorCode } from "@winnow/core";
import { type RestAnswer, RestClient, type RestTrust } from "../access/rest-client.ts";
import {
  type AnswerObject,
  type AnswerValue,
  answerText,
  isAnswerObject,
  parseAnswer,
} from "../oracle/answer-json.ts";
import { checkRouterUrl } from "../report/report-question.ts";
import { terminalLine, terminalText } from "../terminal-text.ts";
import { align } from "../text-columns.ts";

/** What to ask, and which router. */
export interface PredictCommand extends RestTrust {
  readonly url: string;
  readonly model: string;
  /** JSON: the instances, or a whole request body with `instances` or `inputs`. */
  readonly json: string;
  readonly version?: number | undefined;
  readonly signature?: string | undefined;
  readonly k?: number | undefined;
  /** JSON: item ids for all instances, or one list per instance. */
  readonly exclude?: string | undefined;
  /** JSON: the only item ids that may be returned, in the same form. */
  readonly include?: string | undefined;
  /** JSON: a filter for all instances, or one per instance. */
  readonly filter?: string | undefined;
  /** Names of attributes. */
  readonly return?: readonly string[] | undefined;
  /** Whether the vectors of the items are wanted. */
  readonly returnVectors?: true | undefined;
  /** Whether the answer shall say what each stage of a pipeline did. */
  readonly explain?: true | undefined;
  /** Ms to wait for an answer. */
  readonly timeoutMs: number;
}

/** The router's answer. */
export interface PredictAnswer {
  /** The body as received. */
  readonly text: string;
  /** Version that answered, from the response header; TensorFlow Serving does not say. */
  readonly version: string | undefined;
}

/**
 * Asks a router. @throws WinnowError with the router's own message; UNAVAILABLE; UNKNOWN for an answer without
 * predictions, such as the page of a proxy: a program that reads the text must not take it for one
 */
export async function predict(command: PredictCommand, clock: Clock): Promise<PredictAnswer> {
  checkRouterUrl(command.url);
  const client = new RestClient(command);
  const asking = { client, clock, timeoutMs: command.timeoutMs };
  const answer = await post(asking, predictUrl(command), requestBody(command));
  const { status, text } = answer;
  if (status < 200 || status >= 300) {
    const fault = errorText(answer);
    const why = status === 404 ? await failuresOf(asking, command) : [];
    throw new WinnowError(codeOf(answer), [fault, ...why].join("\n"));
  }
  predictionsOf(text);
  return { text, version: answer.header("x-winnow-model-version") };
}

interface Asking {
  readonly client: RestClient;
  readonly clock: Clock;
  readonly timeoutMs: number;
}

/** Why versions of the model are not served, by its status; empty if the status does not say. */
async function failuresOf(asking: Asking, command: PredictCommand): Promise<string[]> {
  try {
    const { text } = await asking.client.askWithin(modelUrl(command), {}, asking);
    const { model_version_status: versions = [] } = JSON.parse(text) as ModelStatus;
    return versions.flatMap(({ version, status }) => {
      const { error_code: code, error_message: message } = status ?? {};
      if (message === undefined || message === "") return [];
      return [told(`Version ${version} cannot be served: ${code}: ${message}`)];
    });
  } catch {
    // The error of the request itself is shown in any case.
    return [];
  }
}

/** The parts of `GET /v1/models/NAME` that report failures. */
interface ModelStatus {
  readonly model_version_status?: readonly {
    readonly version: string;
    readonly status?: { readonly error_code?: string; readonly error_message?: string };
  }[];
}

/** The code that an HTTP status stands for; some statuses stand for several codes. */
function codeOf({ status }: RestAnswer): ErrorCode {
  return CODE_OF_STATUS.get(status) ?? (status < 500 ? "INVALID_ARGUMENT" : "UNKNOWN");
}

const CODE_OF_STATUS: ReadonlyMap<number, ErrorCode> = new Map([
  [401, "UNAUTHENTICATED"],
  [403, "PERMISSION_DENIED"],
  [404, "NOT_FOUND"],
  [408, "DEADLINE_EXCEEDED"],
  [429, "RESOURCE_EXHAUSTED"],
  [501, "UNIMPLEMENTED"],
  [503, "UNAVAILABLE"],
  [504, "DEADLINE_EXCEEDED"],
]);

/** The same request as a shell command. */
export function curlLine(command: PredictCommand): string {
  const body = requestBody(command).replaceAll("'", String.raw`'\''`);
  return `curl -d '${body}' ${predictUrl(command)}`;
}

function modelUrl({ url, model }: Pick<PredictCommand, "url" | "model">): string {
  return `${url.replace(/\/+$/, "")}/v1/models/${encodeURIComponent(model)}`;
}

function predictUrl(command: PredictCommand): string {
  const pinned = command.version === undefined ? "" : `/versions/${command.version}`;
  return `${modelUrl(command)}${pinned}:predict`;
}

/** The body. What the command line has as JSON goes as it was written: integers may have 64 bits. */
function requestBody({ json, signature, k, ...conditions }: PredictCommand): string {
  const example = `'["42"]' or '[{"user_id":"42","movie_title":"…"}]'`;
  const value = checkedJson(json, { what: "the instances", example });
  const ids = `'["7","9"]'`;
  const filters = `'{"year":{"$gte":1990}}'`;
  const { exclude, include, filter } = conditions;
  if (exclude !== undefined) checkedJson(exclude, { what: "--exclude", example: ids });
  if (include !== undefined) checkedJson(include, { what: "--include", example: ids });
  if (filter !== undefined) checkedJson(filter, { what: "--filter", example: filters });
  const isBody =
    typeof value === "object" && value !== null && ("instances" in value || "inputs" in value);
  const members = {
    k,
    exclude,
    include,
    filter,
    return: conditions.return && JSON.stringify(conditions.return),
    return_vectors: conditions.returnVectors,
    explain: conditions.explain,
    // What no flag says stays as the body has it, and so does its signature.
    ...(isBody && "signature_name" in value ? {} : namedSignature(signature)),
  };
  const asked = Object.entries(members).flatMap(([name, of]) =>
    of === undefined ? [] : [`"${name}":${of}`],
  );
  if (isBody) {
    // Of two equal names in an object, the first one counts.
    return `{${[...asked, json.trim().slice(1)].join(",")}`;
  }
  return `{${[`"instances":${Array.isArray(value) ? json.trim() : `[${json.trim()}]`}`, ...asked].join(",")}}`;
}

function namedSignature(signature: string | undefined): { readonly signature_name?: string } {
  return signature === undefined ? {} : { signature_name: JSON.stringify(signature) };
}

/** What the text says, rounded. @throws WinnowError INVALID_ARGUMENT where it is no JSON */
function checkedJson(
  json: string,
  { what, example }: { readonly what: string; readonly example: string },
): unknown {
  try {
    return JSON.parse(json) as unknown;
  } catch (error) {
    throw new WinnowError(
      "INVALID_ARGUMENT",
      `Cannot read ${what} ${excerpt(json)} as JSON; write for example ${example}`,
      { cause: error },
    );
  }
}

async function post(asking: Asking, url: string, body: string): Promise<RestAnswer> {
  try {
    return await asking.client.askWithin(url, { body }, asking);
  } catch (error) {
    const { code = "", message } = error as NodeJS.ErrnoException;
    if (/CERT|SELF_SIGNED|UNABLE_TO/.test(code)) {
      const text = `The certificate of ${url} is not believed: ${message}; name its authority with --ca`;
      throw new WinnowError("UNAUTHENTICATED", text, { cause: error });
    }
    const found =
      code === "ECONNREFUSED"
        ? `Nothing answers at ${url}; start a cluster with "winnow up --models DIR" or name another --url`
        : `No answer came from ${url}: ${message === "" ? code : message}; look whether --url names a router's REST port`;
    throw new WinnowError("UNAVAILABLE", found, { cause: error });
  }
}

function errorText(answer: RestAnswer): string {
  const { text, status } = answer;
  const target = answer.header("location");
  if (status < 400 && target !== undefined) {
    return told(`HTTP ${status}: the request belongs at ${target}; name that server with --url`);
  }
  try {
    const body = JSON.parse(text) as { error?: unknown };
    if (typeof body.error === "string") return told(body.error);
  } catch {
    // Not JSON, but the page of a proxy: shown unchanged.
  }
  return told(`HTTP ${status}: ${excerpt(text)}`);
}

/** An error lists what is wrong with a version; other texts of a server are cut at this length. */
const TOLD_CHARACTERS_MAX = 10_000;

/** A server's text on one line, so that no part of it looks like a line of this command. */
function told(text: string): string {
  return terminalLine(
    text.length <= TOLD_CHARACTERS_MAX ? text : `${text.slice(0, TOLD_CHARACTERS_MAX)}…`,
  );
}

/**
 * The predictions as aligned columns: one block per instance, lists side by side.
 * @throws WinnowError UNKNOWN for an answer without predictions
 */
export function predictionTable(text: string): string {
  const blocks = predictionsOf(text).map((prediction, index) => blockOf(prediction, index));
  const lines = blocks.join("\n");
  return terminalText(lines === "" || lines.endsWith("\n") ? lines : `${lines}\n`);
}

function predictionsOf(text: string): readonly AnswerValue[] {
  try {
    const body = parseAnswer(text);
    if (isAnswerObject(body)) {
      const { predictions, outputs } = body;
      if (Array.isArray(predictions)) return predictions as readonly AnswerValue[];
      if (outputs !== undefined) return [outputs];
    }
  } catch {
    // The error follows.
  }
  throw new WinnowError("UNKNOWN", told(`The answer has no predictions: ${excerpt(text)}`));
}

function blockOf(prediction: AnswerValue, index: number): string {
  const { columns, stages } = partsOf(prediction);
  if (columns === undefined) return `${index}  ${answerText(prediction)}`;
  const length = columns.reduce((longest, [, values]) => Math.max(longest, values.length), 0);
  const names = ["#", ...columns.map(([name]) => terminalLine(name))];
  const rows = Array.from({ length }, (_, row) => [
    String(row + 1),
    ...columns.map(([, values]) => cellText(values[row])),
  ]);
  return align([names, ...rows]) + (stages === undefined ? "" : `\n${stageTable(stages)}`);
}

interface PredictionParts {
  /** The lists of a prediction that has several outputs; `undefined` for any other. */
  readonly columns: [string, AnswerValue[]][] | undefined;
  /** What each stage of a pipeline did, if the request wanted to know. */
  readonly stages: readonly AnswerObject[] | undefined;
}

function partsOf(prediction: AnswerValue): PredictionParts {
  const none = { columns: undefined, stages: undefined };
  if (!isAnswerObject(prediction)) return none;
  const stages = stagesOf(prediction["explain"]);
  const columns = Object.entries(prediction).filter(
    ([name]) => stages === undefined || name !== "explain",
  );
  return columns.every(([, values]) => Array.isArray(values))
    ? { columns: columns as [string, AnswerValue[]][], stages }
    : none;
}

function stagesOf(explanation: AnswerValue | undefined): readonly AnswerObject[] | undefined {
  const stages = isAnswerObject(explanation) ? explanation["stages"] : undefined;
  return Array.isArray(stages) && stages.every((stage) => isAnswerObject(stage))
    ? stages
    : undefined;
}

const isTold = (value: unknown): boolean => typeof value !== "object" || value === null;

/** A row for each stage, without what it says of each item. */
function stageTable(stages: readonly AnswerObject[]): string {
  const names = new Set(
    stages.flatMap((stage) => Object.keys(stage).filter((name) => isTold(stage[name]))),
  );
  const rows = stages.map((stage) => Array.from(names, (name) => cellText(stage[name])));
  return align([Array.from(names, terminalLine), ...rows]);
}

function cellText(value: AnswerValue | undefined): string {
  if (value === undefined) return "";
  return terminalLine(typeof value === "string" ? value : answerText(value));
}
