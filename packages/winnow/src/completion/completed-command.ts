// What shell completion knows of the command line, read from the commands themselves.

import type { Argument, Command, Option } from "commander";

/** The kind of value that a flag or an argument has. */
type CompletedValue =
  | { readonly kind: "choices"; readonly choices: readonly string[] }
  | { readonly kind: "directory" | "file" | "text" };

/** A flag in all its spellings. */
export interface CompletedFlag {
  readonly names: readonly string[];
  readonly description: string;
  /** `undefined`: the flag takes no value. */
  readonly value: CompletedValue | undefined;
}

/** A command, below the commands named before it. */
export interface CompletedCommand {
  /** Its names from the root, which has none: `["keys", "create"]`. */
  readonly path: readonly string[];
  readonly description: string;
  readonly flags: readonly CompletedFlag[];
  readonly commands: readonly CompletedCommand[];
  /** The kind of the command's arguments. */
  readonly argument: CompletedValue;
}

const HELP: CompletedFlag = {
  names: ["-h", "--help"],
  description: "display help for command",
  value: undefined,
};

/** A command with all below it. */
export function completedCommand(command: Command, path: readonly string[] = []): CompletedCommand {
  return {
    path,
    description: command.description(),
    flags: [...command.options.filter(({ hidden }) => !hidden).map(completedFlag), HELP],
    commands: command.commands
      .filter((each) => each.name() !== "help")
      .map((each) => completedCommand(each, [...path, each.name()])),
    argument: argumentOf(command.registeredArguments[0]),
  };
}

/** A command and all below it. */
export function withAllBelow(command: CompletedCommand): readonly CompletedCommand[] {
  return [command, ...command.commands.flatMap(withAllBelow)];
}

function completedFlag(option: Option): CompletedFlag {
  const { short, long, description, argChoices, required, optional } = option;
  const names = [short, long].filter((name) => name !== undefined && name !== null);
  if (!required && !optional) return { names, description, value: undefined };
  if (argChoices !== undefined) {
    return { names, description, value: { kind: "choices", choices: argChoices } };
  }
  const placeholder = /[<[]([^>\]]+)[>\]]/.exec(option.flags)?.[1] ?? "";
  return { names, description, value: { kind: kindOf(placeholder) } };
}

function argumentOf(argument: Argument | undefined): CompletedValue {
  if (argument?.argChoices !== undefined) {
    return { kind: "choices", choices: argument.argChoices };
  }
  return { kind: kindOf(argument?.name() ?? "") };
}

/** The kind of a value, by its placeholder in the help text. */
function kindOf(placeholder: string): "directory" | "file" | "text" {
  if (/^(?:dir|directory)$/.test(placeholder)) return "directory";
  return /^(?:file|path|report)$/.test(placeholder) ? "file" : "text";
}
