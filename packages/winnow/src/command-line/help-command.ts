// `winnow help [command...]`, in place of commander's own, which knows one level of commands. A name that no command
// has is an error here and before `--help`; commander would answer it with the help of the level above.

import { Command } from "commander";

/** Gives a command and those below it a `help` that refuses names that it does not know. */
export function addHelpCommands(command: Command): Command {
  command.commands.forEach(addHelpCommands);
  if (command.commands.length === 0) return command;
  command.helpCommand(false).addCommand(helpCommand(command));
  return command.addHelpText("before", () => {
    const [first] = command.args;
    if (first !== undefined && !first.startsWith("-")) commandNamed(command, [first]);
    return "";
  });
}

function helpCommand(above: Command): Command {
  return new Command("help")
    .description("display help for command")
    .argument("[command...]")
    .exitOverride()
    .action((names: readonly string[]) => commandNamed(above, names).help());
}

/** The command below `above` that the names lead to. Ends with a usage error where there is none. */
function commandNamed(above: Command, names: readonly string[]): Command {
  return names.reduce((found, name) => {
    const next = found.commands.find((command) => command.name() === name);
    if (next !== undefined) return next;
    const known = found.commands.map((command) => command.name()).join(", ");
    const told = known === "" ? `${found.name()} has no commands` : `there are ${known}`;
    return found.error(`error: unknown command '${name}': ${told}`);
  }, above);
}
