// Translates RE2 syntax to a JavaScript regular expression with the same matches. Both match
// leftmost-first, so the syntax that both have means the same. Syntax that differs is translated
// (POSIX classes, \z, \Q…\E, ASCII \s) or refused; constant patterns are refused when the graph is
// read.
//
// RE2 runs in linear time, JavaScript backtracks. Hence a repeated group that itself repeats or
// branches is refused, and the length of text for a pattern with repeats is bounded.
//
// Text is bytes. Before a match, bytes that are not UTF-8 become lone surrogates U+DC80…U+DCFF,
// which become these bytes again after it; `.` and negated classes do not match them, as in RE2.

import {
  INVALID_BYTES,
  classAt,
  escapeAt,
  literal,
  refusedPattern,
  wrongPattern,
} from "./regex-classes.ts";
import type { Translated } from "./regex-classes.ts";

/** A translated pattern. */
export interface TranslatedRegex {
  /** Source for a JavaScript expression with the flags `u` and `flags`. */
  readonly source: string;
  /** `i`, `s` and `m` as the pattern's own leading `(?…)` asks. */
  readonly flags: string;
  /** Whether it repeats something, so that work may grow with the square of the text. */
  readonly isRepeating: boolean;
  /** Bytes of one string that the pattern may be matched against. */
  readonly textBytesMax: number;
}

/**
 * Longest text in bytes, by the number r of repeats in one alternative: the work may grow with the
 * length to the power of r.
 */
const TEXT_BYTES_MAX: readonly number[] = [2 ** 24, 2 ** 13, 2 ** 10, 2 ** 9];
const TEXT_BYTES_MAX_MANY_REPEATS = 2 ** 8;
const PATTERN_CHARACTERS_MAX = 4096;

/** Translates a pattern. @throws WinnowError INVALID_ARGUMENT, UNIMPLEMENTED */
export function translateRegex(pattern: string): TranslatedRegex {
  if (pattern.length > PATTERN_CHARACTERS_MAX) {
    throw refusedPattern(pattern, `is longer than ${PATTERN_CHARACTERS_MAX} characters`);
  }
  const leading = /^\(\?([ims]+)\)/.exec(pattern);
  const flags = [...new Set(leading?.[1])].join("");
  const state: Reader = {
    pattern,
    at: leading?.[0].length ?? 0,
    out: [],
    groups: [],
    repeats: 0,
    repeatsMost: 0,
    atom: undefined,
    isDotAll: flags.includes("s"),
  };
  while (state.at < pattern.length) readNext(state);
  if (state.groups.length > 0) throw wrongPattern(pattern, "missing ): ");
  const repeats = Math.max(state.repeats, state.repeatsMost);
  const textBytesMax = TEXT_BYTES_MAX[repeats] ?? TEXT_BYTES_MAX_MANY_REPEATS;
  return {
    source: state.out.join(""),
    flags: flags.replace("s", ""),
    isRepeating: repeats > 0,
    textBytesMax,
  };
}

/** The last atom, to which a repeat may apply unless it is a group that branches or repeats. */
interface Atom {
  readonly isComplex: boolean;
}

interface Reader {
  readonly pattern: string;
  at: number;
  readonly out: string[];
  /** Whether each open group holds a repeat or a branch so far. */
  readonly groups: { isComplex: boolean }[];
  /** Repeats in this alternative of the whole pattern, and the most in any before it. */
  repeats: number;
  repeatsMost: number;
  atom: Atom | undefined;
  readonly isDotAll: boolean;
}

const SIMPLE: Atom = { isComplex: false };

function readNext(state: Reader): void {
  const character = String.fromCodePoint(state.pattern.codePointAt(state.at)!);
  const read = SYNTAX[character];
  if (read !== undefined) return read(state);
  emit(state, { text: literal(character), length: character.length }, SIMPLE);
}

/** Readers of the characters with a special meaning; all other characters stand for themselves. */
const SYNTAX: Readonly<Record<string, ((state: Reader) => void) | undefined>> = {
  "\\": readEscape,
  "[": (state) => emit(state, classAt(state.pattern, state.at), SIMPLE),
  "(": openGroup,
  ")": closeGroup,
  "|": (state) => {
    const group = state.groups.at(-1);
    if (group !== undefined) group.isComplex = true;
    else startAlternative(state);
    emit(state, one("|"), undefined);
  },
  ".": (state) => {
    emit(state, one(`[^${state.isDotAll ? "" : "\\n"}${INVALID_BYTES}]`), SIMPLE);
  },
  "^": (state) => emit(state, one("^"), undefined),
  $: (state) => emit(state, one("$"), undefined),
  "*": (state) => readRepeat(state, { text: "*", least: 0, most: Infinity }),
  "+": (state) => readRepeat(state, { text: "+", least: 1, most: Infinity }),
  "?": (state) => readRepeat(state, { text: "?", least: 0, most: 1 }),
  "{": readCount,
};

function startAlternative(state: Reader): void {
  state.repeatsMost = Math.max(state.repeatsMost, state.repeats);
  state.repeats = 0;
}

const one = (text: string): Translated => ({ text, length: 1 });

function emit(state: Reader, { text, length }: Translated, atom: Atom | undefined): void {
  state.out.push(text);
  state.atom = atom;
  state.at += length;
}

function openGroup(state: Reader): void {
  const rest = state.pattern.slice(state.at);
  const named = /^\(\?P?<([A-Za-z_][A-Za-z0-9_]*)>/.exec(rest);
  state.groups.push({ isComplex: false });
  if (named !== null) return emit(state, { text: "(", length: named[0].length }, undefined);
  if (rest.startsWith("(?:")) return emit(state, { text: "(?:", length: 3 }, undefined);
  if (/^\(\?[imsU-]+[:)]/.test(rest))
    throw refusedPattern(state.pattern, `uses ${rest.slice(0, 4)}`);
  if (rest.startsWith("(?"))
    throw wrongPattern(state.pattern, `invalid perl operator: ${rest.slice(0, 3)}`);
  emit(state, one("("), undefined);
}

function closeGroup(state: Reader): void {
  const group = state.groups.pop();
  if (group === undefined) throw wrongPattern(state.pattern, "unexpected ): ");
  const outer = state.groups.at(-1);
  if (outer !== undefined && group.isComplex) outer.isComplex = true;
  emit(state, one(")"), { isComplex: group.isComplex });
}

interface Repeat {
  readonly text: string;
  readonly least: number;
  readonly most: number;
}

const REPEATS_MAX = 1000;

/** `{3}`, `{3,}` or `{3,5}`; any other brace stands for itself. */
function readCount(state: Reader): void {
  const counted = /^\{(\d{1,5})(,?)(\d{0,5})\}/.exec(state.pattern.slice(state.at));
  if (counted === null) return emit(state, one(literal("{")), SIMPLE);
  const [text, first = "", comma, last = ""] = counted;
  const least = Number(first);
  const most = last === "" ? (comma === "" ? least : Infinity) : Number(last);
  const isTooMany = least > REPEATS_MAX || (most > REPEATS_MAX && most !== Infinity);
  if (isTooMany || most < least || (comma === "" && last !== "")) {
    throw wrongPattern(state.pattern, `invalid repetition size: ${text}`);
  }
  readRepeat(state, { text, least, most });
}

function readRepeat(state: Reader, { text, most }: Repeat): void {
  const { pattern, atom } = state;
  if (atom === undefined) {
    throw wrongPattern(pattern, `no argument for repetition operator: ${text}`);
  }
  if (atom.isComplex && most > 1) {
    const reason = "repeats a group that repeats or branches (not linear in time here)";
    throw refusedPattern(pattern, reason);
  }
  if (most > 1) state.repeats += 1;
  const group = state.groups.at(-1);
  if (group !== undefined) group.isComplex = true;
  const rest = pattern.slice(state.at + text.length);
  const lazy = rest.startsWith("?") ? "?" : "";
  if (/^[*+]/.test(rest.slice(lazy.length))) {
    throw wrongPattern(pattern, `bad repetition operator: ${text}${rest.slice(0, 2)}`);
  }
  emit(state, { text: text + lazy, length: text.length + lazy.length }, undefined);
}

const EDGES: ReadonlyMap<string | undefined, string> = new Map([
  ["A", "(?<![\\s\\S])"],
  ["z", "(?![\\s\\S])"],
  ["b", "\\b"],
  ["B", "\\B"],
]);

function readEscape(state: Reader): void {
  const rest = state.pattern.slice(state.at);
  const quoted = /^\\Q([\s\S]*?)(?:\\E|$)/.exec(rest);
  if (quoted !== null) {
    const text = Array.from(quoted[1] ?? "", literal).join("");
    return emit(state, { text, length: quoted[0].length }, SIMPLE);
  }
  const edge = EDGES.get(rest[1]);
  if (edge !== undefined) return emit(state, { text: edge, length: 2 }, undefined);
  emit(state, escapeAt(state.pattern, rest, false), SIMPLE);
}
