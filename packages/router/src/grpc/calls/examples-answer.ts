// `ClassificationResponse`, `RegressionResponse` and `MultiInferenceResponse` as bytes (tensorflow_serving/apis).

import { ProtobufWriter, WinnowError } from "@winnow/core";
import { turnMeter } from "../../turns/turns.ts";
import type { Steps } from "../../turns/turns.ts";
import type { Classifications } from "../../examples/example-results.ts";

/** One result, and which version and signature gave it. */
export interface ExamplesAnswer {
  readonly model: string;
  readonly version: number;
  readonly signatureName: string;
  readonly result:
    | { readonly kind: "classify"; readonly found: Classifications }
    | { readonly kind: "regress"; readonly values: Float32Array };
}

/** Fields of `ClassificationResponse` and `RegressionResponse`. */
const RESPONSE = { result: 1, modelSpec: 2 } as const;
/** Fields of `InferenceResult`. */
const INFERENCE = { modelSpec: 1, classify: 2, regress: 3 } as const;
const SPEC = { name: 1, version: 2, signatureName: 3 } as const;
const INT64_VALUE = 1;
const RESULTS = 1;
const CLASSIFICATIONS = 1;
const CLASSES = 1;
const CLASS = { label: 1, score: 2 } as const;
const REGRESSIONS = 1;
const REGRESSION_VALUE = 1;
/** Steps in which a class is written: some ten calls. */
const WORK_PER_CLASS = 8;

/** Writes the response of Classify or Regress. @throws WinnowError RESOURCE_EXHAUSTED for more than `bytesMax` */
export function* writeExamplesAnswer(answer: ExamplesAnswer, bytesMax: number): Steps<Buffer> {
  const writer = new ProtobufWriter();
  writer.begin(RESPONSE.result);
  yield* writeResult(writer, answer.result, bytesMax);
  writer.end().message(RESPONSE.modelSpec, (spec) => writeSpec(spec, answer));
  return finished(writer, bytesMax);
}

/** Writes the response of MultiInference. @throws WinnowError RESOURCE_EXHAUSTED for more than `bytesMax` */
export function* writeInferenceAnswer(
  answers: readonly ExamplesAnswer[],
  bytesMax: number,
): Steps<Buffer> {
  const writer = new ProtobufWriter();
  for (const answer of answers) {
    writer.begin(RESULTS).message(INFERENCE.modelSpec, (spec) => writeSpec(spec, answer));
    writer.begin(INFERENCE[answer.result.kind]);
    yield* writeResult(writer, answer.result, bytesMax);
    writer.end().end();
  }
  return finished(writer, bytesMax);
}

function writeSpec(
  writer: ProtobufWriter,
  { model, version, signatureName }: Omit<ExamplesAnswer, "result">,
): void {
  writer.text(SPEC.name, model);
  writer.message(SPEC.version, (wrapped) => {
    if (version !== 0) wrapped.int(INT64_VALUE, version);
  });
  writer.text(SPEC.signatureName, signatureName);
}

function* writeResult(
  writer: ProtobufWriter,
  result: ExamplesAnswer["result"],
  bytesMax: number,
): Steps<void> {
  if (result.kind === "classify") return yield* writeClasses(writer, result.found, bytesMax);
  for (const value of result.values) {
    writer.begin(REGRESSIONS);
    writeFloat(writer, REGRESSION_VALUE, value);
    writer.end();
  }
}

function* writeClasses(
  writer: ProtobufWriter,
  { instances, classes, labels, scores }: Classifications,
  bytesMax: number,
): Steps<void> {
  const isTurnOver = turnMeter();
  for (let instance = 0; instance < instances; instance += 1) {
    writer.begin(CLASSIFICATIONS);
    for (let at = instance * classes; at < (instance + 1) * classes; at += 1) {
      writer.begin(CLASSES);
      const label = labels?.at(at);
      if (label !== undefined && label.length > 0) writer.bytes(CLASS.label, label);
      writeFloat(writer, CLASS.score, scores?.[at] ?? 0);
      writer.end();
      if (!isTurnOver(WORK_PER_CLASS)) continue;
      checkBytes(writer, bytesMax);
      yield;
    }
    writer.end();
  }
}

/** Zero is what a field without a value means; −0 is not. */
function writeFloat(writer: ProtobufWriter, field: number, value: number): void {
  if (!Object.is(value, 0)) writer.float(field, value);
}

function finished(writer: ProtobufWriter, bytesMax: number): Buffer {
  checkBytes(writer, bytesMax);
  return writer.finish();
}

function checkBytes(writer: ProtobufWriter, bytesMax: number): void {
  if (writer.size <= bytesMax) return;
  const text = `The answer has more than the ${bytesMax} bytes that are sent`;
  throw new WinnowError("RESOURCE_EXHAUSTED", `${text}: ask for fewer instances`);
}
