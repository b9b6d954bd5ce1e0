// Winnow's own keys beside those of TensorFlow Serving, which ignores keys that it does not know: `k` is the
// number of candidates, in place of the model's; `exclude` lists items that must not be returned, `include`
// the only ones that may be; `filter` is a condition on the attributes of items; `return` names the
// attributes wanted.
//
//   {"instances": ["42", "7"], "k": 3, "exclude": ["Heat (1995)"]}             for all instances
//   {"instances": ["42", "7"], "exclude": [["Heat (1995)"], []]}              one list each
//   {"instances": ["42"], "filter": {"year": {"$gte": 1990}}, "return": ["title", "year"]}
//   {"instances": ["42"], "return_vectors": true}                             the vectors of the items

import { WinnowError, parseFilter } from "@winnow/core";
import type { Dtype, Filter, JsonValue, Tensor } from "@winnow/core";
import { shownValue } from "../json/json-dump.ts";
import { KIND } from "../json/json-reader.ts";
import type { JsonReader, ValueIndex } from "../json/json-reader.ts";
import { jsonValue } from "../json/json-value.ts";
import type { ItemConditions } from "../../predictor.ts";
import { checkK, checkListedIds } from "../../limits/request-limits.ts";
import type { RequestLimits } from "../../limits/request-limits.ts";
import { TensorReader } from "./tensor-reader.ts";

const ROOT: ValueIndex = 0;
/** A field of a request. */
type ExtensionField = "k" | IdField | "filter" | "return" | FlagField;

/** The fields that are true or false. */
type FlagField = "return_vectors" | "explain";

/** Names of the fields as a body has them. */
const FIELDS: Readonly<Record<ExtensionField, Uint8Array>> = {
  k: Buffer.from("k"),
  exclude: Buffer.from("exclude"),
  include: Buffer.from("include"),
  filter: Buffer.from("filter"),
  return: Buffer.from("return"),
  return_vectors: Buffer.from("return_vectors"),
  explain: Buffer.from("explain"),
};
/** Attributes that one request may want. */
const RETURNED_MAX = 64;
/**
 * All filters of a request: JSON values, and bytes of names, texts and numbers. More bytes than this would keep the
 * event loop busy, where filters are compared.
 */
export const FILTER_TEXT_LIMITS = { valuesMax: 65_536, bytesMax: 4_194_304 };

/** A value of a document, with its document. */
interface FieldValue {
  readonly document: JsonReader;
  readonly value: ValueIndex;
}

const PLAIN_FIELDS: ReadonlySet<ExtensionField> = new Set(["k", "return_vectors", "explain"]);

/** Whether a protocol of plain values has a field as a text of JSON: a list or an object. */
export function isWrittenAsText(field: ExtensionField): boolean {
  return !PLAIN_FIELDS.has(field);
}

/** Finds the value of a field, wherever the protocol puts it. */
export type FieldReader = (field: ExtensionField) => FieldValue | undefined;

/** Finds fields among the members of an object, by default of the whole document. */
export function fieldsOf(document: JsonReader, object: ValueIndex = ROOT): FieldReader {
  return (field) => {
    const value = document.member(object, FIELDS[field]);
    return value < 0 ? undefined : { document, value };
  };
}

/** The fields of a request. */
export interface RequestExtensions extends ItemConditions {
  /** Whether the answer explains what the stages of a pipeline did. */
  readonly explain: boolean | undefined;
}

/** Reads all fields, for a request of this many instances. @throws WinnowError INVALID_ARGUMENT. */
export function readExtensions(
  fields: FieldReader,
  instances: number,
  limits: Pick<RequestLimits, "kMax" | "excludedIdsMax">,
): RequestExtensions {
  const k = readK(fields, limits);
  const exclude = readIds(fields, { field: "exclude", instances }, limits);
  const include = readIds(fields, { field: "include", instances }, limits);
  const filter = readFilters(fields, instances);
  const attributes = readReturned(fields);
  const vectors = readFlag(fields, "return_vectors");
  const explain = readFlag(fields, "explain");
  return { k, exclude, include, filter, attributes, vectors, explain };
}

/** The `k` of the request, if it has one. @throws WinnowError INVALID_ARGUMENT. */
function readK(fields: FieldReader, limits: Pick<RequestLimits, "kMax">): number | undefined {
  const found = fields("k");
  if (found === undefined) return undefined;
  const { document, value } = found;
  const k = document.kinds[value] === KIND.integer ? document.numbers[value]! : Number.NaN;
  checkK(k, limits, () => shownValue(document, value));
  return k;
}

/** Keys that have a meaning, as bytes of a body. */
export type KnownKeys = readonly Uint8Array[];

/** Keys as bytes of a body. */
export function namesOfKeys(names: readonly string[]): KnownKeys {
  return names.map((name) => Buffer.from(name));
}

/** Keys that a body may have. TensorFlow Serving silently ignores all others. */
const KNOWN_KEYS: KnownKeys = [
  ...namesOfKeys(["instances", "inputs", "signature_name"]),
  ...Object.values(FIELDS),
];
/** Ignored keys that are named, and characters of each. */
const NAMED_MAX = 8;
const NAMED_CHARACTERS_MAX = 64;

/** Names of some ignored members of an object, in a form that a header can hold. */
export function readIgnoredKeys(
  document: JsonReader,
  object: ValueIndex = ROOT,
  known: KnownKeys = KNOWN_KEYS,
): readonly string[] {
  const ignored: string[] = [];
  const end = document.to[object]!;
  for (let key = object + 1; key < end; key = document.next(key + 1)) {
    if (isOneOf(document, key, known)) continue;
    ignored.push(headerName(document.bytesOf(key)));
    if (ignored.length === NAMED_MAX) break;
  }
  return ignored;
}

function isOneOf(document: JsonReader, key: ValueIndex, known: KnownKeys): boolean {
  for (const name of known) if (document.isText(key, name)) return true;
  return false;
}

/** A client's name as it may stand in a list in a header: its beginning, "?" for what may not. */
export function headerName(bytes: Uint8Array): string {
  return latin1Of(bytes).replaceAll(/[^!-+\--~]/g, "?");
}

function latin1Of(bytes: Uint8Array): string {
  return Buffer.from(bytes.subarray(0, NAMED_CHARACTERS_MAX)).toString("latin1");
}

/** The fields that list ids. */
type IdField = "exclude" | "include";

/** Listed ids: one tensor for all instances or one per instance. @throws WinnowError. */
function readIds(
  fields: FieldReader,
  { field, instances }: { readonly field: IdField; readonly instances: number },
  limits: Pick<RequestLimits, "excludedIdsMax">,
): readonly Tensor[] | undefined {
  const found = fields(field);
  if (found === undefined) return undefined;
  const { document, value } = found;
  if (document.kinds[value] !== KIND.array) {
    refuse(`"${field}" is ${shownValue(document, value)}; it must be a list of item ids`);
  }
  const elements = document.from[value]!;
  // A list with more elements than instances holds ids, or too many lists; neither is read if there are too many.
  if (elements > instances) checkListedIds(elements, limits, field);
  const lists = listsOf(document, value, field);
  if (lists[0] !== value && lists.length !== instances) {
    refuse(`"${field}" has ${lists.length} lists for ${instances} instances; give one for each`);
  }
  checkListedIds(
    lists.reduce((sum, list) => sum + document.from[list]!, 0),
    limits,
    field,
  );
  const dtype = idDtypeOf(document, lists, field);
  return lists.map((list) => new TensorReader(document, dtype).readWhole(list));
}

/** Filters: one for all instances or one per instance, null for none. @throws WinnowError. */
function readFilters(fields: FieldReader, instances: number): readonly Filter[] | undefined {
  const found = fields("filter");
  if (found === undefined) return undefined;
  const { document, value } = found;
  if (document.kinds[value] === KIND.null) return undefined;
  const filters = jsonValue(document, value, { where: '"filter"', ...FILTER_TEXT_LIMITS });
  return filtersOf(filters, instances);
}

/** Names of attributes to give with each item. @throws WinnowError. */
function readReturned(fields: FieldReader): readonly string[] | undefined {
  const found = fields("return");
  if (found === undefined) return undefined;
  const { document, value } = found;
  const isList = document.kinds[value] === KIND.array;
  const names = isList ? document.children(value) : [];
  const isRight = isList && names.every((name) => document.kinds[name] === KIND.string);
  if (!isRight) {
    refuse(`"return" is ${shownValue(document, value)}; it must be a list of names of attributes`);
  }
  return returnedNames(names.map((name) => Buffer.from(document.bytesOf(name)).toString("utf8")));
}

function readFlag(fields: FieldReader, field: FlagField): boolean | undefined {
  const found = fields(field);
  if (found === undefined) return undefined;
  const { document, value } = found;
  const kind = document.kinds[value];
  if (kind === KIND.true || kind === KIND.false) return kind === KIND.true;
  refuse(`"${field}" is ${shownValue(document, value)}; it must be true or false`);
}

/** One filter, or a list of one for each instance. @throws WinnowError INVALID_ARGUMENT */
export function filtersOf(filters: JsonValue, instances: number): readonly Filter[] {
  if (!Array.isArray(filters)) return [parseFilter(filters)];
  const list = filters as readonly JsonValue[];
  if (list.length !== instances) {
    refuse(`"filter" has ${list.length} filters for ${instances} instances; give one for each`);
  }
  return list.map((each) => (each === null ? { kind: "and", of: [] } : parseFilter(each)));
}

/** The names, each once. @throws WinnowError INVALID_ARGUMENT */
export function returnedNames(names: readonly string[]): readonly string[] {
  const distinct = [...new Set(names)];
  if (distinct.length <= RETURNED_MAX) return distinct;
  refuse(`"return" has ${distinct.length} names; at most ${RETURNED_MAX} are allowed`);
}

function listsOf(document: JsonReader, value: ValueIndex, field: IdField): readonly ValueIndex[] {
  const elements = document.children(value);
  const nested = elements.filter((element) => document.kinds[element] === KIND.array);
  if (nested.length === 0) return [value];
  if (nested.length === elements.length) return nested;
  refuse(`"${field}" mixes ids and lists; it must be one list of ids, or a list of such lists`);
}

/** Ids are all strings (or base64 objects) or all integers. */
function idDtypeOf(document: JsonReader, lists: readonly ValueIndex[], field: IdField): Dtype {
  let dtype: Dtype | undefined;
  for (const id of lists.flatMap((list) => document.children(list))) {
    const idDtype = dtypeOfId(document, id);
    if (idDtype === undefined) {
      refuse(`"${field}" holds ${shownValue(document, id)}; an id is a string or an integer`);
    }
    dtype ??= idDtype;
    if (dtype !== idDtype) refuse(`"${field}" mixes strings and integers; ids are of one type`);
  }
  return dtype ?? "string";
}

function dtypeOfId(document: JsonReader, id: ValueIndex): Dtype | undefined {
  const kind = document.kinds[id];
  if (kind === KIND.integer) return "int64";
  return kind === KIND.string || kind === KIND.object ? "string" : undefined;
}

function refuse(message: string): never {
  throw new WinnowError("INVALID_ARGUMENT", message);
}
