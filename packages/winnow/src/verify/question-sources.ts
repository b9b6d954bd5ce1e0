// The sources of questions: made from a model's own files, with the expected answers, or read from a file of
// requests, to compare servers.

import { createHash } from "node:crypto";
import { WinnowError, excerpt } from "@winnow/core";
import type { AnswerValue } from "../oracle/answer-json.ts";
import { isAnswerObject, parseAnswer } from "../oracle/answer-json.ts";
import type { Difference } from "../oracle/answer-comparison.ts";
import { ATTRIBUTES, type OutputSpec, isRagged } from "../oracle/answer-records.ts";
import { isRefusal } from "../oracle/reference-model.ts";
import type { AnsweredRows, Reference } from "../oracle/reference.ts";
import { readNamedFile } from "../process/named-file.ts";
import { requestBody } from "../questions/request-body.ts";
import type { PlannedRequest, RequestPlan } from "../questions/request-plan.ts";
import type { RestServer } from "./rest-server.ts";
import type { Question } from "./exchange.ts";

/** Questions to one model, by number. */
export interface QuestionSource {
  readonly model: string;
  /** The version that must answer; `undefined`: any version. */
  readonly version: number | undefined;
  readonly fingerprint: string;
  /** Number of questions. */
  readonly count: number;
  question(number: number): Promise<Question>;
}

/** Questions made from the files of a model, with their answers. */
export function questionsOfFiles(
  { model, version, count }: Pick<QuestionSource, "model" | "version" | "count">,
  reference: Reference,
  plan: RequestPlan,
): QuestionSource {
  return {
    model,
    version,
    fingerprint: reference.fingerprint,
    count: plan.signatures === 0 ? 0 : count,
    question: async (number) => {
      const request = await plan.request(number);
      const body = requestBody({ ...request, signature: request.signature.name });
      const { format, instances, signature } = request;
      const declared = signature.outputs.map(({ name, dtype }) => ({ name, dtype }));
      const isDescribed = request.attributes !== undefined;
      const outputs = isDescribed ? [...declared, ATTRIBUTES] : declared;
      const question = { body, format, instances, outputs, request };
      try {
        const { records, beside, rows } = await reference.expected(signature, request, format);
        if (format === "column" && isRagged(records)) {
          const text = "lists of different lengths have no room in the column format";
          return { ...question, expected: { kind: "refusal", text } };
        }
        const expected = { kind: "records", records, beside } as const;
        return { ...question, expected, noteOf: rows && noteMaker(rows, request) };
      } catch (error) {
        if (!isRefusal(error)) throw error;
        return { ...question, expected: { kind: "refusal", text: error.message } };
      }
    },
  };
}

/** Says where in the files both items of a difference are. */
function noteMaker(
  rows: AnsweredRows,
  { exclude = [] }: PlannedRequest,
): (difference: Difference) => string | undefined {
  return ({ instance, place, givenId }) => {
    if (place === undefined || givenId === undefined) return undefined;
    const notes: string[] = [];
    const row = rows.at(instance, place);
    if (row !== undefined) notes.push(`expected is row ${row}`);
    const id = idOf(givenId);
    const found = id === undefined ? undefined : rows.of(instance, id);
    notes.push(
      found === undefined
        ? "no item has the id given"
        : `given is row ${found.row}, whose score is ${Number(found.score.toPrecision(9))}`,
    );
    if (exclude.length > 0) notes.push("with exclusions");
    return notes.join("; ");
  };
}

/** An id of an answer as tables keep it. */
function idOf(value: AnswerValue): string | bigint | undefined {
  if (typeof value === "bigint") return value;
  if (typeof value === "number") return Number.isSafeInteger(value) ? BigInt(value) : undefined;
  if (typeof value === "string") return Buffer.from(value, "utf8").toString("latin1");
  const b64 = isAnswerObject(value) ? value["b64"] : undefined;
  return typeof b64 === "string" ? Buffer.from(b64, "base64").toString("latin1") : undefined;
}

/** A file of requests: one body per line. */
export interface RequestsFile {
  readonly digest: string;
  readonly bodies: readonly ReplayedBody[];
}

interface ReplayedBody {
  readonly text: string;
  readonly format: "row" | "column";
  readonly signature: string;
  readonly instances: number;
}

/** A text of V8 is no longer than 512 MiB. */
const FILE_BYTES_MAX = 511 * 1024 * 1024;

/** Reads a file of requests: each line a body, or one instance. @throws WinnowError naming the line */
export function readRequestsFile(file: string): RequestsFile {
  let bytes: Buffer;
  try {
    bytes = readNamedFile(file, FILE_BYTES_MAX);
  } catch (cause) {
    if (cause instanceof RangeError) {
      const text = `${file} has more than ${FILE_BYTES_MAX} bytes; split it`;
      throw new WinnowError("RESOURCE_EXHAUSTED", text, { cause });
    }
    const reason = cause instanceof Error ? cause.message : String(cause);
    throw new WinnowError("NOT_FOUND", `Cannot read ${file}: ${reason}`, { cause });
  }
  const lines = bytes.toString("utf8").split("\n");
  const bodies = lines.flatMap((line, at) => {
    const text = line.trim();
    return text === "" ? [] : [replayedBody(text, `line ${at + 1} of ${file}`)];
  });
  if (bodies.length === 0) throw new WinnowError("INVALID_ARGUMENT", `${file} holds no requests`);
  return { digest: createHash("sha256").update(bytes).digest("hex"), bodies };
}

function replayedBody(text: string, where: string): ReplayedBody {
  let value: AnswerValue;
  try {
    value = parseAnswer(text);
  } catch (cause) {
    const example = `{"instances":["42"]}, or one instance, such as "42"`;
    throw new WinnowError("INVALID_ARGUMENT", `Cannot read ${where} as JSON; write ${example}`, {
      cause,
    });
  }
  if (!isAnswerObject(value) || !("instances" in value || "inputs" in value)) {
    return {
      text: `{"instances":[${text}]}`,
      format: "row",
      signature: "serving_default",
      instances: 1,
    };
  }
  const { instances, signature_name: signature = "serving_default" } = value;
  return {
    text,
    format: instances === undefined ? "column" : "row",
    signature: typeof signature === "string" ? signature : "",
    instances: Array.isArray(instances) ? instances.length : 1,
  };
}

/** The requests of a file, to compare servers; the outputs are those of the first server. */
export function questionsOfRequests(
  asked: Pick<QuestionSource, "model" | "version" | "count">,
  requests: RequestsFile,
  server: RestServer,
): QuestionSource {
  const { digest, bodies } = requests;
  const known = new Map<string, Promise<readonly OutputSpec[]>>();
  const outputsOf = (signature: string): Promise<readonly OutputSpec[]> => {
    const outputs = known.get(signature) ?? server.outputsOf(asked, signature);
    known.set(excerpt(signature), outputs);
    return outputs;
  };
  return {
    ...asked,
    fingerprint: digest,
    count: Math.min(asked.count, bodies.length),
    question: async (number) => {
      const { text, signature, format, instances } = bodies[number]!;
      return { body: text, format, instances, outputs: await outputsOf(signature) };
    },
  };
}
