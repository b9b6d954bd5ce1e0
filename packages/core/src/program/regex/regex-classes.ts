// Characters and character classes of RE2 in JavaScript's syntax, for `regex-translation.ts`.

import { WinnowError, excerpt } from "../../errors/errors.ts";

const CLASSES: Readonly<Record<string, string>> = {
  alnum: "0-9A-Za-z",
  alpha: "A-Za-z",
  ascii: "\\x00-\\x7F",
  blank: "\\t ",
  cntrl: "\\x00-\\x1F\\x7F",
  digit: "0-9",
  graph: "!-~",
  lower: "a-z",
  print: " -~",
  punct: "!-\\/:-@\\[-`\\{-~",
  space: "\\t\\n\\v\\f\\r ",
  upper: "A-Z",
  word: "0-9A-Za-z_",
  xdigit: "0-9A-Fa-f",
};
/** Surrogates that stand for bytes that are not UTF-8; negated classes must not match them. */
export const INVALID_BYTES = "\\uDC80-\\uDCFF";

/** A character that stands for itself. */
export function literal(character: string): string {
  return /[\^$\\.*+?()[\]{}|/-]/.test(character)
    ? `\\u{${character.codePointAt(0)!.toString(16)}}`
    : character;
}

const ESCAPES: Readonly<Record<string, string>> = {
  d: "[0-9]",
  D: `[^0-9${INVALID_BYTES}]`,
  w: "[0-9A-Za-z_]",
  W: `[^0-9A-Za-z_${INVALID_BYTES}]`,
  s: "[\\t\\n\\f\\r ]",
  S: `[^\\t\\n\\f\\r ${INVALID_BYTES}]`,
};
const ESCAPES_IN_CLASS: Readonly<Record<string, string>> = {
  d: "0-9",
  w: "0-9A-Za-z_",
  s: "\\t\\n\\f\\r ",
};
const CONTROLS: Readonly<Record<string, string>> = {
  a: "\\x07",
  f: "\\f",
  t: "\\t",
  n: "\\n",
  r: "\\r",
  v: "\\v",
};

/** A translated piece of a pattern, and its length in the pattern. */
export interface Translated {
  readonly text: string;
  readonly length: number;
}

/** Translates an escape for characters or classes. @throws WinnowError for any other escape */
export function escapeAt(pattern: string, rest: string, isInClass: boolean): Translated {
  const kind = rest[1];
  if (kind === undefined) throw wrongPattern(pattern, "trailing \\");
  const table = isInClass ? ESCAPES_IN_CLASS : ESCAPES;
  const known = Object.hasOwn(table, kind) ? table[kind] : CONTROLS[kind];
  if (known !== undefined) return { text: known, length: 2 };
  const hex = /^\\x(?:([0-9A-Fa-f]{2})|\{([0-9A-Fa-f]{1,6})\})/.exec(rest);
  if (hex !== null) return { text: `\\u{${hex[1] ?? hex[2]}}`, length: hex[0].length };
  const property = /^\\([pP])(?:([LMNPSZC])|\{(\^?)(\w+)\})/.exec(rest);
  if (property !== null)
    return { text: propertyText(pattern, property), length: property[0].length };
  const octal = /^\\(0[0-7]{0,2}|[1-7][0-7]{2})/.exec(rest);
  if (octal !== null)
    return { text: `\\u{${parseInt(octal[1]!, 8).toString(16)}}`, length: octal[0].length };
  if (/[A-Za-z0-9]/.test(kind)) throw wrongPattern(pattern, `invalid escape sequence: \\${kind}`);
  const character = String.fromCodePoint(rest.codePointAt(1)!);
  return { text: `\\u{${character.codePointAt(0)!.toString(16)}}`, length: 1 + character.length };
}

function propertyText(pattern: string, match: RegExpExecArray): string {
  const [, letter, short, caret, name] = match;
  const isNegated = (letter === "P") !== (caret === "^");
  const property = short ?? name!;
  const text = `\\${isNegated ? "P" : "p"}{${property.length <= 2 ? property : `Script=${property}`}}`;
  return checked(pattern, text);
}

/** Translates the character class from `start` up to its `]`. @throws WinnowError */
export function classAt(pattern: string, start: number): Translated {
  const isNegated = pattern[start + 1] === "^";
  const first = start + (isNegated ? 2 : 1);
  const parts: string[] = [];
  let at = first;
  while (pattern[at] !== "]" || at === first) {
    if (at >= pattern.length) throw wrongPattern(pattern, `missing ]: ${pattern.slice(start)}`);
    const { text, length } = classItemAt(pattern, at);
    parts.push(text);
    at += length;
  }
  const text = isNegated ? `[^${parts.join("")}${INVALID_BYTES}]` : `[${parts.join("")}]`;
  return { text: checked(pattern, text), length: at + 1 - start };
}

/** Gives `text` if JavaScript accepts it. @throws WinnowError INVALID_ARGUMENT */
function checked(pattern: string, text: string): string {
  try {
    void new RegExp(text, "u");
    return text;
  } catch (cause) {
    const message = `Invalid pattern: ${excerpt(pattern)}, error: invalid character class range`;
    throw new WinnowError("INVALID_ARGUMENT", message, { cause });
  }
}

function classItemAt(pattern: string, at: number): Translated {
  const rest = pattern.slice(at);
  const posix = /^\[:(\^?)(\w+):\]/.exec(rest);
  if (posix !== null) {
    const set = Object.hasOwn(CLASSES, posix[2]!) ? CLASSES[posix[2]!] : undefined;
    if (set === undefined)
      throw wrongPattern(pattern, `invalid character class range: ${posix[0]}`);
    if (posix[1] === "^") throw refusedPattern(pattern, `uses ${posix[0]}`);
    return { text: set, length: posix[0].length };
  }
  if (rest.startsWith("\\")) {
    if (/^\\[DWS]/.test(rest)) throw refusedPattern(pattern, `uses ${rest.slice(0, 2)} in a class`);
    return escapeAt(pattern, rest, true);
  }
  const character = String.fromCodePoint(rest.codePointAt(0)!);
  if (character === "-") {
    const isRange = at > 0 && !/[[^]/.test(pattern[at - 1]!) && pattern[at + 1] !== "]";
    return { text: isRange ? "-" : "\\-", length: 1 };
  }
  return { text: literal(character), length: character.length };
}

/** The error for a pattern that RE2 refuses too. */
export function wrongPattern(pattern: string, reason: string): WinnowError {
  return new WinnowError(
    "INVALID_ARGUMENT",
    `Invalid pattern: ${excerpt(pattern)}, error: ${reason}`,
  );
}

/** The error for a pattern that RE2 accepts and Winnow does not. */
export function refusedPattern(pattern: string, reason: string): WinnowError {
  return new WinnowError("UNIMPLEMENTED", `The regular expression ${excerpt(pattern)} ${reason}`);
}
