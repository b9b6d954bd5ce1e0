// The body of a classify or regress request, checked as TensorFlow Serving checks it (util/json_tensor.cc,
// FillClassifyRegressRequestFromJson), becomes serialized tf.Examples, which the graph parses
// (tensorflow/core/example/example.proto):
//
//   {"context": {"country": "NZ"}, "examples": [{"user_id": 42, "genres": ["Drama", "War"]}, …]}

import {
  EXAMPLES_INPUT,
  ProtobufWriter,
  WinnowError,
  exampleColumn,
  excerpt,
  tensor,
} from "@winnow/core";
import { checkInstances } from "../../limits/request-limits.ts";
import type { RequestLimits } from "../../limits/request-limits.ts";
import { dumpValue } from "../json/json-dump.ts";
import { KIND } from "../json/json-reader.ts";
import type { JsonReader, ValueIndex } from "../json/json-reader.ts";
import type { PredictInputs } from "./predict-request.ts";
import { bigIntegerOf } from "./tensor-leaves.ts";
import { decodeBase64Object, isBase64Object } from "./tensor-reader.ts";

const ROOT: ValueIndex = 0;
const CONTEXT: Uint8Array = Buffer.from("context");
const EXAMPLES: Uint8Array = Buffer.from("examples");
const TYPE_NAMES = ["Null", "False", "True", "Object", "Array", "String", "Number", "Number"];
const INT64_LIMIT = 2n ** 63n;

/** `Example.features`, and `Features.feature`, a map. */
const FEATURES = 1;
const FEATURE = 1;
const KEY = 1;
const VALUE = 2;
/** The list of `Feature` that holds values of a kind, whose own field of values is `VALUES`. */
const LIST_OF = { bytes: 1, float: 2, int64: 3 } as const;
const VALUES = 1;

type FeatureKind = keyof typeof LIST_OF;

/** Reads the list of examples. @throws WinnowError INVALID_ARGUMENT */
export function readExamples(
  document: JsonReader,
  limits: Pick<RequestLimits, "instancesMax">,
): PredictInputs {
  const context = document.member(ROOT, CONTEXT);
  const common = context < 0 ? new Uint8Array() : serialized(document, context);
  const examples = document.member(ROOT, EXAMPLES);
  if (examples < 0) {
    refuseWhole(document, "When method is classify, key 'examples' is expected and was not found");
  }
  if (document.kinds[examples] !== KIND.array) {
    refuseWhole(document, "Expecting 'examples' value to be an list/array");
  }
  const instances = document.from[examples]!;
  if (instances === 0) refuseWhole(document, "'examples' value is an empty array");
  checkInstances(instances, limits);
  const each = document.children(examples).map((one) => serialized(document, one));
  const column = exampleColumn(common, each);
  const inputs = new Map([[EXAMPLES_INPUT, tensor("string", [instances], column)]]);
  return { format: "row", instances, inputs };
}

/** An object of features as a serialized tf.Example. */
function serialized(document: JsonReader, example: ValueIndex): Uint8Array {
  if (document.kinds[example] !== KIND.object) {
    const type = TYPE_NAMES[document.kinds[example]!];
    throw invalid(`Example must be JSON object but got JSON ${type}`);
  }
  const end = document.to[example]!;
  const writer = new ProtobufWriter();
  writer.begin(FEATURES);
  for (let key = example + 1; key < end; key = document.next(key + 1)) {
    const name = document.bytesOf(key);
    const isList = document.kinds[key + 1] === KIND.array;
    const values = isList ? document.children(key + 1) : [key + 1];
    const kind = checkedKind(document, excerpt(Buffer.from(name).toString("utf8")), values);
    writer.begin(FEATURE).bytes(KEY, name).begin(VALUE);
    if (kind !== undefined) writeValues(writer, kind, { document, values });
    writer.end().end();
  }
  return writer.end().finish();
}

/** Values of one kind. */
interface FeatureValues {
  readonly document: JsonReader;
  readonly values: readonly ValueIndex[];
}

function writeValues(
  writer: ProtobufWriter,
  kind: FeatureKind,
  { document, values }: FeatureValues,
): void {
  writer.begin(LIST_OF[kind]);
  for (const value of values) {
    if (kind === "bytes") writer.bytes(VALUES, bytesAt(document, value));
    else if (kind === "float") writer.float(VALUES, document.numbers[value]!);
    else writer.int(VALUES, integerAt(document, value));
  }
  writer.end();
}

function bytesAt(document: JsonReader, value: ValueIndex): Uint8Array {
  const isObject = document.kinds[value] === KIND.object;
  return isObject ? decodeBase64Object(document, value) : document.bytesOf(value);
}

function integerAt(document: JsonReader, value: ValueIndex): bigint {
  const kind = document.kinds[value];
  if (kind === KIND.integer) return bigIntegerOf(document, value);
  return kind === KIND.true ? 1n : 0n;
}

/** The values of one feature are all bytes, all floats or all int64; of none there is no kind. */
function checkedKind(
  document: JsonReader,
  name: string,
  values: readonly ValueIndex[],
): FeatureKind | undefined {
  let expected: FeatureKind | undefined;
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
    if (kind === "int64" && integerAt(document, value) >= INT64_LIMIT) {
      throw invalid(`Feature: ${name} has uint64_t element. Only int64_t is supported.`);
    }
  }
  return expected;
}

function featureKindOf(document: JsonReader, value: ValueIndex): FeatureKind | undefined {
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

function refuseWhole(document: JsonReader, problem: string): never {
  throw invalid(`JSON Value: ${dumpValue(document, ROOT)} ${problem}`);
}

function invalid(message: string): WinnowError {
  return new WinnowError("INVALID_ARGUMENT", message);
}
