// `winnow predict`: one request to a running router, shown as a table to a person and as JSON to a
// program. It speaks the plain REST API, so it works against TensorFlow Serving too.

import { WinnowError, excerpt } from "@winnow/core";
import type { Clock } from "@winnow/core";
import { RestClient, type RestTrust } from "../access/rest-client.ts";
import {
  type AnswerObject,
  type AnswerValue,
  answerText,
  isAnswerObject,
  parseAnswer,
} from "../oracle/answer-json.ts";
import { askPredictions, codeOf, errorText, failuresOf, told } from "../predict/asking.ts";
import { type PredictQuestion, predictUrl, requestBody } from "../predict/predict-request.ts";
import { checkRouterUrl } from "../report/report-question.ts";
import { terminalLine, terminalText } from "../terminal-text.ts";
import { align } from "../text-columns.ts";

/** What to ask, and which router. */
export interface PredictCommand extends PredictQuestion, RestTrust {
  /** JSON: the instances, or a whole request body with `instances` or `inputs`. */
  readonly json: string;
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
  const answer = await askPredictions(
    asking,
    predictUrl(command),
    requestBody(command.json, command),
  );
  const { status, text } = answer;
  if (status < 200 || status >= 300) {
    const fault = errorText(answer);
    const why = status === 404 ? await failuresOf(asking, command) : [];
    throw new WinnowError(codeOf(answer), [fault, ...why].join("\n"));
  }
  predictionsOf(text);
  return { text, version: answer.header("x-winnow-model-version") };
}

/** The same request as a shell command. */
export function curlLine(command: PredictCommand): string {
  const body = requestBody(command.json, command).replaceAll("'", String.raw`'\''`);
  return `curl -d '${body}' ${predictUrl(command)}`;
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
