// The body of a classify or regress request, checked as TensorFlow Serving checks it (util/json_tensor.cc,
// FillClassifyRegressRequestFromJson). Winnow does not run such signatures; the checks exist so that a faulty
// request gets the same error as there.

import { WinnowError, excerpt } from "@winnow/core";
import type { ModelProgram } from "@winnow/core";
import { dumpValue } from "../json/json-dump.ts";
import { KIND } from "../json/json-reader.ts";
import type { JsonReader, ValueIndex } from "../json/json-reader.ts";
import { decodeBase64Object, isBase64Object } from "./tensor-reader.ts";

const ROOT: ValueIndex = 0;
const CONTEXT: Uint8Array = Buffer.from("context");
const EXAMPLES: Uint8Array = Buffer.from("examples");
const TYPE_NAMES = ["Null", "False", "True", "Object", "Array", "String", "Number", "Number"];
const INT64_LIMIT = 2 ** 63;

/** Refuses bodies that are not lists of examples. @throws WinnowError INVALID_ARGUMENT. */
export function checkExamples(document: JsonReader): void {
  const context = document.member(ROOT, CONTEXT);
  if (context >= 0) checkExample(document, context);
  const examples = document.member(ROOT, EXAMPLES);
  if (examples < 0) {
    refuseWhole(document, "When method is classify, key 'examples' is expected and was not found");
  }
  if (document.kinds[examples] !== KIND.array) {
    refuseWhole(document, "Expecting 'examples' value to be an list/array");
  }
  if (document.from[examples] === 0) refuseWhole(document, "'examples' value is an empty array");
  for (const example of childrenOf(document, examples)) checkExample(document, example);
}

/** The error for a well-formed request for `method`. */
export function examplesError(
  method: "classify" | "regress",
  program: ModelProgram,
  signatureName: string,
): WinnowError {
  const wanted = signatureName === "" ? "serving_default" : signatureName;
  const signature = program.signatures.find((candidate) => candidate.name === wanted);
  if (signature === undefined) {
    return invalid(`No signature was found with the name: ${excerpt(wanted)}`);
  }
  const methodName = `tensorflow/serving/${method}`;
  const noun = method === "classify" ? "classification" : "regression";
  if (signature.methodName !== methodName) {
    return invalid(
      `Expected ${noun} signature method_name to be ${methodName}. Was: ${signature.methodName}`,
    );
  }
  return new WinnowError("UNIMPLEMENTED", `Cannot run ${methodName}; ask with :predict`);
}

function checkExample(document: JsonReader, example: ValueIndex): void {
  if (document.kinds[example] !== KIND.object) {
    const type = TYPE_NAMES[document.kinds[example]!];
    throw invalid(`Example must be JSON object but got JSON ${type}`);
  }
  const end = document.to[example]!;
  for (let key = example + 1; key < end; key = document.next(key + 1)) {
    const name = excerpt(Buffer.from(document.bytesOf(key)).toString("utf8"));
    const isList = document.kinds[key + 1] === KIND.array;
    const values = isList ? childrenOf(document, key + 1) : [key + 1];
    checkFeature(document, name, values);
  }
}

/** The values of one feature are all bytes, all floats or all int64. */
function checkFeature(document: JsonReader, name: string, values: Iterable<ValueIndex>): void {
  let expected: string | undefined;
  for (const value of values) {
    const kind = featureKindOf(document, value);
    if (kind === undefined) {
      const type = TYPE_NAMES[document.kinds[value]!];
      throw invalid(`Feature: ${name} has element with unexpected JSON type: ${type}`);
    }
    expected ??= kind;
    if (kind !== expected) {
      throw invalid(`Unexpected element type in feature: ${name} expecting type: ${expected}`);
    }
    if (document.kinds[value] === KIND.object) decodeBase64Object(document, value);
    if (kind === "int64" && document.numbers[value]! >= INT64_LIMIT) {
      throw invalid(`Feature: ${name} has uint64_t element. Only int64_t is supported.`);
    }
  }
}

function featureKindOf(document: JsonReader, value: ValueIndex): string | undefined {
  switch (document.kinds[value]!) {
    case KIND.string:
      return "bytes";
    case KIND.object:
      return isBase64Object(document, value) ? "bytes" : undefined;
    case KIND.double:
      return "float";
    case KIND.integer:
    case KIND.true:
    case KIND.false:
      return "int64";
    default:
      return undefined;
  }
}

function* childrenOf(document: JsonReader, parent: ValueIndex): Generator<ValueIndex> {
  const end = document.to[parent]!;
  for (let child = parent + 1; child < end; child = document.next(child)) yield child;
}

function refuseWhole(document: JsonReader, problem: string): never {
  throw invalid(`JSON Value: ${dumpValue(document, ROOT)} ${problem}`);
}

function invalid(message: string): WinnowError {
  return new WinnowError("INVALID_ARGUMENT", message);
}
