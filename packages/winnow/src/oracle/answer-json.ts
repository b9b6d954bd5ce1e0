// The JSON of answers as it was written: `NaN` and `Infinity` stand bare in it, as TensorFlow Serving
// writes them, and integers beyond 2⁵³ must not be rounded. `JSON.parse` refuses the former and rounds the
// latter, so text that may hold either is read here.

import { WinnowError, excerpt } from "@winnow/core";

/** A value of an answer; integers that a number cannot hold are bigints. */
export type AnswerValue =
  | string
  | number
  | bigint
  | boolean
  | null
  | readonly AnswerValue[]
  | AnswerObject;

/** An object of an answer; without a prototype. */
export interface AnswerObject {
  readonly [name: string]: AnswerValue;
}

/** Deepest nesting: more than a tensor has dimensions. */
const DEPTH_MAX = 300;
const NEEDS_CARE = /NaN|Infinity|\d{16}|__proto__/;
/** A token, or the quote at the beginning of a string. */
const TOKEN = /\s*([{}[\],:"]|-?(?:Infinity|\d[\d.eE+-]*)|NaN|true|false|null)/y;
/** What decides where a string ends: its escapes, and the quote at its end. */
const ESCAPE_OR_QUOTE = /\\.|"/gs;
const INTEGER = /^-?\d+$/;

/** Reads an answer. @throws WinnowError DATA_LOSS where it is no JSON */
export function parseAnswer(text: string): AnswerValue {
  try {
    if (!NEEDS_CARE.test(text)) return JSON.parse(text) as AnswerValue;
    return new AnswerReader(text).read();
  } catch (cause) {
    throw new WinnowError("DATA_LOSS", `The answer is no JSON: ${excerpt(text)}`, { cause });
  }
}

/** Whether a value is an object. */
export function isAnswerObject(value: AnswerValue | undefined): value is AnswerObject {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

/** The value as it was written, on one line. @throws WinnowError DATA_LOSS where it is nested too deep */
export function answerText(value: AnswerValue, depth = 0): string {
  if (typeof value === "string") return JSON.stringify(value);
  if (typeof value !== "object" || value === null) return String(value);
  if (depth >= DEPTH_MAX) throw new WinnowError("DATA_LOSS", "The answer is nested too deep");
  const parts = Array.isArray(value)
    ? (value as readonly AnswerValue[]).map((each) => answerText(each, depth + 1))
    : Object.entries(value).map(
        ([name, of]) => `${JSON.stringify(name)}:${answerText(of, depth + 1)}`,
      );
  return Array.isArray(value) ? `[${parts.join(",")}]` : `{${parts.join(",")}}`;
}

class AnswerReader {
  readonly #text: string;
  #at = 0;
  #depth = 0;

  constructor(text: string) {
    this.#text = text;
  }

  read(): AnswerValue {
    const value = this.#value(this.#token());
    if (this.#text.slice(this.#at).trim() !== "") throw new SyntaxError("text behind the value");
    return value;
  }

  #token(): string {
    TOKEN.lastIndex = this.#at;
    const match = TOKEN.exec(this.#text);
    if (match === null) throw new SyntaxError(`at ${this.#at}`);
    this.#at = TOKEN.lastIndex;
    return match[1] === '"' ? this.#string() : match[1]!;
  }

  /** The string whose opening quote was read. */
  #string(): string {
    const start = this.#at - 1;
    ESCAPE_OR_QUOTE.lastIndex = this.#at;
    for (;;) {
      const found = ESCAPE_OR_QUOTE.exec(this.#text)?.[0];
      if (found === undefined) throw new SyntaxError(`a string at ${start} without end`);
      if (found !== '"') continue;
      this.#at = ESCAPE_OR_QUOTE.lastIndex;
      return this.#text.slice(start, this.#at);
    }
  }

  #value(token: string): AnswerValue {
    if (token === "{" || token === "[") {
      this.#depth += 1;
      if (this.#depth > DEPTH_MAX) throw new SyntaxError("nested too deep");
      const value = token === "{" ? this.#object() : this.#list();
      this.#depth -= 1;
      return value;
    }
    if (token === "NaN" || token.endsWith("Infinity")) return Number(token);
    if (INTEGER.test(token) && !Number.isSafeInteger(Number(token))) return BigInt(token);
    return JSON.parse(token) as AnswerValue;
  }

  #list(): readonly AnswerValue[] {
    const list: AnswerValue[] = [];
    let token = this.#token();
    if (token === "]") return list;
    for (;;) {
      list.push(this.#value(token));
      const next = this.#token();
      if (next === "]") return list;
      if (next !== ",") throw new SyntaxError("no comma");
      token = this.#token();
    }
  }

  #object(): AnswerObject {
    const object = Object.create(null) as Record<string, AnswerValue>;
    let token = this.#token();
    if (token === "}") return object;
    for (;;) {
      const name = JSON.parse(token) as string;
      if (this.#token() !== ":") throw new SyntaxError("no colon");
      object[name] = this.#value(this.#token());
      const next = this.#token();
      if (next === "}") return object;
      if (next !== ",") throw new SyntaxError("no comma");
      token = this.#token();
    }
  }
}
