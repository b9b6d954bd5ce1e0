// YAML as fields that are read one by one, each with its path, so that every error names line and field. YAML
// is restricted to the data of JSON: no aliases (a few bytes of them make gigabytes), no tags, no two equal
// keys.

import { createRequire } from "node:module";
import type * as Yaml from "yaml";
import type { Document, LineCounter, Node } from "yaml";
import { WinnowError, excerpt, nearestName, repeatedKey, yamlTokens } from "@winnow/core";
import type { JsonValue } from "@winnow/core";

/** Depth of nested values where any value is accepted. */
const DEPTH_MAX = 40;

/** Loaded for the first pipeline, so that reader threads start without other packages. */
function yaml(): typeof Yaml {
  return createRequire(import.meta.url)("yaml") as typeof Yaml;
}

/** The document of a file. @throws WinnowError INVALID_ARGUMENT naming file, line and field */
export function yamlDocument(content: Uint8Array, file: string): Field {
  const lines = new (yaml().LineCounter)();
  const place = new Places(lines, file);
  const document = documentOf(textOf(content, file), lines, place);
  const [error] = [...document.errors, ...document.warnings];
  if (error !== undefined) {
    throw place.refusal(error.pos[0], "the file", excerpt(error.message));
  }
  refuseOthersThanJson(document, place);
  return new Field(place, { node: document.contents, path: "", offset: 0 });
}

function documentOf(text: string, lines: LineCounter, place: Places): Document.Parsed {
  const { Composer, Lexer, Parser } = yaml();
  lines.addNewLine(0);
  const parser = new Parser(lines.addNewLine);
  const tokens = yamlTokens(new Lexer().lex(text), parser, (offset, fault) =>
    place.refusal(offset, "the file", fault),
  );
  const composer = new Composer({ schema: "core", uniqueKeys: false, prettyErrors: false });
  const [document, other] = composer.compose(tokens, true, text.length);
  if (other === undefined) return document as Document.Parsed;
  throw place.refusal(other.range[0], "the file", "has a second document; leave one of them out");
}

function textOf(content: Uint8Array, file: string): string {
  try {
    return new TextDecoder("utf-8", { fatal: true }).decode(content);
  } catch (cause) {
    throw new WinnowError("INVALID_ARGUMENT", `Cannot read ${file}: it is not UTF-8`, { cause });
  }
}

/** The path of the key that begins at `offset`, as fields have it: `stages[0].retrieve.k`. */
function pathOfKey(document: Document.Parsed, offset: number): string {
  const { isNode, isPair, isScalar, isSeq, visit } = yaml();
  let path = "";
  visit(document, {
    Pair: (_, pair, ancestors) => {
      if (!isNode(pair.key) || pair.key.range?.[0] !== offset) return undefined;
      const nodes = [...ancestors, pair];
      for (const [at, node] of nodes.entries()) {
        if (isPair(node) && isScalar(node.key)) path += `.${String(node.key.value)}`;
        if (isSeq(node)) path += `[${node.items.indexOf(nodes[at + 1])}]`;
      }
      return visit.BREAK;
    },
  });
  return path.replace(/^\./, "");
}

function refuseOthersThanJson(document: Document.Parsed, place: Places): void {
  const { isScalar, visit } = yaml();
  visit(document, {
    Alias: (_, { range, source }) => {
      throw place.refusal(range?.[0], `*${source}`, "is an alias; write it out");
    },
    Map: (_, { items }) => {
      const key = repeatedKey(items, isScalar);
      if (key === undefined) return;
      const offset = key.range?.[0] ?? 0;
      const path = pathOfKey(document, offset);
      throw place.refusal(offset, path, "stands twice; leave one of them out");
    },
  });
}

class Places {
  readonly #lines: LineCounter;
  readonly #file: string;

  constructor(lines: LineCounter, file: string) {
    this.#lines = lines;
    this.#file = file;
  }

  refusal(offset: number | undefined, field: string, fault: string): WinnowError {
    const { line } = this.#lines.linePos(offset ?? 0);
    const where = `Cannot read ${this.#file}, line ${Math.max(1, line)}, ${excerpt(field)}`;
    return new WinnowError("INVALID_ARGUMENT", `${where}: ${fault}`);
  }
}

interface FieldParts {
  readonly node: Node | null;
  readonly path: string;
  /** Where errors point to if there is no value. */
  readonly offset: number;
}

/** A value and its path. Readers throw the error that `refused` makes. */
export class Field {
  readonly #place: Places;
  readonly #parts: FieldParts;

  constructor(place: Places, parts: FieldParts) {
    this.#place = place;
    this.#parts = parts;
  }

  /** The error for this value. */
  refused(fault: string): WinnowError {
    const { node, path, offset } = this.#parts;
    return this.#place.refusal(node?.range?.[0] ?? offset, path === "" ? "the file" : path, fault);
  }

  /** The members; `known`: the names that they may have. */
  members(known?: readonly string[]): Members {
    const { node, path, offset } = this.#parts;
    if (!yaml().isMap(node)) throw this.refused("is not a map of names to values");
    const fields = new Map<string, Field>();
    for (const { key, value } of node.items) {
      const name = yaml().isScalar(key) ? String(key.value) : "";
      const member = new Field(this.#place, {
        node: value as Node | null,
        path: path === "" ? name : `${path}.${name}`,
        offset: (key as Node).range?.[0] ?? offset,
      });
      if (name === "") throw this.refused("has a field without a name");
      if (known?.includes(name) === false) throw member.#unknown(name, known);
      fields.set(name, member);
    }
    return new Members(fields, (name) =>
      this.#place.refusal(node.range?.[0] ?? offset, name, "is missing"),
    );
  }

  #unknown(name: string, known: readonly string[]): WinnowError {
    const nearest = nearestName(name, known);
    const hint = nearest === undefined ? "" : `; did you mean ${nearest}?`;
    return this.refused(`is unknown here; known: ${known.join(", ")}${hint}`);
  }

  /** The elements; `undefined` if the value is no list. */
  elements(): readonly Field[] | undefined {
    const { node, path, offset } = this.#parts;
    if (!yaml().isSeq(node)) return undefined;
    return (node.items as (Node | null)[]).map((item, at) => {
      const place = { path: `${path}[${at}]`, offset: item?.range?.[0] ?? offset };
      return new Field(this.#place, { node: item, ...place });
    });
  }

  /** A number, text, truth value or null; `undefined` for lists and maps. */
  scalar(): unknown {
    const { node } = this.#parts;
    return yaml().isScalar(node) ? node.value : undefined;
  }

  text(): string {
    const value = this.scalar();
    if (typeof value === "string" && value !== "") return value;
    throw this.refused("is not a text");
  }

  /** An integer within both bounds. */
  integer(least: number, most: number): number {
    const value = this.scalar();
    const isInteger = typeof value === "number" && Number.isInteger(value);
    if (isInteger && value >= least && value <= most) return value;
    throw this.refused(`is not an integer from ${least} to ${most}`);
  }

  /** A time such as `50ms` or `2s`, in ms; at least 1. */
  durationMs(most: number): number {
    const value = this.scalar();
    const [, digits, unit] = (typeof value === "string" && /^(\d{1,6})(ms|s)$/.exec(value)) || [];
    const ms = Number(digits ?? 0) * (unit === "s" ? 1000 : 1);
    if (ms >= 1 && ms <= most) return ms;
    throw this.refused(`is not a time from 1ms to ${most}ms, such as 50ms or 2s`);
  }

  /** A number within both bounds. */
  number(least: number, most: number): number {
    const value = this.scalar();
    if (typeof value === "number" && value >= least && value <= most) return value;
    throw this.refused(`is not a number from ${least} to ${most}`);
  }

  /** Any value, with exact integers beyond 2⁵³. */
  json(depth = 0): JsonValue {
    if (depth > DEPTH_MAX) throw this.refused(`lies deeper than ${DEPTH_MAX} levels`);
    const { node } = this.#parts;
    if (yaml().isMap(node)) {
      const entries = this.members().entries();
      return new Map(entries.map(([name, field]) => [name, field.json(depth + 1)]));
    }
    const elements = this.elements();
    if (elements !== undefined) return elements.map((field) => field.json(depth + 1));
    const source = yaml().isScalar(node) ? (node.source ?? "") : "";
    const value = this.scalar();
    if (typeof value === "number" && !Number.isSafeInteger(value) && /^[-+]?\d+$/.test(source)) {
      return BigInt(source);
    }
    return value === undefined ? null : (value as JsonValue);
  }
}

/** The members of a map. */
export class Members {
  readonly #fields: ReadonlyMap<string, Field>;
  readonly #missing: (name: string) => WinnowError;

  constructor(fields: ReadonlyMap<string, Field>, missing: (name: string) => WinnowError) {
    this.#fields = fields;
    this.#missing = missing;
  }

  entries(): readonly (readonly [string, Field])[] {
    return [...this.#fields];
  }

  get(name: string): Field | undefined {
    return this.#fields.get(name);
  }

  /** A member that must be present. @throws WinnowError INVALID_ARGUMENT if it is missing */
  needed(name: string): Field {
    const field = this.#fields.get(name);
    if (field !== undefined) return field;
    throw this.#missing(name);
  }
}
