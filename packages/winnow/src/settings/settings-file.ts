// The file of `--config`: settings under the names of their flags, without dashes before them.
//
//   replication: 3
//   k-max: 500
//   rest_api_timeout_in_ms: 2000
//   members: [w0@10.0.0.5:7600, w1@10.0.0.6:7600]
//   model-replication: { movies: 3 }
//
// A flag wins over a variable, a variable over the file, the file over the default. One file may serve all
// roles: a name that only another role's command knows is ignored; one that no command knows is an error that
// names its line and the nearest name. YAML is restricted to the data of JSON: no aliases, no tags, no two
// equal keys.

import { createRequire } from "node:module";
import { type Command, InvalidArgumentError, type Option } from "commander";
import {
  WinnowError,
  excerpt,
  nearestName,
  readFailureText,
  repeatedKey,
  yamlTokens,
} from "@winnow/core";
import { readShortFile } from "../process/named-file.ts";
import type * as Yaml from "yaml";
import type { Document, LineCounter, Node, Pair, Scalar } from "yaml";

/** A setting in a file. */
export interface FiledSetting {
  readonly name: string;
  /** As it would be written after the flag. */
  readonly text: string;
  readonly line: number;
}

/** Unknown names that an error tells. */
const TOLD_MAX = 16;
/** Files that people write are shorter. */
const FILE_BYTES_MAX = 256 * 1024;

/** The flag that names such a file; a file cannot name another. */
const FILE_FLAG = "--config";

/** Loaded for the first file only. */
function yaml(): typeof Yaml {
  return createRequire(import.meta.url)("yaml") as typeof Yaml;
}

/** Reads a file. @throws WinnowError INVALID_ARGUMENT for a file that cannot be read, and as `parseSettings` */
export function readSettings(file: string): FiledSetting[] {
  return parseSettings(textOf(file), file);
}

function textOf(file: string): string {
  try {
    return readShortFile(file, FILE_BYTES_MAX);
  } catch (cause) {
    const reason = readFailureText(cause);
    const text = `Cannot read the settings of ${file} (${FILE_FLAG}): ${reason}`;
    throw new WinnowError("INVALID_ARGUMENT", text, { cause });
  }
}

/**
 * The settings in a file's text.
 * @throws WinnowError INVALID_ARGUMENT that names `file` and the line
 * @internal tests call it
 */
export function parseSettings(text: string, file: string): FiledSetting[] {
  const lines = new (yaml().LineCounter)();
  const reader = new SettingsReader(lines, file);
  const document = documentOf(text, lines, reader);
  const [error] = [...document.errors, ...document.warnings];
  if (error !== undefined) throw reader.refusal(error.pos[0], excerpt(error.message));
  return reader.settings(document);
}

function documentOf(text: string, lines: LineCounter, reader: SettingsReader): Document.Parsed {
  const { Composer, Lexer, Parser } = yaml();
  lines.addNewLine(0);
  const parser = new Parser(lines.addNewLine);
  const tokens = yamlTokens(new Lexer().lex(text), parser, (offset, fault) =>
    reader.refusal(offset, `the file ${fault}`),
  );
  const composer = new Composer({ schema: "core", uniqueKeys: false, prettyErrors: false });
  const [document, other] = composer.compose(tokens, true, text.length);
  if (other === undefined) return document as Document.Parsed;
  throw reader.refusal(other.range[0], "the file has a second document; leave one of them out");
}

class SettingsReader {
  readonly #lines: LineCounter;
  readonly #file: string;

  constructor(lines: LineCounter, file: string) {
    this.#lines = lines;
    this.#file = file;
  }

  settings({ contents }: Document.Parsed): FiledSetting[] {
    if (contents === null) return [];
    if (!yaml().isMap(contents)) {
      throw this.refusal(contents.range[0], "a file of settings is a list of name: value");
    }
    this.#refuseRepeated(contents.items);
    return contents.items.map((pair) => {
      const name = this.#name(pair);
      const { line } = this.#lines.linePos((pair.key as Scalar).range?.[0] ?? 0);
      return { name, line, text: this.#text(name, pair.value, line) };
    });
  }

  #refuseRepeated(pairs: readonly Pair[]): void {
    const key = repeatedKey(pairs, yaml().isScalar);
    if (key === undefined) return;
    const name = excerpt(String(key.value));
    throw this.refusal(key.range?.[0], `${name} stands twice; leave one of them out`);
  }

  #name({ key }: Pair): string {
    if (yaml().isScalar(key) && typeof key.value === "string") return key.value;
    throw this.refusal((key as Node).range?.[0], "a setting has a name");
  }

  /** A value, a list of values, or values by name; the latter two are written with commas after a flag. */
  #text(name: string, node: Node | null, line: number): string {
    if (yaml().isSeq(node)) {
      return node.items.map((item) => this.#scalar(name, item, line)).join(",");
    }
    if (yaml().isMap(node)) {
      this.#refuseRepeated(node.items);
      const entry = (pair: Pair): string =>
        `${this.#name(pair)}=${this.#scalar(name, pair.value, line)}`;
      return node.items.map(entry).join(",");
    }
    return this.#scalar(name, node, line);
  }

  #scalar(name: string, node: unknown, line: number): string {
    if (yaml().isScalar(node)) {
      // The text of a number, not its value: 0x10 and 1e3 are refused as they are after a flag.
      if (typeof node.value === "number") return node.source ?? String(node.value);
      if (typeof node.value === "string" || typeof node.value === "boolean")
        return String(node.value);
    }
    const what = `${excerpt(name)} is to be a text, a number, true or false, or a list of these`;
    throw this.#refusalAt(line, what);
  }

  refusal(offset: number | undefined, fault: string): WinnowError {
    return this.#refusalAt(Math.max(1, this.#lines.linePos(offset ?? 0).line), fault);
  }

  #refusalAt(line: number, fault: string): WinnowError {
    return new WinnowError("INVALID_ARGUMENT", `${this.#file}, line ${line}: ${fault}`);
  }
}

/** The name of an option in a file; `undefined` for an option that a file cannot set. */
export function settingNameOf({ long }: Option): string | undefined {
  return long === undefined || long === null || long === FILE_FLAG ? undefined : long.slice(2);
}

/** Where a command's settings were read, by commander's name: `file, line 7`. */
export type SettingPlaces = ReadonlyMap<string, string>;

/**
 * Sets the options that no flag and no variable has set.
 * @param known names of all settings of all commands: those that this command lacks are ignored
 * @throws WinnowError INVALID_ARGUMENT that names the unknown names, or a value that is not allowed
 */
export function applySettings(
  command: Command,
  settings: readonly FiledSetting[],
  { file, known }: { readonly file: string; readonly known: readonly string[] },
): SettingPlaces {
  refuseUnknown(settings, { file, known });
  const places = new Map<string, string>();
  for (const { name, text, line } of settings) {
    const option = command.options.find((candidate) => settingNameOf(candidate) === name);
    const source = option && command.getOptionValueSource(option.attributeName());
    if (option === undefined || source === "cli" || source === "env") continue;
    const place = `${file}, line ${line}`;
    command.setOptionValueWithSource(option.attributeName(), parsed(option, text, place), "config");
    places.set(option.attributeName(), place);
  }
  return places;
}

function parsed(option: Option, text: string, place: string): unknown {
  try {
    return option.parseArg === undefined ? text : option.parseArg(text, undefined);
  } catch (error) {
    if (!(error instanceof InvalidArgumentError)) throw error;
    const what = `${settingNameOf(option)} is ${JSON.stringify(excerpt(text))}. ${error.message}`;
    throw new WinnowError("INVALID_ARGUMENT", `${place}: ${what}`, { cause: error });
  }
}

function refuseUnknown(
  settings: readonly FiledSetting[],
  { file, known }: { readonly file: string; readonly known: readonly string[] },
): void {
  const unknown = settings.filter(({ name }) => !known.includes(name));
  if (unknown.length === 0) return;
  const described = unknown.slice(0, TOLD_MAX).map(({ name, line }) => {
    const nearest = nearestName(name, known);
    const meant = nearest === undefined ? "" : ` (did you mean ${nearest}?)`;
    return `${excerpt(name)} in line ${line}${meant}`;
  });
  if (unknown.length > TOLD_MAX) described.push(`and ${unknown.length - TOLD_MAX} more`);
  throw new WinnowError(
    "INVALID_ARGUMENT",
    `No setting of ${file} is called ${described.join(", ")}: winnow config list names them all`,
  );
}
