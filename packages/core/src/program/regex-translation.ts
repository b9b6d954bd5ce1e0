// RE2 syntax to a JavaScript regular expression with the same matches. Both prefer leftmost-first, so
// what both have means the same; what only one has is translated (POSIX classes, \z, \Q…\E, ASCII \s)
// or refused when the graph is read, never on a request.
//
// RE2 runs in linear time, JavaScript backtracks. Hence a repeated group that itself repeats or
// branches is refused, and the text that a pattern with unbounded repeats may see is bounded.
//
// Text is bytes. Bytes that are not UTF-8 become lone surrogates U+DC80…U+DCFF on the way in and bytes
// again on the way out; `.` and negated classes do not match them, as in RE2.

import { WinnowError, excerpt } from "../errors.ts";

/** A translated pattern. */
export interface TranslatedRegex {
  /** Source for a JavaScript expression with the flags `u` and `flags`. */
  readonly source: string;
  /** `i`, `s` and `m` as the pattern's own leading `(?…)` asks. */
  readonly flags: string;
  /** Bytes of text one match may run over. */
  readonly textBytesMax: number;
}

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
const INVALID_BYTES = "\\uDC80-\\uDCFF";
/** Longest text by the number of unbounded repeats: the work grows with its power. */
const TEXT_BYTES_MAX: readonly number[] = [2 ** 24, 2 ** 13, 2 ** 11, 2 ** 11];
const TEXT_BYTES_MAX_MANY_REPEATS = 2 ** 9;
const PATTERN_CHARACTERS_MAX = 4096;

/** Translates a pattern. @throws WinnowError INVALID_ARGUMENT, UNIMPLEMENTED */
export function translateRegex(pattern: string): TranslatedRegex {
  if (pattern.length > PATTERN_CHARACTERS_MAX) {
    throw refused(pattern, `is longer than ${PATTERN_CHARACTERS_MAX} characters`);
  }
  const leading = /^\(\?([ims]+)\)/.exec(pattern);
  const flags = [...new Set(leading?.[1])].join("");
  const state: Reader = {
    pattern,
    at: leading?.[0].length ?? 0,
    out: [],
    groups: [],
    repeats: 0,
    atom: undefined,
    isDotAll: flags.includes("s"),
  };
  while (state.at < pattern.length) readNext(state);
  if (state.groups.length > 0) throw wrong(pattern, "missing ): ");
  const textBytesMax = TEXT_BYTES_MAX[state.repeats] ?? TEXT_BYTES_MAX_MANY_REPEATS;
  return { source: state.out.join(""), flags: flags.replace("s", ""), textBytesMax };
}

/** What the last atom was: a repeat may follow it, unless it is a group that branches or repeats. */
interface Atom {
  readonly isComplex: boolean;
}

interface Reader {
  readonly pattern: string;
  at: number;
  readonly out: string[];
  /** Whether each open group holds a repeat or a branch so far. */
  readonly groups: { isComplex: boolean }[];
  repeats: number;
  atom: Atom | undefined;
  readonly isDotAll: boolean;
}

const SIMPLE: Atom = { isComplex: false };

function readNext(state: Reader): void {
  const character = String.fromCodePoint(state.pattern.codePointAt(state.at)!);
  switch (character) {
    case "\\":
      return readEscape(state);
    case "[":
      return readClass(state);
    case "(":
      return openGroup(state);
    case ")":
      return closeGroup(state);
    case "|":
      if (state.groups.length > 0) state.groups.at(-1)!.isComplex = true;
      return emit(state, "|", undefined);
    case ".":
      return emit(state, `[^${state.isDotAll ? "" : "\\n"}${INVALID_BYTES}]`, SIMPLE);
    case "^":
    case "$":
      return emit(state, character, undefined);
    case "*":
    case "+":
    case "?":
    case "{":
      return readRepeat(state, character);
    default:
      return emit(state, literal(character), SIMPLE, character.length);
  }
}

// Four values rather than an object: called once per character of a pattern.
// oxlint-disable-next-line max-params
function emit(state: Reader, text: string, atom: Atom | undefined, consumed = 1): void {
  state.out.push(text);
  state.atom = atom;
  state.at += consumed;
}

function literal(character: string): string {
  return /[\^$\\.*+?()[\]{}|/-]/.test(character)
    ? `\\u{${character.codePointAt(0)!.toString(16)}}`
    : character;
}

function openGroup(state: Reader): void {
  const rest = state.pattern.slice(state.at);
  const named = /^\(\?P?<([A-Za-z_][A-Za-z0-9_]*)>/.exec(rest);
  state.groups.push({ isComplex: false });
  if (named !== null) return emit(state, "(", undefined, named[0].length);
  if (rest.startsWith("(?:")) return emit(state, "(?:", undefined, 3);
  if (rest.startsWith("(?")) throw refused(state.pattern, `uses ${rest.slice(0, 4)}`);
  emit(state, "(", undefined);
}

function closeGroup(state: Reader): void {
  const group = state.groups.pop();
  if (group === undefined) throw wrong(state.pattern, "unexpected ): ");
  const outer = state.groups.at(-1);
  if (outer !== undefined && group.isComplex) outer.isComplex = true;
  emit(state, ")", { isComplex: group.isComplex });
}

function readRepeat(state: Reader, character: string): void {
  const rest = state.pattern.slice(state.at);
  const counted = /^\{(\d{1,5})(?:(,)(\d{1,5})?)?\}/.exec(rest);
  if (character === "{" && counted === null) return emit(state, literal("{"), SIMPLE);
  const repeat = counted?.[0] ?? character;
  if (state.atom === undefined)
    throw wrong(state.pattern, `no argument for repetition operator: ${repeat}`);
  const most = Number(counted?.[3] ?? counted?.[1] ?? 0);
  const least = Number(counted?.[1] ?? 0);
  if (most > 1000 || least > 1000 || (counted?.[3] !== undefined && most < least)) {
    throw wrong(state.pattern, `invalid repetition size: ${repeat}`);
  }
  const isUnbounded =
    character === "*" ||
    character === "+" ||
    (counted?.[2] !== undefined && counted[3] === undefined);
  if (state.atom.isComplex && (isUnbounded || most > 1)) {
    throw refused(
      state.pattern,
      "repeats a group that repeats or branches (not linear in time here)",
    );
  }
  if (isUnbounded || most > 1) state.repeats += 1;
  const group = state.groups.at(-1);
  if (group !== undefined) group.isComplex = true;
  const lazy = rest[repeat.length] === "?" ? "?" : "";
  if (/^[*+]/.test(rest.slice(repeat.length + lazy.length))) {
    throw wrong(state.pattern, `bad repetition operator: ${rest.slice(0, 3)}`);
  }
  emit(state, repeat + lazy, undefined, repeat.length + lazy.length);
}

function readEscape(state: Reader): void {
  const rest = state.pattern.slice(state.at);
  const quoted = /^\\Q([\s\S]*?)(?:\\E|$)/.exec(rest);
  if (quoted !== null) {
    const text = [...quoted[1]!].map(literal).join("");
    return emit(state, text, SIMPLE, quoted[0].length);
  }
  const edge = { A: "(?<![\\s\\S])", z: "(?![\\s\\S])", b: "\\b", B: "\\B" }[rest[1] ?? ""];
  if (edge !== undefined) return emit(state, edge, undefined, 2);
  const { text, length } = escapeAt(state.pattern, rest, false);
  emit(state, text, SIMPLE, length);
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

interface Escape {
  readonly text: string;
  readonly length: number;
}

/** One escape that stands for characters. @throws WinnowError for any other */
function escapeAt(pattern: string, rest: string, isInClass: boolean): Escape {
  const kind = rest[1];
  if (kind === undefined) throw wrong(pattern, "trailing \\");
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
  if (/[A-Za-z0-9]/.test(kind)) throw wrong(pattern, `invalid escape sequence: \\${kind}`);
  const character = String.fromCodePoint(rest.codePointAt(1)!);
  return { text: `\\u{${character.codePointAt(0)!.toString(16)}}`, length: 1 + character.length };
}

function propertyText(pattern: string, match: RegExpExecArray): string {
  const [, letter, short, caret, name] = match;
  const isNegated = (letter === "P") !== (caret === "^");
  const property = short ?? name!;
  const text = `\\${isNegated ? "P" : "p"}{${property.length <= 2 ? property : `Script=${property}`}}`;
  try {
    void new RegExp(text, "u");
  } catch (error) {
    throw new WinnowError(
      "INVALID_ARGUMENT",
      `Invalid pattern: ${excerpt(pattern)}, error: invalid character class range: ${match[0]}`,
      { cause: error },
    );
  }
  return text;
}

function readClass(state: Reader): void {
  const { pattern } = state;
  let at = state.at + 1;
  const isNegated = pattern[at] === "^";
  if (isNegated) at += 1;
  const parts: string[] = [];
  const first = at;
  while (pattern[at] !== "]" || at === first) {
    if (at >= pattern.length) throw wrong(pattern, `missing ]: ${pattern.slice(state.at)}`);
    const { text, length } = classItemAt(pattern, at);
    parts.push(text);
    at += length;
  }
  const text = isNegated ? `[^${parts.join("")}${INVALID_BYTES}]` : `[${parts.join("")}]`;
  try {
    void new RegExp(text, "u");
  } catch (error) {
    throw new WinnowError(
      "INVALID_ARGUMENT",
      `Invalid pattern: ${excerpt(pattern)}, error: invalid character class range`,
      { cause: error },
    );
  }
  emit(state, text, SIMPLE, at + 1 - state.at);
}

function classItemAt(pattern: string, at: number): Escape {
  const rest = pattern.slice(at);
  const posix = /^\[:(\^?)(\w+):\]/.exec(rest);
  if (posix !== null) {
    const set = Object.hasOwn(CLASSES, posix[2]!) ? CLASSES[posix[2]!] : undefined;
    if (set === undefined) throw wrong(pattern, `invalid character class range: ${posix[0]}`);
    if (posix[1] === "^") throw refused(pattern, `uses ${posix[0]}`);
    return { text: set, length: posix[0].length };
  }
  if (rest.startsWith("\\")) {
    if (/^\\[DWS]/.test(rest)) throw refused(pattern, `uses ${rest.slice(0, 2)} in a class`);
    return escapeAt(pattern, rest, true);
  }
  const character = String.fromCodePoint(rest.codePointAt(0)!);
  if (character === "-") {
    const isRange = at > 0 && !/[[^]/.test(pattern[at - 1]!) && pattern[at + 1] !== "]";
    return { text: isRange ? "-" : "\\-", length: 1 };
  }
  return { text: literal(character), length: character.length };
}

function wrong(pattern: string, reason: string): WinnowError {
  return new WinnowError(
    "INVALID_ARGUMENT",
    `Invalid pattern: ${excerpt(pattern)}, error: ${reason}`,
  );
}

function refused(pattern: string, reason: string): WinnowError {
  return new WinnowError("UNIMPLEMENTED", `The regular expression ${excerpt(pattern)} ${reason}`);
}
