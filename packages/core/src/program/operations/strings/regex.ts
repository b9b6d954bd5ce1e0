// Regular expressions over strings: RegexReplace and RegexFullMatch, with the pattern as an
// attribute (Static…) or an input. Patterns are compiled once and kept.

import { WinnowError } from "../../../errors/errors.ts";
import { stringList } from "../element-positions.ts";
import { booleanAttribute, bytesAt, stringsAt, textAttribute } from "../host-call.ts";
import type { HostCall, HostOperations } from "../host-call.ts";
import { invalid } from "../../node-error.ts";
import { translateRegex } from "../../regex/regex-translation.ts";
import type { HostStep } from "../../program.ts";
import type { Tensor } from "../../../tensor/tensor.ts";
import { stringsOf, tensorOf, zeros } from "../tensor-memory.ts";

/** Regular expressions, by TensorFlow's name. */
export const regexOperations: HostOperations = {
  StaticRegexReplace: (call) => [
    replaceIn(call, textAttribute(call, "pattern", ""), textAttribute(call, "rewrite", "")),
  ],
  RegexReplace: (call) => [replaceIn(call, textAt(call, 1), textAt(call, 2))],
  StaticRegexFullMatch: (call) => [fullMatch(call, textAttribute(call, "pattern", ""))],
  RegexFullMatch: (call) => [fullMatch(call, textAt(call, 1))],
};

/** Refuses a pattern or rewrite that cannot be used. @throws WinnowError */
export function checkRegex(pattern: string, rewrite: string): void {
  rewriteParts(rewrite, compiled(pattern).groups);
}

interface Compiled {
  /** Finds the next match from `lastIndex` on. */
  readonly find: RegExp;
  /** Matches the whole text; `lastIndex` must be 0. */
  readonly full: RegExp;
  readonly groups: number;
  readonly isRepeating: boolean;
  readonly textBytesMax: number;
}

const PATTERNS_KEPT = 256;
const patterns = new Map<string, Compiled>();

function compiled(pattern: string): Compiled {
  const known = patterns.get(pattern);
  if (known !== undefined) return known;
  const { source, flags, isRepeating, textBytesMax } = translateRegex(pattern);
  const groups = new RegExp(`${source}|`, `u${flags}`).exec("")!.length - 1;
  const made = {
    find: new RegExp(source, `gu${flags}`),
    full: new RegExp(`(?:${source})${flags.includes("m") ? "(?![\\s\\S])" : "$"}`, `uy${flags}`),
    groups,
    isRepeating,
    textBytesMax,
  };
  if (patterns.size >= PATTERNS_KEPT) patterns.clear();
  patterns.set(pattern, made);
  return made;
}

const strict = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });
const encoder = new TextEncoder();

function textAt(call: HostCall, position: number): string {
  return characters(bytesAt(call, position));
}

/** Bytes as text; each byte that is not UTF-8 becomes a lone surrogate. */
function characters(bytes: Uint8Array): string {
  try {
    return strict.decode(bytes);
  } catch {
    return Array.from(pieces(bytes)).join("");
  }
}

function* pieces(bytes: Uint8Array): Generator<string> {
  let at = 0;
  while (at < bytes.length) {
    const length = [1, 2, 3, 4].find((size) => isCharacter(bytes.subarray(at, at + size), size));
    if (length === undefined) yield String.fromCharCode(0xdc00 + bytes[at]!);
    else yield strict.decode(bytes.subarray(at, at + length));
    at += length ?? 1;
  }
}

function isCharacter(bytes: Uint8Array, size: number): boolean {
  const expected = bytes[0]! < 0x80 ? 1 : bytes[0]! < 0xe0 ? 2 : bytes[0]! < 0xf0 ? 3 : 4;
  if (bytes.length !== size || size !== expected) return false;
  try {
    strict.decode(bytes);
    return true;
  } catch {
    return false;
  }
}

/** Text as bytes: the inverse of `characters`. */
function bytesOf(text: string): Uint8Array {
  const bytes = encoder.encode(text);
  if (!/[\uDC80-\uDCFF]/.test(text)) return bytes;
  const out: number[] = [];
  for (const character of text) {
    const unit = character.charCodeAt(0);
    if (character.length === 1 && unit >= 0xdc80 && unit <= 0xdcff) out.push(unit - 0xdc00);
    else out.push(...encoder.encode(character));
  }
  return Uint8Array.from(out);
}

function replaceIn(call: HostCall, pattern: string, rewrite: string): Tensor {
  const { data, shape } = stringsAt(call, 0);
  const regex = compiled(pattern);
  const { find } = regex;
  const parts = rewriteParts(rewrite, regex.groups);
  const strings = stringList(data);
  checkWork(strings, regex);
  const isGlobal = booleanAttribute(call, "replace_global", true);
  const replaced = strings.map((bytes) => {
    return bytesOf(replaceText(characters(bytes), find, { parts, isGlobal }));
  });
  return stringsOf(shape, replaced);
}

/** RE2's GlobalReplace: an empty match right after the previous match does not count. */
function replaceText(
  text: string,
  find: RegExp,
  { parts, isGlobal }: { readonly parts: readonly (string | number)[]; readonly isGlobal: boolean },
): string {
  const out: string[] = [];
  let done = 0;
  let lastEnd = -1;
  find.lastIndex = 0;
  for (;;) {
    const match = find.exec(text);
    if (match === null) break;
    const end = match.index + match[0].length;
    if (match[0] !== "" || match.index !== lastEnd) {
      out.push(text.slice(done, match.index));
      for (const part of parts) out.push(typeof part === "string" ? part : (match[part] ?? ""));
      done = end;
      lastEnd = end;
      if (!isGlobal) break;
    }
    if (match[0] === "") find.lastIndex += (text.codePointAt(end) ?? 0) > 0xffff ? 2 : 1;
  }
  return out.join("") + text.slice(done);
}

/** Literal text and group numbers of a rewrite: `\1-\0` is [1, "-", 0]. */
function rewriteParts(rewrite: string, groups: number): (string | number)[] {
  return Array.from(rewrite.matchAll(/\\([\s\S]?)|[^\\]+/g), ([text, escaped]) => {
    if (escaped === undefined) return text;
    if (escaped === "\\") return "\\";
    if (!/^[0-9]$/.test(escaped)) {
      throw invalid(`Invalid rewrite string: ${rewrite}, error: invalid escape \\${escaped}`);
    }
    if (Number(escaped) > groups) {
      throw invalid(
        `Invalid rewrite string: ${rewrite} asks for group ${escaped}, but the pattern has ${groups}`,
      );
    }
    return Number(escaped);
  });
}

function fullMatch(call: HostCall, pattern: string): Tensor {
  const { data, shape } = stringsAt(call, 0);
  const regex = compiled(pattern);
  const { full } = regex;
  const strings = stringList(data);
  checkWork(strings, regex);
  const out = zeros("bool", shape);
  for (const [at, bytes] of strings.entries()) {
    full.lastIndex = 0;
    out[at] = Number(full.test(characters(bytes)));
  }
  return tensorOf("bool", shape, out);
}

/** Estimated steps that one operation may take: about a second on one core at worst. */
const STEPS_MAX = 2 ** 28;

/** Steps that matching a text takes at worst: where parts repeat, each may begin at each character. */
function stepsOf(length: number, { isRepeating }: Compiled): number {
  return isRepeating ? length ** 2 : length;
}

/** Steps that an operation of this file takes at worst; 0 for a pattern that it refuses. */
export function regexSteps({ op, attributes }: HostStep, inputs: readonly Tensor[]): number {
  const [texts, pattern] = inputs;
  if (texts?.dtype !== "string") return 0;
  const isGiven = !op.startsWith("Static") && pattern?.dtype === "string";
  let regex: Compiled;
  try {
    regex = compiled(
      isGiven ? characters(pattern.data.at(0)) : String(attributes["pattern"] ?? ""),
    );
  } catch {
    return 0;
  }
  let steps = 0;
  for (let at = 0; at < texts.data.length; at += 1) {
    steps += stepsOf(texts.data.lengthAt(at), regex);
  }
  return steps;
}

/** Refuses text that would take too long. @throws WinnowError RESOURCE_EXHAUSTED */
function checkWork(strings: readonly Uint8Array[], regex: Compiled): void {
  const { textBytesMax } = regex;
  let steps = 0;
  for (const { length } of strings) {
    steps += stepsOf(length, regex);
    if (length > textBytesMax) {
      const limit = `this regular expression is matched against at most ${textBytesMax} bytes`;
      throw new WinnowError("RESOURCE_EXHAUSTED", `A string of ${length} bytes: ${limit}`);
    }
  }
  if (steps > STEPS_MAX) {
    const reason = `${strings.length} strings are too much text for one regular expression`;
    throw new WinnowError("RESOURCE_EXHAUSTED", `${reason}; send fewer or shorter ones`);
  }
}
