// JSON in which every value knows its line, so that an error in a file that a person wrote names the place.
// Stricter than JSON.parse: an object with two members of one name is refused.

import { WinnowError, excerpt } from "@winnow/core";

/** A JSON value and the line on which it begins, from 1. */
export type LocatedJson = { readonly line: number } & (
  | { readonly kind: "text"; readonly value: string }
  | { readonly kind: "number"; readonly value: number }
  | { readonly kind: "word"; readonly value: boolean | null }
  | { readonly kind: "list"; readonly items: readonly LocatedJson[] }
  | { readonly kind: "object"; readonly members: ReadonlyMap<string, LocatedMember> }
);

/** A member of an object; the line is that of its name. */
export interface LocatedMember {
  readonly line: number;
  readonly value: LocatedJson;
}

const DEPTH_MAX = 32;
const BLANK = /[ \t\r\n]/;
const NUMBER = /-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?/y;
const WORD = /true|false|null/y;

/** Parses a file. @throws WinnowError INVALID_ARGUMENT naming file and line */
export function parseLocatedJson(content: Uint8Array, file: string): LocatedJson {
  let text: string;
  try {
    text = new TextDecoder("utf-8", { fatal: true }).decode(content);
  } catch (cause) {
    throw new WinnowError("INVALID_ARGUMENT", `Cannot read ${file}: it is not UTF-8`, { cause });
  }
  return new LocatedParser(text, file).whole();
}

class LocatedParser {
  readonly #text: string;
  readonly #file: string;
  #at = 0;
  #line = 1;

  constructor(text: string, file: string) {
    this.#text = text;
    this.#file = file;
  }

  whole(): LocatedJson {
    const value = this.#value(1);
    this.#skipBlanks();
    if (this.#at < this.#text.length) throw this.#refused("the end of the file");
    return value;
  }

  #value(depth: number): LocatedJson {
    this.#skipBlanks();
    if (depth > DEPTH_MAX) throw this.#refused(`at most ${DEPTH_MAX} brackets in each other`);
    const line = this.#line;
    const first = this.#text[this.#at];
    if (first === "{") return { line, kind: "object", members: this.#members(depth) };
    if (first === "[") return { line, kind: "list", items: this.#items(depth) };
    if (first === '"') return { line, kind: "text", value: this.#textValue() };
    const number = this.#match(NUMBER);
    if (number !== undefined) return { line, kind: "number", value: Number(number) };
    const word = this.#match(WORD);
    if (word === undefined) throw this.#refused("a value");
    return { line, kind: "word", value: word === "null" ? null : word === "true" };
  }

  #members(depth: number): ReadonlyMap<string, LocatedMember> {
    const members = new Map<string, LocatedMember>();
    this.#list("}", () => {
      const line = this.#line;
      if (this.#text[this.#at] !== '"') throw this.#refused('a name in "quotes"');
      const name = this.#textValue();
      if (members.has(name)) throw this.#refused(`one "${excerpt(name)}" only`);
      this.#skipBlanks();
      if (!this.#take(":")) throw this.#refused('":"');
      members.set(name, { line, value: this.#value(depth + 1) });
    });
    return members;
  }

  #items(depth: number): readonly LocatedJson[] {
    const items: LocatedJson[] = [];
    this.#list("]", () => void items.push(this.#value(depth + 1)));
    return items;
  }

  /** Elements between brackets, with commas between them. */
  #list(end: string, element: () => void): void {
    this.#at += 1;
    this.#skipBlanks();
    if (this.#take(end)) return;
    do {
      this.#skipBlanks();
      element();
      this.#skipBlanks();
    } while (this.#take(","));
    if (!this.#take(end)) throw this.#refused(`"," or "${end}"`);
  }

  #textValue(): string {
    const literal = this.#textLiteral();
    if (literal === undefined) throw this.#refused("the end of a text");
    try {
      return JSON.parse(literal) as string;
    } catch {
      throw this.#refused("a text without line breaks and unknown escapes");
    }
  }

  /** A text with its quotes, of any length: a pattern would need stack for each of its characters. */
  #textLiteral(): string | undefined {
    const start = this.#at;
    let end = this.#text.indexOf('"', start + 1);
    while (end >= 0 && this.#isEscaped(end)) end = this.#text.indexOf('"', end + 1);
    if (end < 0) return undefined;
    this.#at = end + 1;
    return this.#text.slice(start, this.#at);
  }

  /** Whether an odd number of backslashes stands before a place. */
  #isEscaped(place: number): boolean {
    let first = place;
    while (this.#text[first - 1] === "\\") first -= 1;
    return (place - first) % 2 === 1;
  }

  #match(pattern: RegExp): string | undefined {
    pattern.lastIndex = this.#at;
    const [found] = pattern.exec(this.#text) ?? [];
    if (found !== undefined) this.#at += found.length;
    return found;
  }

  #take(character: string): boolean {
    const isThere = this.#text[this.#at] === character;
    if (isThere) this.#at += 1;
    return isThere;
  }

  #skipBlanks(): void {
    for (; BLANK.test(this.#text[this.#at] ?? ""); this.#at += 1) {
      if (this.#text[this.#at] === "\n") this.#line += 1;
    }
  }

  #refused(expected: string): WinnowError {
    const rest = this.#text.slice(this.#at, this.#at + 20);
    const found = rest === "" ? "the file ends" : `"${excerpt(rest)}" stands`;
    const text = `Cannot read ${this.#file}, line ${this.#line}: ${found} where ${expected} belongs`;
    return new WinnowError("INVALID_ARGUMENT", text);
  }
}
