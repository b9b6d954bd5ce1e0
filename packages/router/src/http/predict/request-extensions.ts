// What Winnow understands beside TensorFlow Serving's keys, which ignores them: `k` wants another
// number of candidates than the model was exported with, `exclude` lists items never to be answered.
//
//   {"instances": ["42", "7"], "k": 3, "exclude": ["Heat (1995)"]}             for all instances
//   {"instances": ["42", "7"], "exclude": [["Heat (1995)"], []]}              one list each

import { WinnowError } from "@winnow/core";
import type { Dtype, Tensor } from "@winnow/core";
import { dumpValue } from "../json/json-dump.ts";
import { KIND } from "../json/json-reader.ts";
import type { JsonReader, ValueIndex } from "../json/json-reader.ts";
import { checkExcludedIds, checkK } from "../../request-limits.ts";
import type { RequestLimits } from "../../request-limits.ts";
import { TensorReader } from "./tensor-reader.ts";

const ROOT: ValueIndex = 0;
const K: Uint8Array = Buffer.from("k");
const EXCLUDE: Uint8Array = Buffer.from("exclude");

/** The wanted `k`, if the body has one. @throws WinnowError INVALID_ARGUMENT. */
export function readK(
  document: JsonReader,
  limits: Pick<RequestLimits, "kMax">,
): number | undefined {
  const value = document.member(ROOT, K);
  if (value < 0) return undefined;
  const k = document.kinds[value] === KIND.integer ? document.numbers[value]! : Number.NaN;
  checkK(k, limits, () => dumpValue(document, value));
  return k;
}

/** Excluded ids: one tensor for all instances or one per instance. @throws WinnowError. */
export function readExclusions(
  document: JsonReader,
  instances: number,
  limits: Pick<RequestLimits, "excludedIdsMax">,
): readonly Tensor[] | undefined {
  const value = document.member(ROOT, EXCLUDE);
  if (value < 0) return undefined;
  if (document.kinds[value] !== KIND.array) {
    refuse(`"exclude" is ${dumpValue(document, value)}; it must be a list of item ids`);
  }
  const elements = document.from[value]!;
  // More elements than instances are ids, or lists of which there are too many; neither is read.
  if (elements > instances) checkExcludedIds(elements, limits);
  const lists = listsOf(document, value);
  if (lists[0] !== value && lists.length !== instances) {
    refuse(`"exclude" has ${lists.length} lists for ${instances} instances; give one for each`);
  }
  checkExcludedIds(
    lists.reduce((sum, list) => sum + document.from[list]!, 0),
    limits,
  );
  const dtype = idDtypeOf(document, lists);
  return lists.map((list) => new TensorReader(document, dtype).readWhole(list));
}

function listsOf(document: JsonReader, value: ValueIndex): readonly ValueIndex[] {
  const elements = childrenOf(document, value);
  const nested = elements.filter((element) => document.kinds[element] === KIND.array);
  if (nested.length === 0) return [value];
  if (nested.length === elements.length) return nested;
  refuse('"exclude" mixes ids and lists; it must be one list of ids, or a list of such lists');
}

/** Ids are all strings (or base64 objects) or all integers. */
function idDtypeOf(document: JsonReader, lists: readonly ValueIndex[]): Dtype {
  let dtype: Dtype | undefined;
  for (const id of lists.flatMap((list) => childrenOf(document, list))) {
    const idDtype = dtypeOfId(document, id);
    if (idDtype === undefined) {
      refuse(`"exclude" holds ${dumpValue(document, id)}; an id is a string or an integer`);
    }
    dtype ??= idDtype;
    if (dtype !== idDtype) refuse('"exclude" mixes strings and integers; ids are of one type');
  }
  return dtype ?? "string";
}

function dtypeOfId(document: JsonReader, id: ValueIndex): Dtype | undefined {
  const kind = document.kinds[id];
  if (kind === KIND.integer) return "int64";
  return kind === KIND.string || kind === KIND.object ? "string" : undefined;
}

function childrenOf(document: JsonReader, parent: ValueIndex): ValueIndex[] {
  const children: ValueIndex[] = [];
  const end = document.to[parent]!;
  for (let child = parent + 1; child < end; child = document.next(child)) children.push(child);
  return children;
}

function refuse(message: string): never {
  throw new WinnowError("INVALID_ARGUMENT", message);
}
