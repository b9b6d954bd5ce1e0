// The messages between the event loop and a parser thread: a body goes over whole and its typed columns come
// back, none of them copied. There may be a hundred thousand lists of a few ids, so ids cross as one column
// with the length of each list.

import { StringColumn, tensor } from "@winnow/core";
import type { Tensor } from "@winnow/core";
import { revivedTensor, tensorBuffers } from "../../threads/tensor-messages.ts";
import type { BodyContent, BodyLimits, BodyQuestion } from "./body-reading.ts";

/** How a thread is set up. */
export interface ParserSettings {
  readonly limits: BodyLimits;
}

/** A body and how to read it. Its memory is transferred. */
export interface ParserRequest {
  readonly question: BodyQuestion;
  readonly bytes: Uint8Array<ArrayBuffer>;
}

/** The content of the body, or an error of the parser. A refused body is a content too: the call's problem. */
export type ParserAnswer =
  | { readonly kind: "content"; readonly content: PackedContent }
  | { readonly kind: "fault"; readonly message: string };

/** `BodyContent` as it crosses, with string columns as plain arrays. */
export interface PackedContent {
  readonly content: BodyContent;
  readonly excluded: ListColumn | undefined;
  readonly included: ListColumn | undefined;
}

interface ListColumn {
  readonly counts: Uint32Array;
  /** The ids of all lists, list after list. */
  readonly ids: Tensor;
}

/** Packs a content, and lists the memory that is transferred with it. */
export function packContent(content: BodyContent): {
  readonly packed: PackedContent;
  readonly buffers: readonly ArrayBuffer[];
} {
  const { asked } = content;
  if (asked === undefined) {
    return { packed: { content, excluded: undefined, included: undefined }, buffers: [] };
  }
  const excluded = asked.exclude && joinLists(asked.exclude);
  const included = asked.include && joinLists(asked.include);
  const rest = { ...asked, exclude: undefined, include: undefined };
  const packed = { content: { ...content, asked: rest }, excluded, included };
  const tensors = [...asked.inputs.values()];
  if (excluded !== undefined) tensors.push(excluded.ids);
  if (included !== undefined) tensors.push(included.ids);
  return { packed, buffers: tensorBuffers(tensors) };
}

/** Unpacks a content. */
export function unpackContent({ content, excluded, included }: PackedContent): BodyContent {
  const { asked } = content;
  if (asked === undefined) return content;
  const inputs = new Map([...asked.inputs].map(([name, given]) => [name, revivedTensor(given)]));
  const exclude = excluded && splitLists(excluded);
  const include = included && splitLists(included);
  return { ...content, asked: { ...asked, inputs, exclude, include } };
}

/** Bytes of the columns of a content. */
export function contentBytes({ asked }: BodyContent): number {
  if (asked === undefined) return 0;
  const lists = [...(asked.exclude ?? []), ...(asked.include ?? [])];
  const tensors = [...asked.inputs.values(), ...lists];
  return tensors.reduce((sum, { dtype, data }) => {
    if (dtype !== "string") return sum + data.byteLength;
    return sum + data.byteLength + data.offsets.byteLength;
  }, 0);
}

function joinLists(lists: readonly Tensor[]): ListColumn {
  const counts = Uint32Array.from(lists, (list) => list.data.length);
  const [first] = lists;
  if (first === undefined || lists.length === 1) return { counts, ids: first ?? joinStrings([]) };
  return { counts, ids: first.dtype === "int64" ? joinIntegers(lists) : joinStrings(lists) };
}

function joinIntegers(lists: readonly Tensor[]): Tensor {
  const size = lists.reduce((sum, list) => sum + list.data.length, 0);
  const ids = new BigInt64Array(size);
  let at = 0;
  for (const list of lists) {
    ids.set(list.data as BigInt64Array, at);
    at += list.data.length;
  }
  return tensor("int64", [size], ids);
}

function joinStrings(lists: readonly Tensor[]): Tensor {
  const strings = lists.flatMap(({ data }) => {
    const column = data as StringColumn;
    return Array.from({ length: column.length }, (_, index) => column.at(index));
  });
  return tensor("string", [strings.length], StringColumn.fromBytes(strings));
}

function splitLists({ counts, ids }: ListColumn): Tensor[] {
  const column = revivedTensor(ids);
  let end = 0;
  return Array.from(counts, (count): Tensor => {
    const from = end;
    end += count;
    if (column.dtype === "string") return tensor("string", [count], column.data.slice(from, end));
    const data = (column.data as BigInt64Array).subarray(from, end);
    return tensor("int64", [count], data);
  });
}
