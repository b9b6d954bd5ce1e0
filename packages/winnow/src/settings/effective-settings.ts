// The output of `winnow config print`: every setting of a command, its value, and where the value came from.
// Secrets are never shown, only whether there is one.

import type { Command, Option } from "commander";
import { defaultOf, flagNameOf, limitAttributeOf } from "./limit-flags.ts";
import { limitsAndTimes } from "./limits-and-times.ts";
import type { SettingPlaces } from "./settings-file.ts";

/** One setting of a command. */
export interface EffectiveSetting {
  readonly name: string;
  /** `null`: not set, and not required. */
  readonly value: string | number | boolean | null;
  /** `default`, `flag`, the name of a variable, or a file and its line. */
  readonly source: string;
}

/** Variables that hold secrets, and variables without a flag. */
export interface PlainVariables {
  readonly variables: Readonly<Record<string, string | undefined>>;
  readonly names: readonly string[];
  readonly secret: (name: string) => boolean;
}

/** The settings of a command that has been parsed; those with a flag in order of their names. */
export function effectiveSettings(
  command: Command,
  places: SettingPlaces,
  plain: PlainVariables,
): EffectiveSetting[] {
  const own = command.options
    .filter(({ long }) => long !== undefined && long !== null)
    .map((option) => effectiveSetting(command, option, places))
    .toSorted((a, b) => (a.name < b.name ? -1 : 1));
  const others = plain.names.map((name) => {
    const value = plain.variables[name];
    const isSet = value !== undefined && value !== "";
    const told = isSet && plain.secret(name) ? "(set, not shown)" : value;
    return { name, value: isSet ? told! : null, source: isSet ? name : "default" };
  });
  return [...own, ...others];
}

function effectiveSetting(
  command: Command,
  option: Option,
  places: SettingPlaces,
): EffectiveSetting {
  const attribute = option.attributeName();
  const limit = limitsAndTimes.find((each) => limitAttributeOf(each) === attribute);
  const value: unknown = command.getOptionValue(attribute) ?? (limit && defaultOf(limit));
  const source = command.getOptionValueSource(attribute);
  const name = option.long!.slice(2);
  return { name, value: shown(value), source: placeOf(option, source, places) };
}

function placeOf(option: Option, source: string | undefined, places: SettingPlaces): string {
  if (source === "cli") return "flag";
  if (source === "env") return option.envVar ?? "variable";
  return places.get(option.attributeName()) ?? "default";
}

function shown(value: unknown): string | number | boolean | null {
  if (typeof value === "number" || typeof value === "boolean") return value;
  const text = textOf(value);
  return text === undefined || text === "" ? null : withoutPassword(text);
}

/** The value of a flag as it would be written after it; `undefined` for none. */
export function textOf(value: unknown): string | undefined {
  if (value instanceof Map) {
    return Array.from(value as Map<string, number>, ([name, of]) => `${name}=${of}`).join(",");
  }
  if (typeof value === "string") return value;
  return typeof value === "number" || typeof value === "boolean" ? String(value) : undefined;
}

/**
 * URLs, such as that of Redis, without their password and the values of their query. A password may hold any
 * character: whoever wrote "/" or "@" into it is about to learn that they must be escaped.
 */
function withoutPassword(text: string): string {
  if (!text.includes("://")) return text;
  return text
    .replaceAll(/(\w+:\/\/[^:/@\s]*):\S*@/g, "$1:***@")
    .replaceAll(/([?&][^=&\s]*)=[^&\s]+/g, "$1=***");
}

/** One line for each setting: name, value, source. */
export function settingsText(settings: readonly EffectiveSetting[]): string {
  const rows = settings.map(({ name, value, source }) => [name, String(value ?? "-"), source]);
  const widths = [0, 1].map((column) => Math.max(...rows.map((row) => row[column]!.length)));
  const line = ([name = "", value = "", source = ""]: readonly string[]): string =>
    `${name.padEnd(widths[0]!)}  ${value.padEnd(Math.min(widths[1]!, 40))}  ${source}`;
  return `${rows.map(line).join("\n")}\n`;
}

/** Defaults of limits and times, by name, which commander does not show. */
export const limitDefaults: ReadonlyMap<string, number | boolean> = new Map(
  limitsAndTimes.map((limit) => [flagNameOf(limit), limit.fallback]),
);
