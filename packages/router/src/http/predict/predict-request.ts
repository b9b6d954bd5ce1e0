// The body of a predict request → named tensors, with TensorFlow Serving's checks, order and
// sentences (util/json_tensor.cc, FillPredictRequestFromJson). Two formats:
//
//   row      {"instances": ["42", "7"]}                    one value per instance, one input
//            {"instances": [{"user": "42", "item": "7"}]}  one object per instance
//   column   {"inputs": ["42", "7"]}                       one input
//            {"inputs": {"user": ["42"], "item": ["7"]}}
//
// The order decides which error a faulty request gets: JSON, type of signature_name, model and
// signature, then instances or inputs, then the number of inputs, then Winnow's own keys.

import { WinnowError, excerpt } from "@winnow/core";
import type { SignatureProgram, Tensor } from "@winnow/core";
import { dumpValue } from "../json/json-dump.ts";
import { KIND } from "../json/json-reader.ts";
import type { JsonReader, ValueIndex } from "../json/json-reader.ts";
import { JsonSyntaxError } from "../json/json-syntax-error.ts";
import { TensorReader, isBase64Object } from "./tensor-reader.ts";

/** How instances are laid out in the request, and therefore in the answer. */
export type PredictFormat = "row" | "column";

/** The part of a signature that reading a body needs. */
export type SignatureInputs = Pick<SignatureProgram, "name" | "inputs">;

/** The tensors of a request. */
export interface PredictInputs {
  readonly format: PredictFormat;
  /** First dimension of the inputs that have one; 1 if all are scalars. */
  readonly instances: number;
  readonly inputs: ReadonlyMap<string, Tensor>;
}

interface InputName {
  readonly text: string;
  readonly bytes: Uint8Array;
}

const DEFAULT_SIGNATURE = "serving_default";
const ROOT: ValueIndex = 0;
const SIGNATURE_NAME: Uint8Array = Buffer.from("signature_name");
const INSTANCES: Uint8Array = Buffer.from("instances");
const INPUTS: Uint8Array = Buffer.from("inputs");

/**
 * Parses a body, which must be a JSON object; `document` holds it until it reads another body.
 * @throws WinnowError INVALID_ARGUMENT.
 */
export function parseRequestBody(document: JsonReader, body: Uint8Array): void {
  if (body.length === 0) refuse("JSON Parse error: The document is empty");
  try {
    document.parse(body);
  } catch (error) {
    if (!(error instanceof JsonSyntaxError)) throw error;
    refuse(`JSON Parse error: ${error.message} at offset: ${error.offset}`);
  }
  if (document.kinds[ROOT] !== KIND.object) refuseWhole(document, "Is not object");
}

/** The signature that a body asks for; "" if it names none. @throws WinnowError INVALID_ARGUMENT. */
export function readSignatureName(document: JsonReader): string {
  const value = document.member(ROOT, SIGNATURE_NAME);
  if (value < 0) return "";
  if (document.kinds[value] !== KIND.string) {
    refuseWhole(document, "not formatted correctly. 'signature_name' key must be a string value.");
  }
  return Buffer.from(document.bytesOf(value)).toString("utf8");
}

/** The signature with this name, which must have inputs. @throws WinnowError INVALID_ARGUMENT. */
export function signatureNamed<Signature extends SignatureInputs>(
  signatures: readonly Signature[],
  name: string,
): Signature {
  const wanted = name === "" ? DEFAULT_SIGNATURE : name;
  const signature = signatures.find((candidate) => candidate.name === wanted);
  if (signature === undefined) {
    refuse(`Serving signature name: "${excerpt(wanted)}" not found in signature def`);
  }
  if (signature.inputs.length === 0) {
    refuse(`Failed to get input map for signature: ${name === "" ? "DEFAULT" : name}`);
  }
  return signature;
}

/** Reads the input tensors of a signature. @throws WinnowError INVALID_ARGUMENT. */
export function readPredictInputs(document: JsonReader, signature: SignatureInputs): PredictInputs {
  const instances = document.member(ROOT, INSTANCES);
  const inputs = document.member(ROOT, INPUTS);
  if (instances >= 0 && inputs >= 0) {
    refuseWhole(
      document,
      "Not formatted correctly expecting only one of 'inputs' or 'instances' keys to exist ",
    );
  }
  const target: Target = { document, signature, names: inputNamesOf(signature) };
  if (instances >= 0) return readRows(target, instances);
  if (inputs < 0) refuse("Missing 'inputs' or 'instances' key");
  const tensors = readColumns(target, inputs);
  // A scalar, such as a k, tells nothing about the batch.
  const first = [...tensors.values()].find(({ shape }) => shape.length > 0);
  return { format: "column", instances: first?.shape[0] ?? 1, inputs: tensors };
}

interface Target {
  readonly document: JsonReader;
  readonly signature: SignatureInputs;
  /** Ascending, as TensorFlow Serving lists them. */
  readonly names: readonly InputName[];
}

function readRows(target: Target, list: ValueIndex): PredictInputs {
  const { document, names } = target;
  if (document.kinds[list] !== KIND.array) {
    refuseWhole(document, "Expecting 'instances' to be an list/array");
  }
  const rows = document.from[list]!;
  if (rows === 0) refuseWhole(document, "No values in 'instances' array");
  const first = list + 1;
  if (document.kinds[first] !== KIND.object && names.length > 1) {
    refuse(
      "instances is a plain list, but expecting list of objects as multiple input tensors " +
        "required as per tensorinfo_map",
    );
  }
  const readers = isNamedRow(document, first)
    ? readNamedRows(target, list)
    : readPlainRows(target, list);
  checkInputCount(target, readers);
  const inputs = new Map(
    [...readers].map(([name, reader]) => [name, reader.finishRows(rows)] as const),
  );
  return { format: "row", instances: rows, inputs };
}

function isNamedRow(document: JsonReader, row: ValueIndex): boolean {
  return document.kinds[row] === KIND.object && !isBase64Object(document, row);
}

function readPlainRows(target: Target, list: ValueIndex): Map<string, TensorReader> {
  const { document, names } = target;
  const name = names[0]!.text;
  const reader = readerOf(target, name);
  const end = document.to[list]!;
  let element = 0;
  for (let row = list + 1; row < end; row = document.next(row), element++) {
    if (isNamedRow(document, row)) {
      refuse(`Expecting value/list but got object at item ${element} of input list`);
    }
    try {
      reader.addRow(row);
    } catch (error) {
      throw elementError(error, String(element));
    }
  }
  return new Map([[name, reader]]);
}

function readNamedRows(target: Target, list: ValueIndex): Map<string, TensorReader> {
  const { document, names } = target;
  const readers = names.map((name) => readerOf(target, name.text));
  const seenIn = new Int32Array(names.length).fill(-1);
  const end = document.to[list]!;
  let element = 0;
  for (let row = list + 1; row < end; row = document.next(row), element++) {
    if (!isNamedRow(document, row)) {
      refuse(`Expecting object but got list at item ${element} of input list`);
    }
    let seen = 0;
    const rowEnd = document.to[row]!;
    for (let key = row + 1; key < rowEnd; key = document.next(key + 1)) {
      const input = inputAt(target, key);
      if (input < 0) refuseForeignKey(document, key, element);
      if (seenIn[input] === element) continue;
      seenIn[input] = element;
      seen++;
      try {
        readers[input]!.addRow(key + 1);
      } catch (error) {
        throw elementError(error, `${element} key: ${names[input]!.text}`);
      }
    }
    if (seen < names.length) {
      refuse(
        `Failed to process element: ${element} of 'instances' list. JSON object: ` +
          `${dumpValue(document, row)} keys must be equal to: ` +
          names.map((name) => name.text).join(","),
      );
    }
  }
  return new Map(names.map((name, index) => [name.text, readers[index]!]));
}

/** The position of the input that a key names, or -1. */
function inputAt(target: Target, key: ValueIndex): number {
  const { names, document } = target;
  for (let index = 0; index < names.length; index++) {
    if (document.isText(key, names[index]!.bytes)) return index;
  }
  return -1;
}

function refuseForeignKey(document: JsonReader, key: ValueIndex, element: number): never {
  const name = excerpt(Buffer.from(document.bytesOf(key)).toString("utf8"));
  refuse(
    `Failed to process element: ${element} key: ${name} of 'instances' list. Error: ` +
      `INVALID_ARGUMENT: JSON object: does not have named input: ${name}`,
  );
}

/** An error of one element, reported as an error of its list. */
function elementError(error: unknown, element: string): unknown {
  if (!(error instanceof WinnowError)) return error;
  return new WinnowError(
    error.code,
    `Failed to process element: ${element} of 'instances' list. Error: ${error.code}: ` +
      error.message,
  );
}

function readColumns(target: Target, value: ValueIndex): ReadonlyMap<string, Tensor> {
  const { document, names } = target;
  if (isNamedRow(document, value)) {
    return new Map(names.map((name) => [name.text, readColumn(target, value, name)] as const));
  }
  if (names.length > 1) {
    refuse(
      "inputs is a plain value/list, but expecting an object as multiple input tensors required " +
        "as per tensorinfo_map",
    );
  }
  const name = names[0]!.text;
  return new Map([[name, readerOf(target, name).readWhole(value)]]);
}

function readColumn(target: Target, object: ValueIndex, name: InputName): Tensor {
  const value = target.document.member(object, name.bytes);
  if (value < 0) refuse(`Missing named input: ${name.text} in 'inputs' object.`);
  return readerOf(target, name.text).readWhole(value);
}

function readerOf(target: Target, name: string): TensorReader {
  const input = target.signature.inputs.find((candidate) => candidate.name === name)!;
  return new TensorReader(target.document, input.dtype);
}

/** A base64 object in a row is taken for a value, even if several inputs are wanted. */
function checkInputCount(target: Target, found: ReadonlyMap<string, unknown>): void {
  const names = target.names.map((name) => name.text);
  if (found.size === names.length) return;
  const missing = names.filter((name) => !found.has(name));
  refuse(
    `input size does not match signature: ${found.size}!=${names.length} ` +
      `len({${[...found.keys()].join(",")}}) != len({${names.join(",")}}). Sent extra: {}. ` +
      `Missing but required: {${missing.join(",")}}.`,
  );
}

const namesOfSignatures = new WeakMap<SignatureInputs, readonly InputName[]>();

function inputNamesOf(signature: SignatureInputs): readonly InputName[] {
  const known = namesOfSignatures.get(signature);
  if (known !== undefined) return known;
  const names = signature.inputs
    .map((input) => ({ text: input.name, bytes: Buffer.from(input.name) }))
    .toSorted((one, other) => one.bytes.compare(other.bytes));
  namesOfSignatures.set(signature, names);
  return names;
}

function refuseWhole(document: JsonReader, problem: string): never {
  refuse(`JSON Value: ${dumpValue(document, ROOT)} ${problem}`);
}

function refuse(message: string): never {
  throw new WinnowError("INVALID_ARGUMENT", message);
}
