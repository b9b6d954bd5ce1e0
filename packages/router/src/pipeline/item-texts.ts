// Takes apart the JSON objects in which a search describes its items, without reading their values: numbers
// keep all their digits, and equal texts are equal values, because one writer wrote them
// (`worker/src/compute/search/winner-attributes.ts`).

import { StringColumn } from "@winnow/core";
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

function textsOf({ data }: Tensor): readonly string[] {
  return data instanceof StringColumn ? data.toText() : [];
}
