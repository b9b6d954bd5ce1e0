// The predictions of an answer, each as the text that the server wrote: numbers that a parser would round (ids beyond
// 2⁵³) or refuse (`NaN`) go into the output untouched. Only strings, brackets and commas are looked at.

import { WinnowError, excerpt } from "@winnow/core";
import { told } from "../predict/asking.ts";

const [QUOTE, BACKSLASH, COMMA, COLON] = [0x22, 0x5c, 0x2c, 0x3a];
const [OPEN_LIST, CLOSE_LIST, OPEN_OBJECT, CLOSE_OBJECT] = [0x5b, 0x5d, 0x7b, 0x7d];

const LINE_BREAKS = /[\r\n]/;
/** A line break and the indentation behind it, which are no part of a string. */
const LINE_BREAK_RUNS = /[\r\n]+[ \t\r\n]*/g;

/** The predictions, each on one line. @throws WinnowError UNKNOWN for an answer without, or with a part of them */
export function predictionTexts(answer: string): readonly string[] {
  const found = new AnswerParts(answer).predictions();
  if (found !== undefined) return found;
  throw new WinnowError("UNKNOWN", told(`The answer has no predictions: ${excerpt(answer)}`));
}

class AnswerParts {
  readonly #text: string;
  #at = 0;

  constructor(text: string) {
    this.#text = text;
  }

  /** `undefined` where the answer is no whole object with a list of that name. */
  predictions(): readonly string[] | undefined {
    let found: readonly string[] | undefined;
    if (!this.#takes(OPEN_OBJECT)) return undefined;
    do {
      const name = this.#value();
      if (!this.#takes(COLON)) return undefined;
      if (name === '"predictions"') found = this.#list();
      else this.#value();
      if (this.#isBroken) return undefined;
    } while (this.#takes(COMMA));
    return this.#takes(CLOSE_OBJECT) && Number.isNaN(this.#next()) ? found : undefined;
  }

  get #isBroken(): boolean {
    return this.#at > this.#text.length;
  }

  #list(): readonly string[] | undefined {
    const values: string[] = [];
    if (!this.#takes(OPEN_LIST)) return this.#break();
    if (this.#takes(CLOSE_LIST)) return values;
    do {
      const value = this.#value();
      if (value === "" || this.#isBroken) return this.#break();
      values.push(value);
    } while (this.#takes(COMMA));
    return this.#takes(CLOSE_LIST) ? values : this.#break();
  }

  #break(): undefined {
    this.#at = Infinity;
    return undefined;
  }

  /** The code of the next character that is no space, `NaN` at the end. */
  #next(): number {
    const text = this.#text;
    while (this.#at < text.length && text.charCodeAt(this.#at) <= 0x20) this.#at += 1;
    return text.charCodeAt(this.#at);
  }

  #takes(code: number): boolean {
    if (this.#next() !== code) return false;
    this.#at += 1;
    return true;
  }

  /** The text of the next value. Line breaks are space, as strings have them escaped. */
  #value(): string {
    const first = this.#next();
    const start = this.#at;
    if (first === QUOTE) this.#skipString();
    else if (first === OPEN_LIST || first === OPEN_OBJECT) this.#skipNested();
    else this.#skipScalar();
    const value = this.#text.slice(start, this.#at);
    return LINE_BREAKS.test(value) ? value.replaceAll(LINE_BREAK_RUNS, "") : value;
  }

  #skipScalar(): void {
    while (this.#at < this.#text.length && isOfScalar(this.#text.charCodeAt(this.#at))) {
      this.#at += 1;
    }
  }

  #skipNested(): void {
    let depth = 0;
    do {
      const code = this.#text.charCodeAt(this.#at);
      if (code === QUOTE) {
        this.#skipString();
        continue;
      }
      if (code === OPEN_LIST || code === OPEN_OBJECT) depth += 1;
      if (code === CLOSE_LIST || code === CLOSE_OBJECT) depth -= 1;
      this.#at += 1;
    } while (depth > 0 && this.#at < this.#text.length);
    if (depth > 0) this.#break();
  }

  #skipString(): void {
    let end = this.#at;
    do end = this.#text.indexOf('"', end + 1);
    while (end >= 0 && this.#isEscaped(end));
    this.#at = end < 0 ? Infinity : end + 1;
  }

  #isEscaped(at: number): boolean {
    let before = at - 1;
    while (this.#text.charCodeAt(before) === BACKSLASH) before -= 1;
    return (at - before) % 2 === 0;
  }
}

function isOfScalar(code: number): boolean {
  return code > 0x20 && code !== COMMA && code !== CLOSE_LIST && code !== CLOSE_OBJECT;
}
