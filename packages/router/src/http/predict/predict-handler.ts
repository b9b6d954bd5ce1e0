// One predict request from bytes to bytes. The model is pinned before the JSON is read, but an error of
// pinning is reported only after the JSON was found to be well-formed: that is TensorFlow Serving's order.
//
//   body ─▶ pin ─▶ parse ─▶ signature ─▶ inputs, k, exclude ─▶ predict ─▶ write ─▶ answer
//           └── released once, whatever happens after it ────────────────┘
//
// Requests of the Open Inference Protocol, and those that classify or regress, go the same way; only their reading and
// writing differ.

import { WinnowError } from "@winnow/core";
import type { SignatureProgram, VersionKey } from "@winnow/core";
import { degradedText, unknownUsersText } from "../../predictor.ts";
import type {
  Degradation,
  UnknownUsers,
  PinnedModel,
  Prediction,
  PredictRequest,
  Predictor,
} from "../../predictor.ts";
import { inferenceAnswer } from "./inference/inference-response.ts";
import type { BodyParser } from "./body-parser.ts";
import { exampleSignature } from "../../examples/example-signature.ts";
import type { ExampleMethod } from "../../examples/example-signature.ts";
import type { AskedPrediction, BodyContent, BodyQuestion } from "./body-reading.ts";
import { writeExampleResults } from "./examples-response.ts";
import type { HttpAnswer } from "../http-answer.ts";
import { signatureNamed } from "./predict-request.ts";
import { writePrediction, writeShortPrediction } from "./predict-response.ts";
import type { RequestContext } from "../../request-context.ts";
import type { RequestBody } from "../body/request-body.ts";
import type { NamedModel } from "../request-path.ts";

/** One request to predict. */
export interface PredictCall {
  readonly model: NamedModel;
  readonly body: RequestBody;
  readonly allowPartial: boolean;
  /** A header, by its name in lower case. */
  readonly header?: PredictRequest["header"];
  readonly context: RequestContext;
  /** For the Open Inference Protocol: bytes of the JSON, if binary data follow it. */
  readonly inference?: { readonly jsonBytes: number | undefined } | undefined;
  /** For a request of tf.Examples: what is asked. */
  readonly examples?: ExampleMethod | undefined;
}

/** An answer, the number of its instances, and the fraction of the partitions that it covers. */
export interface PredictAnswer {
  readonly answer: HttpAnswer;
  readonly instances: number;
  readonly coverage: number;
  /** Number of keys of the body that have no meaning. */
  readonly ignoredKeys: number;
  /** What the answer of a pipeline or an experiment lacks. */
  readonly degradations: readonly Degradation[];
  /** Of a pipeline: users that its model does not know. */
  readonly unknownUsers: readonly UnknownUsers[];
}

/** Answers predict requests. */
export class PredictHandler {
  readonly #predictor: Predictor;
  readonly #parser: BodyParser;

  constructor(predictor: Predictor, parser: BodyParser) {
    this.#predictor = predictor;
    this.#parser = parser;
  }

  /** Answers a request. @throws WinnowError as the request or the cluster is at fault. */
  async predict(call: PredictCall): Promise<PredictAnswer> {
    const pinning = await settled(() => pinModel(this.#predictor, call.model));
    try {
      const { context } = call;
      const reading = context.stage("read", () => this.#read(call, pinning));
      const { request, asked } = reading instanceof Promise ? await reading : reading;
      const pinned = pinnedOf(pinning);
      context.signal.throwIfAborted();
      const prediction = await this.#predictor.predict(pinned, request);
      const writing = context.stage("write", () => this.#write(prediction, asked, call.examples));
      const answer = writing instanceof Promise ? await writing : writing;
      const { coverage, degradations = [], unknownUsers = [] } = prediction;
      const { instances, ignored } = asked;
      const ignoredKeys = ignored.length;
      return { answer, instances, coverage, ignoredKeys, degradations, unknownUsers };
    } finally {
      if (pinning.status === "fulfilled") pinning.value.release();
    }
  }

  #read(
    call: PredictCall,
    pinning: PromiseSettledResult<PinnedModel>,
  ): ReadRequest | Promise<ReadRequest> {
    const signatures =
      pinning.status === "fulfilled" ? pinning.value.program.signatures : undefined;
    const { body, context } = call;
    const question = questionOf(call, signatures);
    const reading = this.#parser.read(body, question, context.signal);
    const requestOf = (content: BodyContent): ReadRequest =>
      this.#requestOf(call, pinnedOf(pinning), content);
    return reading instanceof Promise ? reading.then(requestOf) : requestOf(reading);
  }

  #requestOf(
    { context, allowPartial, header, examples }: PredictCall,
    { program }: PinnedModel,
    { signatureName, asked }: BodyContent,
  ): ReadRequest {
    if (asked === undefined) throw new RangeError("a body was read without its inputs");
    const signature =
      examples === undefined
        ? signatureNamed(program.signatures, signatureName)
        : exampleSignature(program, examples, signatureName);
    // Copied one by one: V8 copies the rest of an object by looking up each name.
    const request = {
      signature,
      context,
      allowPartial,
      header,
      inputs: asked.inputs,
      k: asked.k,
      exclude: asked.exclude,
      include: asked.include,
      filter: asked.filter,
      attributes: asked.attributes,
      vectors: asked.vectors,
      explain: asked.explain,
    };
    return { request, asked };
  }

  #write(
    prediction: Prediction,
    { format, ignored, inference, instances }: AskedPrediction,
    method: ExampleMethod | undefined,
  ): HttpAnswer | Promise<HttpAnswer> {
    const { limits } = this.#predictor;
    if (inference !== undefined) {
      const withHeaders = (answer: HttpAnswer): HttpAnswer => {
        const { status, headers, body } = answer;
        return { status, headers: { ...headersOf(prediction, ignored), ...headers }, body };
      };
      return inferenceAnswer(prediction, inference, limits).then(withHeaders);
    }
    const answerOf = (body: Buffer): HttpAnswer => ({
      status: 200,
      headers: headersOf(prediction, ignored),
      body,
    });
    if (method !== undefined) {
      const { outputs } = prediction;
      return writeExampleResults({ method, outputs, instances }, limits).then(answerOf);
    }
    const short = writeShortPrediction(prediction, format, limits);
    if (short !== undefined) return answerOf(short);
    return writePrediction(prediction, format, limits).then(answerOf);
  }
}

/** What was read of a request. */
interface ReadRequest {
  readonly request: PredictRequest;
  readonly asked: AskedPrediction;
}

/** How the body of a request is to be read. */
function questionOf(
  { inference, examples }: PredictCall,
  signatures: readonly SignatureProgram[] | undefined,
): BodyQuestion {
  if (inference !== undefined) return { kind: "infer", signatures, ...inference };
  return examples === undefined ? { kind: "predict", signatures } : { kind: "examples" };
}

/** The headers of an answer; the type is that of JSON. */
function headersOf(
  { version, coverage, members, arms, degradations, unknownUsers }: Prediction,
  ignored: readonly string[],
): Record<string, string> {
  const headers: Record<string, string> = {
    "content-type": "application/json",
    "x-winnow-model-version": String(version.version),
    "x-winnow-coverage": coverageText(coverage),
  };
  const degraded = degradedText(degradations);
  const unknown = unknownUsersText(unknownUsers);
  if (members !== undefined) headers["x-winnow-pipeline-versions"] = membersText(members);
  if (arms !== undefined) headers["x-winnow-arm"] = arms;
  if (degraded !== undefined) headers["x-winnow-degraded"] = degraded;
  if (unknown !== undefined) headers["x-winnow-unknown-users"] = unknown;
  if (ignored.length > 0) headers["x-winnow-ignored"] = ignored.join(", ");
  return headers;
}

/** `movies=3, movies-ranking=7`; characters that a header's name cannot have are percent-encoded. */
function membersText(members: readonly VersionKey[]): string {
  return members.map(({ model, version }) => `${encodeURIComponent(model)}=${version}`).join(", ");
}

/** Pins the model that a URL names. @throws WinnowError as `Predictor.pin`. */
export function pinModel(predictor: Predictor, model: NamedModel): Promise<PinnedModel> {
  if (model.unsafeVersion === undefined) return predictor.pin(model);
  const wanted = `Specific(${model.model}, ${model.unsafeVersion})`;
  throw new WinnowError("NOT_FOUND", `Servable not found for request: ${wanted}`);
}

async function settled<Value>(work: () => Promise<Value>): Promise<PromiseSettledResult<Value>> {
  try {
    return { status: "fulfilled", value: await work() };
  } catch (reason) {
    return { status: "rejected", reason };
  }
}

function pinnedOf(pinning: PromiseSettledResult<PinnedModel>): PinnedModel {
  if (pinning.status === "rejected") throw pinning.reason;
  return pinning.value;
}

/** 1, or a fraction with six digits that is never rounded up to 1. */
function coverageText(coverage: number): string {
  if (coverage >= 1) return "1";
  return String(Math.floor(coverage * 1e6) / 1e6);
}
