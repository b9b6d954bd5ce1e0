// Takes apart the JSON objects in which a search describes its items, without reading their values: numbers
// keep all their digits, and equal texts are equal values, because one writer wrote them
// (`worker/src/compute/search/winner-attributes.ts`).

import { StringColumn, VECTOR_ATTRIBUTE, WinnowError, vectorTextLength } from "@winnow/core";
import type { Tensor } from "@winnow/core";

/** The members of an object, with their values as text. */
export function membersOfText(text: string): ReadonlyMap<string, string> {
  return new Map(
    partsOf(text).map((part) => {
      const end = endOfString(part, 0);
      return [JSON.parse(part.slice(0, end)) as string, part.slice(end + 1)];
    }),
  );
}

/** The elements of a list as text. A value that is no list is its own only element; null has none. */
export function elementsOfText(text: string): readonly string[] {
  if (text === "null") return [];
  return text.startsWith("[") ? partsOf(text) : [text];
}

/** The texts between the commas of an object or a list. */
function partsOf(text: string): readonly string[] {
  const parts: string[] = [];
  let from = 1;
  let depth = 0;
  for (let at = 0; at < text.length; at += 1) {
    const sign = text[at];
    if (sign === '"') at = endOfString(text, at) - 1;
    else if (sign === "{" || sign === "[") depth += 1;
    else if (sign === "}" || sign === "]") depth -= 1;
    const isEnd = at === text.length - 1;
    if (isEnd ? text.length > 2 : sign === "," && depth === 1) {
      parts.push(text.slice(from, at));
      from = at + 1;
    }
  }
  return parts;
}

/** The position after the closing quote of the string that begins at `from`. */
function endOfString(text: string, from: number): number {
  let at = from + 1;
  while (text[at] !== '"') at += text[at] === "\\" ? 2 : 1;
  return at + 1;
}

/** Each object reduced to some of its members. */
export function withMembers(texts: Tensor, names: readonly string[]): Tensor {
  const keys = names.map((name) => JSON.stringify(name));
  const objects = textsOf(texts).map((text) => {
    if (text === "") return "";
    const members = membersOfText(text);
    return `{${names.map((name, at) => `${keys[at]!}:${members.get(name)!}`).join(",")}}`;
  });
  return { ...texts, dtype: "string", data: StringColumn.fromText(objects) };
}

/** Splits objects whose last member is a vector into the vectors and the objects without them. */
export function takeVectors(
  texts: Tensor,
  dim: number,
): { readonly rest: Tensor; readonly vectors: ReadonlyMap<number, Float32Array> } {
  const tail = vectorTextLength(dim) + 2;
  const key = `"${VECTOR_ATTRIBUTE}":`;
  const vectors = new Map<number, Float32Array>();
  const rest = textsOf(texts).map((text, position) => {
    if (text === "") return "";
    const end = text.length - 1 - tail;
    if (!text.slice(0, end).endsWith(key)) {
      throw new WinnowError("INTERNAL", "A worker described an item without the vector wanted");
    }
    const bytes = Uint8Array.from(Buffer.from(text.slice(end + 1, end + tail - 1), "base64"));
    vectors.set(position, new Float32Array(bytes.buffer, 0, dim));
    return `${text.slice(0, end - key.length).replace(/,$/, "")}}`;
  });
  return { rest: { ...texts, dtype: "string", data: StringColumn.fromText(rest) }, vectors };
}

function textsOf({ data }: Tensor): readonly string[] {
  return data instanceof StringColumn ? data.toText() : [];
}
